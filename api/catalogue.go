package api

import (
	"net/http"
	"strings"

	"recoveryledger/ledger/entry"
)

// ProblemType is the meaning of a type of problem, apart from a single request.
type ProblemType struct {
	Name   entry.Problem
	Status int    // HTTP
	Title  string // one line
	Remedy string // where the occasion has none of its own
	Text   string // for `arl explain`: the reason for the problem type, and the usual causes
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
			"REG-1: JSON, envelope or payload break the protocol: a member is missing, duplicate, out of range, of another type or unknown in " +
				"crit, or a query parameter is unknown. Parsing fails closed, so that no two readers see two meanings. field names " +
				"the member as a path, such as parents[2].exec; detail shows the value."},
		{entry.UnsupportedAlg, http.StatusBadRequest, "The key's algorithm is not supported",
			"use Ed25519, or ECDSA on P-256",
			"Keys are Ed25519, or ECDSA P-256 with SHA-256. Points of small order and non-canonical encodings are malformed: under such " +
				"a key one signature can fit many messages."},
		{entry.BadSignature, http.StatusBadRequest, "The signature does not verify",
			"sign the DSSE pre-authentication encoding of the exact payload bytes",
			"REG-5: the signature is not the enrolled key's over \"DSSEv1\" SP len(type) SP type SP len(payload) SP payload. Usual " +
				"causes: the payload was serialized again after signing, the base64 text was signed instead of the bytes, an " +
				"Ed25519ph or raw r‖s signature was made instead of Ed25519 or ASN.1 DER."},
	}
}

func noRights() []ProblemType {
	return []ProblemType{
		{entry.UnknownIssuer, http.StatusUnauthorized, "The issuer has no enrolled key with this id",
			"enrol the key, or sign with an enrolled key",
			"REG-4: keyid is not enrolled for exactly this iss, or the key was revoked or replaced. GET /v1/agents/{iss} lists the " +
				"issuer's keys. On an empty log only a key in the authority of the genesis policy may sign."},
		{entry.UnauthorizedRole, http.StatusForbidden, "The issuer's role does not allow this",
			"ask the policy's authority for the role, or let a principal with the role sign",
			"REG-4, TRU-2: every kind, act, standing and operation has roles that may sign it. A key has the roles of the entry that " +
				"enrolled it. Only the policy's authority grants roles other than plain agent."},
		{entry.NoStanding, http.StatusForbidden, "The issuer has no standing for this signal",
			"claim the standing that the log shows: executor for an own execution, upstream or downstream across a declared edge",
			"A signal's standing must be visible in the log. The executor is the agent of the subject, upstream the agent of a direct " +
				"parent, downstream the agent of a direct child. Monitor and operator are roles."},
		{entry.WrongAudience, http.StatusForbidden, "The entry is meant for another ledger",
			"sign the entry for this ledger, or send it to the ledger that aud names",
			"REG-3: aud is not this ledger's origin (GET /v1/log). So an entry that was signed for one ledger is worth nothing at another."},
		{entry.ScopeExceedsPolicy, http.StatusForbidden, "The rollback is larger than the policy allows",
			"escalate it to the approvers",
			"The plan has more members, agents or domains, or longer fences, than the policy allows for this kind of decision."},
	}
}

func conflicts() []ProblemType {
	return []ProblemType{
		{entry.NotFound, http.StatusNotFound, "Not found",
			"check the path; GET /v1/log has the size of the log",
			"The path names no resource, or an index, a tile or a size that the log has not reached."},
		{entry.IDConflict, http.StatusConflict, "Another entry has this id",
			"give every new entry a new jti",
			"REG-2: the log has an entry of the same iss and jti with other bytes. Sending the same bytes again is no conflict: the ledger " +
				"answers the first receipt. Two validly signed objects under one id are equivocation; the ledger keeps them as evidence."},
		{entry.StateConflict, http.StatusConflict, "The current state does not allow this entry",
			"read the entries that the entry refers to, and send an entry that may follow them",
			"REG-9: the entry is well-formed and its signer may write such entries, but not after what the log holds: progress goes " +
				"back, a key is enrolled twice, a checkpoint id is used again, or this version does not take the kind."},
		{entry.PolicySuperseded, http.StatusConflict, "Another policy is in force",
			"fetch the policy in force, apply the change to it, and name it as previous",
			"A policy names its predecessor by index and leaf hash, and another policy was registered in between. So two administrators " +
				"cannot overwrite each other."},
		{entry.FencedDependency, http.StatusConflict, "The execution touches a fence",
			"if waits_for is there, wait for that; otherwise do the step again under a new id, with parents that are not fenced",
			"INC-4: while an incident fences executions, nothing new may depend on them or join their line, and none of them may be started. " +
				"incident names the incident, and waits_for says what the incident waits for. Without waits_for the incident is closed, and its " +
				"undone members stay fenced: do the step again under a new id, with parents that are not fenced. An approver who does not own the member " +
				"can lift its fence: arl incident release INCIDENT --member EXECUTION."},
		{entry.StaleEpoch, http.StatusConflict, "The epoch is over",
			"fetch the task or incident, and act under its current epoch",
			"A newer lease or decision replaced the one that the entry names."},
	}
}

func laterTypes() []ProblemType {
	return []ProblemType{
		{entry.TooLarge, http.StatusRequestEntityTooLarge, "The request is too large",
			"log the digest of large content instead of the content; split a batch",
			"An envelope has at most 48 KiB; a batch has at most 4,096 lines and 64 MiB. The lines before the line at fault are registered."},
		{entry.Stale, http.StatusUnprocessableEntity, "The entry is too old, or from the future",
			"set the clock right, and sign the entry again with a new jti",
			"REG-6: the distance of iat from the ledger's clock is larger than the policy's window. The window bounds how long a captured " +
				"envelope can be replayed."},
		{entry.UnknownSubject, http.StatusUnprocessableEntity, "The entry refers to something that is not in the log",
			"first register what the entry refers to",
			"REG-8: a parent, subject, checkpoint, key or earlier entry that the entry refers to is not in the log before it."},
		{entry.ScopeMismatch, http.StatusUnprocessableEntity, "The rollback set is not the set that the log gives",
			"compute the plan again at the newest size",
			"SCO-5: the decision's rollback set, signals, impact or pin differ from what the log gives at the decision's own index."},
		{entry.RateLimited, http.StatusTooManyRequests, "Too many requests",
			"wait as long as Retry-After says, then send the same bytes again",
			"The address sends too fast, too many signature checks wait, the issuer has used its hourly quota (REG-7), too many of its " +
				"entries wait behind that quota, or it signals a subject again after its signal was dismissed. Nothing was registered, and refused requests cost no quota."},
		{entry.NotReady, http.StatusServiceUnavailable, "The ledger cannot answer this now",
			"try again later; GET /readyz says when the ledger is ready",
			"The detail names the cause. The ledger opens, ends, or waits: for its clock, which is off by more than the policy's max_step_ms; " +
				"for a key in a KMS that does not sign; for the quorum of the witnesses; for an index entry; for a node of the cluster that leads. " +
				"Or the ledger has fewer entries than the client has seen proven, so that it was restored, or lags behind. " +
				"Sending the same bytes again is safe."},
		{entry.InsufficientStorage, http.StatusInsufficientStorage, "The ledger is short of disk space",
			"free disk space on the server; the ledger goes on by itself",
			"Free space is below the reserve. The ledger refuses entries before the store could fail. Reading and proofs go on."},
	}
}
