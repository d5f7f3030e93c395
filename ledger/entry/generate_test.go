package entry_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// seed returns 32 bytes that depend on the name alone.
func seed(name string) []byte {
	sum := sha256.Sum256([]byte("entry test key " + name))
	return sum[:]
}

// ed25519Key returns the key of that name, always the same.
func ed25519Key(name string) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(name)) }

// ecdsaKey returns the P-256 key of that name, always the same.
func ecdsaKey(tb testing.TB, curve elliptic.Curve, name string) *ecdsa.PrivateKey {
	tb.Helper()
	size := (curve.Params().BitSize + 7) / 8
	key, err := ecdsa.ParseRawPrivateKey(curve, append(make([]byte, size-27), seed(name)[:27]...))
	must(tb, err)
	return key
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Generators of what members hold. Each draws the limits too.
var (
	genName = rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9._:/@-]{1,12}`), rapid.Just(strings.Repeat("n", entry.MaxName)))
	genWord = rapid.OneOf(rapid.StringMatching(`[a-z0-9_.-]{1,10}`), rapid.Just(strings.Repeat("w", 64)))
	genText = rapid.OneOf(rapid.StringMatching(`[ -~äß€𝄞"\\]{1,20}`), rapid.Just("\u0000\n\u2028é"),
		rapid.Just(strings.Repeat("t", entry.MaxText)))
	genDigest   = rapid.Map(rapid.StringMatching(`(hmac-)?sha256:[0-9a-f]{64}`), func(text string) entry.Digest { return entry.Digest(text) })
	genUUID     = rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	genCount    = rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, entry.MaxInteger), rapid.Just[int64](entry.MaxInteger))
	genPositive = rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, entry.MaxInteger))
	genIndex    = rapid.OneOf(rapid.Uint64Range(0, 1000), rapid.Uint64Range(0, entry.MaxInteger))
	genHash     = rapid.Map(rapid.SliceOfN(rapid.Byte(), merkle.HashSize, merkle.HashSize), func(b []byte) merkle.Hash { return merkle.Hash(b) })
	genRef      = rapid.Custom(func(t *rapid.T) entry.Ref {
		return entry.NewRef(entry.Principal(genName.Draw(t, "issuer")), genName.Draw(t, "id"))
	})
	genEntryRef = rapid.Custom(func(t *rapid.T) entry.LogRef {
		return entry.LogRef{Index: genIndex.Draw(t, "index"), LeafHash: genHash.Draw(t, "leaf hash")}
	})
	genHeadRef = rapid.Custom(func(t *rapid.T) merkle.Head {
		return merkle.Head{Size: genIndex.Draw(t, "size"), Root: genHash.Draw(t, "root")}
	})
	genEvidence = rapid.Custom(func(t *rapid.T) entry.Evidence {
		return entry.Evidence{Digest: genDigest.Draw(t, "digest"), URI: maybeText(t, "uri", genText)}
	})
	genDisposition = rapid.Custom(func(t *rapid.T) entry.Disposition {
		d := entry.Disposition{Index: genIndex.Draw(t, "index"), Disposition: oneOf(t, "disposition",
			entry.Corroborated, entry.SelfReported, entry.Dismissed, entry.Inconclusive)}
		if d.Disposition == entry.Corroborated {
			d.Domains = rapid.SliceOfNDistinct(genName, 1, 3, rapid.ID[string]).Draw(t, "domains")
			d.Independent = rapid.Bool().Draw(t, "independent")
		}
		return d
	})
	genKey = rapid.Map(rapid.IntRange(0, 9), func(i int) entry.PublicKey {
		key, err := entry.NewPublicKey(ed25519Key(fmt.Sprint("generated ", i)).Public())
		if err != nil {
			panic(err)
		}
		return key
	})
	genRoles = rapid.SliceOfNDistinct(rapid.SampledFrom(entry.Roles()), 1, len(entry.Roles()), rapid.ID[entry.Role])
)

// maybe draws a pointer that may be nil.
func maybe[T any](t *rapid.T, label string, g *rapid.Generator[T]) *T {
	return rapid.Ptr(g, true).Draw(t, label)
}

// maybeText draws a text that may be empty: absent.
func maybeText[T ~string](t *rapid.T, label string, g *rapid.Generator[T]) T {
	return rapid.OneOf(rapid.Just[T](""), g).Draw(t, label)
}

func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func list[T any](t *rapid.T, label string, g *rapid.Generator[T], least int) []T {
	return rapid.SliceOfN(g, least, 4).Draw(t, label)
}

func distinctList[T any, K comparable](t *rapid.T, label string, g *rapid.Generator[T], key func(T) K) []T {
	return rapid.SliceOfNDistinct(g, 1, 4, key).Draw(t, label)
}

func drawHeader(t *rapid.T, kind entry.Kind) entry.Header {
	h := entry.Header{V: 1, JTI: genUUID.Draw(t, "jti"), Iss: entry.Principal(genName.Draw(t, "iss")),
		Aud: oneOf(t, "aud", "example.com/log", "ä", strings.Repeat("a", entry.MaxName)), Iat: genPositive.Draw(t, "iat")}
	if kind != entry.KindPolicy && kind != entry.KindAgent && kind != entry.KindIndex {
		h.Wid = entry.WorkflowID(genName.Draw(t, "wid"))
	}
	h.Crit = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"v", "jti", "iss", "aud", "iat", "crit"}), 0, 2, rapid.ID[string]).Draw(t, "crit")
	return h
}

// drawBody draws a well-formed body of the kind.
func drawBody(t *rapid.T, kind entry.Kind) entry.Body {
	h := drawHeader(t, kind)
	switch kind {
	case entry.KindPolicy:
		return drawPolicy(t, h)
	case entry.KindAgent:
		return drawAgent(t, h)
	case entry.KindExecution:
		return drawExecution(t, h)
	case entry.KindCheckpoint:
		return &entry.Checkpoint{Header: h, Checkpoint: genName.Draw(t, "checkpoint"), After: maybe(t, "after", genRef),
			Digest: genDigest.Draw(t, "digest"), ExpiresAt: genCount.Draw(t, "expires_at"), Loc: maybeText(t, "loc", genText)}
	case entry.KindSignal:
		return drawSignal(t, h)
	case entry.KindDecision:
		return drawDecision(t, h)
	case entry.KindApproval:
		return &entry.Approval{Header: h, Incident: genIndex.Draw(t, "incident"), Proposal: genEntryRef.Draw(t, "proposal"),
			Verdict: oneOf(t, "verdict", "approve", "refuse"), Exp: genPositive.Draw(t, "exp"), Reason: genText.Draw(t, "reason")}
	case entry.KindOutcome:
		return drawOutcome(t, h)
	case entry.KindRecord:
		return &entry.Record{Header: h, Incident: genIndex.Draw(t, "incident"), State: oneOf(t, "state", entry.IncidentRecovered, entry.IncidentNoEffects, entry.IncidentPartial, entry.IncidentFailed),
			Decision: genEntryRef.Draw(t, "decision"), Unresolved: genHeadRef.Draw(t, "unresolved"), Review: genCount.Draw(t, "review"),
			Tally:        rapid.MapOfN(rapid.SampledFrom(allResults), genCount, 0, 3).Draw(t, "tally"),
			Dispositions: distinctList(t, "dispositions", genDisposition, func(d entry.Disposition) uint64 { return d.Index })}
	case entry.KindTask:
		return drawTask(t, h)
	case entry.KindAttempt:
		return drawAttempt(t, h)
	case entry.KindRun:
		return drawRun(t, h)
	case entry.KindIndex:
		return &entry.LogIndex{Header: h, Algorithm: entry.IndexAlgorithm, Size: uint64(genPositive.Draw(t, "size")),
			Root: genHash.Draw(t, "root"), Subjects: uint64(genCount.Draw(t, "subjects"))}
	case entry.KindRollout:
		return drawRollout(t, h)
	}
	panic("no generator for " + kind)
}

var allResults = []entry.Result{entry.Restored, entry.Compensated, entry.NotExecuted, entry.ResultIrrevocable,
	entry.ResultFailed, entry.Refused, entry.Withheld, entry.ResultUnknown}

func drawPolicy(t *rapid.T, h entry.Header) *entry.Policy {
	extent := func(label string) entry.Cap {
		return entry.Cap{Members: genCount.Draw(t, label), Agents: genCount.Draw(t, label), Domains: genCount.Draw(t, label),
			FencedMS: genCount.Draw(t, label)}
	}
	ms := func(label string) int64 { return genPositive.Draw(t, label) }
	p := &entry.Policy{Header: h,
		Authority: distinctList(t, "authority", rapid.Custom(func(t *rapid.T) entry.AuthorityKey {
			return entry.AuthorityKey{Principal: entry.Principal(genName.Draw(t, "principal")), Key: genKey.Draw(t, "key")}
		}), func(a entry.AuthorityKey) string { return a.Key.String() }),
		Windows: entry.Windows{DecideMS: ms("decide"), AnswerMS: ms("answer"), MemberMS: ms("member"), DeadlineMaxMS: ms("deadline"),
			CooldownMS: ms("cooldown"), SinceMaxMS: ms("since"), BundleMaxAgeMS: ms("bundle"), IatMS: ms("iat")},
		Limits:    entry.Limits{Incident: extent("incident"), Signaler: extent("signaler"), Victim: extent("victim"), WindowMS: ms("window")},
		Quotas:    entry.Quotas{EntriesPerHour: genCount.Draw(t, "entries"), SignalsPerHour: genPositive.Draw(t, "signals")},
		Quorum:    entry.Quorum{Approve: ms("approve"), Override: ms("override"), Signalers: ms("signalers")},
		MaxStepMS: ms("step"), Witnesses: maybeText(t, "witnesses", genText),
		LedgerKeys: list(t, "ledger_keys", genText, 0), Previous: maybe(t, "previous", genEntryRef),
	}
	if rapid.Bool().Draw(t, "fence") {
		reach := func(label string) entry.Reach {
			return entry.Reach{Members: genCount.Draw(t, label), Agents: genCount.Draw(t, label), Domains: genCount.Draw(t, label)}
		}
		p.Limits.Fence = &entry.FenceLimits{Incident: reach("fence of incident"), Signaler: reach("fence of signaler"), Victim: reach("fence of victim")}
	}
	if rapid.Bool().Draw(t, "index") {
		p.Index = &entry.IndexPolicy{Required: rapid.Bool().Draw(t, "required")}
	}
	if rapid.Bool().Draw(t, "predecessor") {
		p.Predecessor = &entry.Predecessor{Origin: genName.Draw(t, "origin"), LedgerKeys: append(list(t, "keys", genText, 0), "key"),
			Genesis: maybe(t, "genesis", genHash), Head: maybe(t, "head", genHeadRef)}
	}
	if rapid.Bool().Draw(t, "enrollers") {
		p.Roles = map[entry.Role][]entry.Role{entry.RoleAgent: genRoles.Draw(t, "roles")}
	}
	if rapid.Bool().Draw(t, "recovery") {
		p.Recovery = jsontext.Value(oneOf(t, "rules", `{}`, `{"rules":[{"when":null}]}`, `{"é":{"a":[-1,0,true]}}`))
	}
	return p
}

func drawAgent(t *rapid.T, h entry.Header) *entry.Agent {
	a := &entry.Agent{Header: h, Principal: entry.Principal(genName.Draw(t, "principal")),
		Op: oneOf(t, "op", entry.Enrol, entry.Rotate, entry.Revoke), Key: genKey.Draw(t, "key"), Roles: genRoles.Draw(t, "roles"),
		Domain: genName.Draw(t, "domain"), Span: oneOf(t, "span", entry.SpanWorkflow, entry.SpanAgent),
		Capabilities: list(t, "capabilities", genWord, 0)}
	if a.Op == entry.Revoke && rapid.Bool().Draw(t, "compromised") {
		a.CompromisedSince = &entry.Compromised{Index: genIndex.Draw(t, "since")}
	}
	return a
}

func drawExecution(t *rapid.T, h entry.Header) *entry.Execution {
	x := &entry.Execution{Header: h, Exec: genName.Draw(t, "exec"),
		Effect: oneOf(t, "effect", entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable,
			entry.EffectUndeclared),
		Progress:       oneOf(t, "progress", entry.Planned, entry.Started, entry.Confirmed, entry.Failed, entry.Cancelled),
		IdempotencyKey: genDigest.Draw(t, "key"), Task: maybeText(t, "task", genRef), Checkpoint: maybeText(t, "checkpoint", genRef),
		Comp: maybeText(t, "comp", genDigest), InpHash: maybeText(t, "inp", genDigest), OutHash: maybeText(t, "out", genDigest),
		CostMicroUSD: maybe(t, "cost", genCount), LatencyMS: maybe(t, "latency", genCount)}
	if rapid.Bool().Draw(t, "compensation") {
		x.Compensates = &entry.Compensates{Incident: genIndex.Draw(t, "incident"), Decision: genEntryRef.Draw(t, "decision"),
			Exec: genRef.Draw(t, "member")}
		return x
	}
	x.Parents = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) entry.Parent {
		return entry.Parent{Exec: genRef.Draw(t, "exec"), Dep: oneOf(t, "dep", entry.Hard, entry.Soft)}
	}), 0, 4, func(p entry.Parent) entry.Ref { return p.Exec }).Draw(t, "parents")
	return x
}

func drawSignal(t *rapid.T, h entry.Header) *entry.Signal {
	return &entry.Signal{Header: h, Subject: genRef.Draw(t, "subject"), Class: genWord.Draw(t, "class"), Code: genWord.Draw(t, "code"),
		Standing: oneOf(t, "standing", entry.StandingExecutor, entry.StandingUpstream, entry.StandingDownstream, entry.StandingMonitor,
			entry.StandingOperator),
		Effects:      oneOf(t, "effects", entry.EffectsNone, entry.EffectsPartial, entry.EffectsComplete, entry.EffectsUnknown),
		ReplaySafety: oneOf(t, "safety", entry.ReplaySafe, entry.ReplayUnsafe, entry.ReplayUnknown),
		ObservedAt:   genPositive.Draw(t, "observed_at"), Since: maybeText(t, "since", genRef),
		LastKnownGood: maybeText(t, "good", genRef), Evidence: list(t, "evidence", genEvidence, 0),
		RetryAfterMS: maybe(t, "retry", genCount), Attempt: maybe(t, "attempt", genCount),
		Severity:   oneOf(t, "severity", "", entry.SeverityInfo, entry.SeverityWarning, entry.SeverityError, entry.SeverityCritical),
		Supersedes: maybe(t, "supersedes", genEntryRef), Detail: maybeText(t, "detail", genText)}
}

func drawDecision(t *rapid.T, h entry.Header) *entry.Decision {
	d := &entry.Decision{Header: h, Incident: genIndex.Draw(t, "incident"),
		Act: oneOf(t, "act", entry.ActContain, entry.ActEscalate, entry.ActAuthorize, entry.ActAmend, entry.ActDeny, entry.ActOverride,
			entry.ActRelease),
		Policy: genEntryRef.Draw(t, "policy"), Epoch: genCount.Draw(t, "epoch"), Exp: genPositive.Draw(t, "exp"),
		Reason: genText.Draw(t, "reason"), Approvals: list(t, "approvals", genIndex, 0), Supersedes: maybe(t, "supersedes", genEntryRef)}
	switch d.Act {
	case entry.ActDeny:
		d.Dispositions = distinctList(t, "dispositions", genDisposition, func(d entry.Disposition) uint64 { return d.Index })
	case entry.ActRelease:
		d.Members = list(t, "members", genRef, 1)
	case entry.ActAuthorize, entry.ActAmend:
		d.DeadlineAt = genPositive.Draw(t, "deadline_at")
		fallthrough
	case entry.ActContain, entry.ActEscalate:
		if d.Act == entry.ActEscalate {
			d.NotFenced = maybeText(t, "not_fenced", genText)
		}
		signals, pin := genHeadRef.Draw(t, "signals"), genHeadRef.Draw(t, "pin")
		d.Signals, d.Pin = &signals, &pin
		d.RollbackSet = &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: genHeadRef.Draw(t, "scope")}
		d.Impact = &entry.Impact{Members: genCount.Draw(t, "m"), Agents: genCount.Draw(t, "a"), Domains: genCount.Draw(t, "d"),
			Irrevocable: genCount.Draw(t, "i"), Undeclared: genCount.Draw(t, "u")}
		d.Dismissed = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry.Dismissal {
			return entry.Dismissal{Index: genIndex.Draw(t, "index"), Reason: genText.Draw(t, "reason")}
		}), 0, 3).Draw(t, "dismissed")
		if d.Dismissed == nil {
			d.Dismissed = []entry.Dismissal{}
		}
	case entry.ActOverride:
	}
	return d
}

func drawOutcome(t *rapid.T, h entry.Header) *entry.Outcome {
	return &entry.Outcome{Header: h, Incident: genIndex.Draw(t, "incident"), Decision: genEntryRef.Draw(t, "decision"),
		Exec: genRef.Draw(t, "exec"), Result: rapid.SampledFrom(allResults).Draw(t, "result"), ObservedAt: genPositive.Draw(t, "observed_at"),
		Residual: genText.Draw(t, "residual"), CompExec: genRef.Draw(t, "comp_exec"), PostDigest: genDigest.Draw(t, "post_digest"),
		Evidence: list(t, "evidence", genEvidence, 0), Supersedes: maybe(t, "supersedes", genEntryRef)}
}

func drawTask(t *rapid.T, h entry.Header) *entry.Task {
	state := rapid.SampledFrom([]entry.TaskState{entry.TaskCreated, entry.TaskAssigned, entry.TaskInProgress, entry.TaskInReview,
		entry.TaskBlocked, entry.TaskFailed, entry.TaskInterrupted, entry.TaskCompleted, entry.TaskCancelled})
	k := &entry.Task{Header: h, Task: genRef.Draw(t, "task"),
		Op: oneOf(t, "op", "create", "reassign", "cancel", "release", "start", "review", "complete", "block", "assign", "fail",
			"interrupt"),
		From: state.Draw(t, "from"), To: state.Draw(t, "to"), Reason: genText.Draw(t, "reason"), Epoch: genCount.Draw(t, "epoch"),
		RetryCount: genCount.Draw(t, "retries"), ResumeCount: genCount.Draw(t, "resumes"), Type: maybeText(t, "type", genWord),
		MaxRetries: maybe(t, "max", rapid.Int64Range(0, entry.MaxRetries)), Agent: entry.Principal(maybeText(t, "agent", genName)),
		LeaseMS: maybe(t, "lease", rapid.Int64Range(entry.MinLeaseMS, entry.MaxLeaseMS))}
	if rapid.Bool().Draw(t, "about") {
		k.Op, k.Type = entry.TaskCreate, ""
		k.About = &entry.TaskCase{Case: genName.Draw(t, "case"), Attempt: attemptID,
			Agent: entry.Principal(maybeText(t, "of", genName)), Decided: rapid.SliceOfN(genWord, 1, 3).Draw(t, "decided")}
	}
	if rapid.Bool().Draw(t, "snapshot") {
		k.Snapshot = &entry.Snapshot{Exec: genRef.Draw(t, "exec"), Agent: entry.Principal(genName.Draw(t, "agent")), Turns: genCount.Draw(t, "turns"),
			MaxTurns: genCount.Draw(t, "max turns"), CostMicroUSD: genCount.Draw(t, "cost"), Status: genWord.Draw(t, "status"),
			StartedAt: genPositive.Draw(t, "started_at"), TakenAt: genPositive.Draw(t, "taken_at"), Messages: genCount.Draw(t, "messages"),
			Class: genWord.Draw(t, "class"), Code: genWord.Draw(t, "code"), ContextDigest: genDigest.Draw(t, "digest")}
	}
	return k
}

var genRung = rapid.Custom(func(t *rapid.T) entry.Rung {
	return entry.Rung{Attempt: genCount.Draw(t, "attempt"), Class: genWord.Draw(t, "class"), Code: genWord.Draw(t, "code"),
		Rule: genWord.Draw(t, "rule"), Strategy: genWord.Draw(t, "strategy"), Model: maybeText(t, "model", genName),
		Step: maybeText(t, "step", genName), Variant: maybeText(t, "variant", genWord), Tokens: maybe(t, "tokens", genCount), WaitMS: maybe(t, "wait", genCount),
		Result: genWord.Draw(t, "result"), CostMicroUSD: maybe(t, "cost", genCount), LatencyMS: maybe(t, "latency", genCount),
		Reason: maybeText(t, "reason", genText)}
})

var genAttemptCase = rapid.Custom(func(t *rapid.T) entry.AttemptCase {
	c := entry.AttemptCase{Case: genName.Draw(t, "case"), Rungs: list(t, "rungs", genRung, 0),
		Status:      oneOf(t, "status", entry.StatusRecovered, entry.StatusEscalated, entry.StatusPassedOn, entry.StatusNoFailure),
		TraceDigest: genDigest.Draw(t, "trace_digest"), CostMicroUSD: maybe(t, "cost", genCount), Tokens: maybe(t, "tokens", genCount),
		ElapsedMS: maybe(t, "elapsed", genCount)}
	if rapid.Bool().Draw(t, "facts") {
		c.Facts = jsontext.Value(`{"intent":"refund"}`)
	}
	return c
})

func drawAttempt(t *rapid.T, h entry.Header) *entry.Attempt {
	a := &entry.Attempt{Header: h, Run: maybeText(t, "run", genName), Agent: entry.Principal(genName.Draw(t, "agent")),
		Task: maybeText(t, "task", genRef), Policy: genDigest.Draw(t, "policy"), AttemptCase: genAttemptCase.Draw(t, "case"),
		Arm: entry.Arm(oneOf(t, "arm", "", "control", "canary", "shadow"))}
	for _, c := range distinctList(t, "also", genAttemptCase, func(c entry.AttemptCase) string { return c.Case }) {
		if c.Case != a.Case {
			a.Also = append(a.Also, c)
		}
	}
	return a
}

func drawRollout(t *rapid.T, h entry.Header) *entry.Rollout {
	r := &entry.Rollout{Header: h, Rollout: genName.Draw(t, "rollout"), Op: oneOf(t, "op", entry.RolloutOps()...), Reason: genName.Draw(t, "reason")}
	switch r.Op {
	case entry.RolloutAbort:
		r.Gate = oneOf(t, "gate", append(entry.RolloutGates(), entry.GateDeadline, "")...)
	case entry.RolloutStart:
		r.Start = &entry.RolloutTerms{CandidateDigest: genDigest.Draw(t, "candidate"), BaselineDigest: genDigest.Draw(t, "baseline"),
			Candidate: jsontext.Value(`{"rules":[]}`), Salt: genName.Draw(t, "salt"),
			Gates:        rapid.SliceOfNDistinct(rapid.SampledFrom(entry.RolloutGates()), 1, 5, rapid.ID[entry.Gate]).Draw(t, "gates"),
			TolerancePPM: genCount.Draw(t, "tolerance"), CasesMin: genPositive.Draw(t, "cases"), DeadlineAt: genPositive.Draw(t, "deadline")}
	}
	if r.Op != entry.RolloutStart && r.Op != entry.RolloutAdvance {
		return r
	}
	if r.Stage = oneOf(t, "stage", entry.StageShadow, entry.StageCanary); r.Stage == entry.StageCanary {
		r.SharePermille = rapid.Int64Range(1, entry.ShareMax).Draw(t, "share")
	}
	return r
}

func drawRun(t *rapid.T, h entry.Header) *entry.Run {
	r := &entry.Run{Header: h, Run: genName.Draw(t, "run"), Op: oneOf(t, "op", "open", "close"), ConfigDigest: genDigest.Draw(t, "config"),
		ScenarioDigest: genDigest.Draw(t, "scenario"), Seed: rapid.Int64Range(-entry.MaxInteger, entry.MaxInteger).Draw(t, "seed"),
		Engine: genName.Draw(t, "engine")}
	if r.Op == "close" {
		r.RunRoot, r.ReportDigest = genDigest.Draw(t, "root"), genDigest.Draw(t, "report")
		r.Recommendation = oneOf(t, "recommendation", "promote", "reject", "inconclusive")
	}
	return r
}
