package entry

import "slices"

// Kind is what an entry records. The set is closed.
type Kind string

// The kinds of entry (protocol.md, section 3).
const (
	KindPolicy     Kind = "policy"
	KindAgent      Kind = "agent"
	KindExecution  Kind = "execution"
	KindCheckpoint Kind = "checkpoint"
	KindSignal     Kind = "signal"
	KindDecision   Kind = "decision"
	KindApproval   Kind = "approval"
	KindOutcome    Kind = "outcome"
	KindRecord     Kind = "record"
	KindTask       Kind = "task"
	KindAttempt    Kind = "attempt"
	KindRun        Kind = "run"
)

// Kinds returns all kinds in the order of the protocol.
func Kinds() []Kind {
	return []Kind{KindPolicy, KindAgent, KindExecution, KindCheckpoint, KindSignal, KindDecision,
		KindApproval, KindOutcome, KindRecord, KindTask, KindAttempt, KindRun}
}

// PayloadType returns the DSSE payload type of the kind.
func (k Kind) PayloadType() string { return payloadTypePrefix + string(k) + payloadTypeSuffix }

func (k Kind) known() bool {
	_, ok := kinds[k]
	return ok
}

// Body is the content of an entry: one of *Policy, *Agent, *Execution,
// *Checkpoint, *Signal, *Decision, *Approval, *Outcome, *Record, *Task,
// *Attempt and *Run.
type Body interface {
	// Kind returns the kind whose content this is.
	Kind() Kind
	header() *Header
	// check enforces what the members' types do not; the error is a *Refusal.
	check() error
}

func newBody(kind Kind) Body {
	switch kind {
	case KindPolicy:
		return new(Policy)
	case KindAgent:
		return new(Agent)
	case KindExecution:
		return new(Execution)
	case KindCheckpoint:
		return new(Checkpoint)
	case KindSignal:
		return new(Signal)
	case KindDecision:
		return new(Decision)
	case KindApproval:
		return new(Approval)
	case KindOutcome:
		return new(Outcome)
	case KindRecord:
		return new(Record)
	case KindTask:
		return new(Task)
	case KindAttempt:
		return new(Attempt)
	case KindRun:
		return new(Run)
	}
	panic("entry: kind " + string(kind) + " has no body")
}

// kindRule lists the members of a kind beside the header's.
type kindRule struct {
	required []string // always present
	optional []string // present or not, or as the body's check says
	nullable []string // those of them that may be null
	wid      bool     // whether the header names a workflow
}

func (r kindRule) understood(name string) bool {
	return slices.Contains(headerMembers, name) || name == "crit" || (name == "wid" && r.wid) ||
		slices.Contains(r.required, name) || slices.Contains(r.optional, name)
}

// headerMembers are mandatory in every payload.
var headerMembers = []string{"v", "jti", "iss", "aud", "iat"}

// kinds is the table of protocol.md, section 3.
var kinds = map[Kind]kindRule{
	KindPolicy: {
		required: []string{"authority", "roles", "windows", "limits", "quotas", "quorum", "max_step_ms"},
		optional: []string{"witnesses", "ledger_keys", "recovery", "previous"},
	},
	KindAgent: {
		required: []string{"principal", "op", "key", "roles", "domain", "span"},
		optional: []string{"compromised_since", "capabilities"},
	},
	KindExecution: {
		required: []string{"exec", "parents", "effect", "progress"},
		optional: []string{"idempotency_key", "task", "checkpoint", "comp", "compensates", "inp_hash", "out_hash",
			"cost_micro_usd", "latency_ms"},
		wid: true,
	},
	KindCheckpoint: {
		required: []string{"checkpoint", "after", "digest"},
		optional: []string{"expires_at", "loc"},
		nullable: []string{"after"},
		wid:      true,
	},
	KindSignal: {
		required: []string{"subject", "class", "code", "standing", "effects", "replay_safety", "observed_at"},
		optional: []string{"since", "last_known_good", "evidence", "retry_after_ms", "severity", "attempt",
			"supersedes", "detail"},
		wid: true,
	},
	KindDecision: {
		required: []string{"incident", "act", "policy", "epoch", "exp", "reason"},
		optional: []string{"basis", "unfounded", "pin", "scope", "blast", "deadline_at", "approvals", "supersedes",
			"signals", "members"},
		wid: true,
	},
	KindApproval: {
		required: []string{"incident", "proposal", "verdict", "exp", "reason"},
		wid:      true,
	},
	KindOutcome: {
		required: []string{"incident", "decision", "exec", "result", "observed_at"},
		optional: []string{"residual", "comp_exec", "post_digest", "evidence", "supersedes"},
		wid:      true,
	},
	KindRecord: {
		required: []string{"incident", "state", "decision", "tally", "unresolved", "signals", "review"},
		wid:      true,
	},
	KindTask: {
		required: []string{"task", "op", "from", "to", "reason", "epoch", "retry_count", "resume_count"},
		optional: []string{"type", "max_retries", "agent", "lease_ms", "snapshot"},
		wid:      true,
	},
	KindAttempt: {
		required: []string{"run", "case", "rungs", "status", "trace_digest"},
		wid:      true,
	},
	KindRun: {
		required: []string{"run", "op", "config_digest", "scenario_digest", "seed", "engine"},
		optional: []string{"run_root", "report_digest", "recommendation"},
		wid:      true,
	},
}
