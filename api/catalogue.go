package api

import (
	"net/http"
	"strings"

	"recoveryledger/ledger/entry"
)

// ProblemType is what a type of problem means, whatever the occasion.
type ProblemType struct {
	Name   entry.Problem
	Status int    // HTTP
	Title  string // one line
	Remedy string // where the occasion has none of its own
	Text   string // for `arl explain`: why there is such a problem, and what to look at
}

// URI returns the type's URI in problem details.
func (t ProblemType) URI() string { return typePrefix + string(t.Name) }

// Explain returns the type with that name or URI.
func Explain(code string) (ProblemType, bool) {
	name := entry.Problem(strings.TrimPrefix(code, typePrefix))
	for _, t := range Types() {
		if t.Name == name {
			return t, true
		}
	}
	return ProblemType{}, false
}

// Types returns the closed set of problem types, in the order of their status.
func Types() []ProblemType {
	return append(append(badRequests(), noRights()...), append(conflicts(), laterTypes()...)...)
}

func badRequests() []ProblemType {
	return []ProblemType{
		{entry.Malformed, http.StatusBadRequest, "The request is not well-formed",
			"correct the member that field names",
			"REG-1: JSON, envelope or payload are not what the protocol asks for: a member is missing, unknown in crit, of another " +
				"type, out of its range, duplicate, or a query parameter is unknown. Parsing fails closed, so that no two readers " +
				"ever see two meanings. field names the member as a path, such as parents[2].exec; detail shows the value."},
		{entry.UnsupportedAlg, http.StatusBadRequest, "The key's algorithm is not supported",
			"use Ed25519, or ECDSA on P-256",
			"Keys are Ed25519 or ECDSA P-256 with SHA-256; everything else is refused by name. Points of small order and " +
				"non-canonical encodings are malformed: under such a key one signature can fit many messages."},
		{entry.BadSignature, http.StatusBadRequest, "The signature does not verify",
			"sign the DSSE pre-authentication encoding of the exact payload bytes",
			"REG-5: the signature is not the enrolled key's over \"DSSEv1\" SP len(type) SP type SP len(payload) SP payload. Usual " +
				"causes: the payload was serialized again after signing, the base64 text was signed instead of the bytes, an " +
				"Ed25519ph or raw r‖s signature was made instead of Ed25519 or ASN.1 DER."},
	}
}

func noRights() []ProblemType {
	return []ProblemType{
		{entry.UnknownIssuer, http.StatusUnauthorized, "No key that counts is enrolled for the issuer",
			"enrol the key, or sign with the one that is",
			"REG-4: keyid is not enrolled for exactly this iss, or the key was revoked or replaced. GET /v1/agents/{iss} lists the " +
				"issuer's keys. On an empty log only a genesis policy has a signer: a key in its own authority."},
		{entry.UnauthorizedRole, http.StatusForbidden, "The issuer's role does not allow this",
			"ask the policy's authority for the role, or let someone sign who has it",
			"REG-4, TRU-2: every kind, act, standing and operation has roles that may sign it; a key has the roles of the entry that " +
				"enrolled it. Every role but plain agent is granted only by the policy's authority."},
		{entry.NoStanding, http.StatusForbidden, "The issuer has no standing for this signal",
			"claim the standing that the log shows: executor for an own execution, upstream or downstream across a declared edge",
			"A signal's standing must be visible in the log: executor is the agent of the subject, upstream the agent of a direct " +
				"parent, downstream that of a direct child. Monitor and operator are roles."},
		{entry.WrongAudience, http.StatusForbidden, "The entry is meant for another ledger",
			"sign it for this ledger, or send it to the one it names",
			"REG-3: aud is not this ledger's origin (GET /v1/log). It keeps an entry signed for one ledger out of every other."},
		{entry.ScopeExceedsPolicy, http.StatusForbidden, "The rollback is larger than the policy allows",
			"escalate it to the approvers",
			"The plan has more members, agents or domains, or fences for longer, than the policy lets be decided this way."},
	}
}

func conflicts() []ProblemType {
	return []ProblemType{
		{entry.NotFound, http.StatusNotFound, "There is no such thing here",
			"check the path; the log's size is in GET /v1/log",
			"The path names no resource, or an index, a tile or a size that the log has not reached."},
		{entry.IDConflict, http.StatusConflict, "The id is taken by another object",
			"give every new object a new jti",
			"REG-2: the log has an entry of the same iss and jti with other bytes. Sending the same bytes again is not a conflict: it " +
				"answers the receipt. Two validly signed objects under one id are equivocation and are kept as evidence."},
		{entry.StateConflict, http.StatusConflict, "The state does not allow this entry now",
			"read the entries it refers to, and send what may follow them",
			"REG-9: the entry is well-formed and its signer may write such entries, but not after what the log holds: progress that " +
				"goes back, a key enrolled twice, a second checkpoint of one id, a kind that this version does not take."},
		{entry.PolicySuperseded, http.StatusConflict, "Another policy is in force",
			"fetch the policy in force, apply the change to it and name it as previous",
			"A policy names its predecessor by index and leaf hash; another one was registered in between. It keeps two " +
				"administrators from overwriting each other."},
		{entry.FencedDependency, http.StatusConflict, "The execution touches what is fenced",
			"with waits_for: wait for that; without: do the step again under a new id, with parents that stand",
			"INC-4: nothing new may depend on what an incident fences, or join a line that it takes back, and nothing fenced may be dispatched. " +
				"incident names the incident, and waits_for what it waits for. Without waits_for it is over: what it has undone stays fenced for ever. " +
				"The step is done again, under a new id and with parents that stand. What may be used all the same, or a line that could not be " +
				"restored, an approver who does not own it frees by arl incident release INCIDENT --member EXECUTION."},
		{entry.StaleEpoch, http.StatusConflict, "The epoch is over",
			"fetch the task or incident and act under its current epoch",
			"A lease or decision was replaced by a newer one; what was decided under the older no longer counts."},
	}
}

func laterTypes() []ProblemType {
	return []ProblemType{
		{entry.TooLarge, http.StatusRequestEntityTooLarge, "The request is too large",
			"move large content out of the payload and log its digest; split a batch",
			"An envelope has at most 48 KiB; a batch 4,096 lines and 64 MiB. What stands before the line at fault is registered."},
		{entry.Stale, http.StatusUnprocessableEntity, "The entry is too old, or from the future",
			"set the clock right, and sign the entry again with a new jti",
			"REG-6: iat is farther from the ledger's now than the policy's window. It bounds how long a captured envelope can be replayed."},
		{entry.UnknownSubject, http.StatusUnprocessableEntity, "The entry refers to something that is not in the log",
			"register what it refers to first",
			"REG-8: a parent, subject, checkpoint, key or earlier entry that is referred to has no entry before this one."},
		{entry.ScopeMismatch, http.StatusUnprocessableEntity, "The scope is not the one that the log gives",
			"compute the plan again at the newest size",
			"SCO-5: the plan's root differs from the one computed from the log at the decision's own index."},
		{entry.RateLimited, http.StatusTooManyRequests, "Too many requests",
			"wait as long as Retry-After says, then send the same again",
			"The address sends too fast, too many signature checks wait, the issuer has used its quota of the hour (REG-7), too many of its " +
				"entries wait behind that quota, or it signals again what was dismissed as unfounded. Nothing was registered; refused requests cost no quota."},
		{entry.NotReady, http.StatusServiceUnavailable, "The ledger does not take entries now",
			"try again later; GET /readyz says when it is ready",
			"The wall clock is off by more than the policy's max_step_ms, or the server is shutting down. Reading goes on. " +
				"Sending the same again is safe."},
		{entry.InsufficientStorage, http.StatusInsufficientStorage, "The ledger is short of disk space",
			"free disk space on the server; it goes on by itself",
			"Free space is below the reserve, and entries are refused before the store could fail. Reading and proofs go on."},
	}
}
