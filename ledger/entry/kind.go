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
	KindIndex      Kind = "index"
	KindRollout    Kind = "rollout"
)

// Kinds returns all kinds in the order of the protocol.
func Kinds() []Kind {
	return []Kind{KindPolicy, KindAgent, KindExecution, KindCheckpoint, KindSignal, KindDecision,
		KindApproval, KindOutcome, KindRecord, KindTask, KindAttempt, KindRun, KindIndex, KindRollout}
}

// PayloadType returns the DSSE payload type of the kind.
func (k Kind) PayloadType() string { return payloadTypePrefix + string(k) + payloadTypeSuffix }

func (k Kind) known() bool {
	_, ok := kinds[k]
	return ok
}

// Body is the content of an entry: one of *Policy, *Agent, *Execution,
// *Checkpoint, *Signal, *Decision, *Approval, *Outcome, *Record, *Task,
// *Attempt, *Run, *LogIndex and *Rollout.
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
	case KindIndex:
		return new(LogIndex)
	case KindRollout:
		return new(Rollout)
	}
	panic("entry: kind " + string(kind) + " has no body")
}

// rule lists the members of an object of the protocol. Others are kept and
// ignored, whatever they hold.
type rule struct {
	required []string         // always present
	optional []string         // present or not, or as the body's check says; as text not empty
	nullable []string         // those of both that may be null
	inner    map[string]*rule // of those that hold an object or a list of objects; nil: any JSON
	anyName  bool             // a map; the body checks the names
}

func (r *rule) understands(name string) bool {
	return slices.Contains(r.required, name) || slices.Contains(r.optional, name)
}

// Objects that several kinds hold.
var (
	entryRef    = &rule{required: []string{"index", "leaf_hash"}}
	headRef     = &rule{required: []string{"size", "root"}}
	evidence    = &rule{required: []string{"digest"}, optional: []string{"uri"}}
	disposition = &rule{required: []string{"index", "disposition"}, optional: []string{"domains", "independent"}}
	extent      = &rule{required: []string{"members", "agents", "domains", "fenced_ms"}}
	reach       = &rule{required: []string{"members", "agents", "domains"}}
	rung        = &rule{required: []string{"attempt", "class", "code", "rule", "strategy", "result", "reason"},
		optional: []string{"step", "variant", "model", "cost_micro_usd", "tokens", "latency_ms", "wait_ms"}}
	attemptCase = &rule{required: []string{"case", "rungs", "status"},
		optional: []string{"trace_digest", "cost_micro_usd", "tokens", "elapsed_ms", "facts"}, inner: map[string]*rule{"rungs": rung, "facts": nil}}
)

// withHeader adds the members of every payload. Where there is no workflow, wid
// is known too, for the header to refuse.
func withHeader(wid bool, r rule) *rule {
	header := []string{"v", "jti", "iss", "aud", "iat"}
	r.optional = append(r.optional, "crit")
	if wid {
		header = append(header, "wid")
	} else {
		r.optional = append(r.optional, "wid")
	}
	r.required = append(header, r.required...)
	return &r
}

// kinds is the table of protocol.md, section 3.
var kinds = map[Kind]*rule{
	KindPolicy: withHeader(false, rule{
		required: []string{"authority", "roles", "windows", "limits", "quotas", "quorum", "max_step_ms"},
		optional: []string{"witnesses", "index", "ledger_keys", "recovery", "previous", "predecessor", "rollout"},
		inner: map[string]*rule{
			"authority": {required: []string{"principal", "key"}},
			"roles":     {anyName: true},
			"windows": {required: []string{"decide_ms", "answer_ms", "member_ms", "deadline_max_ms", "cooldown_ms",
				"since_max_ms", "bundle_max_age_ms", "iat_ms"}},
			"limits": {
				required: []string{"incident", "signaler", "victim", "window_ms"},
				optional: []string{"fence"},
				inner: map[string]*rule{"incident": extent, "signaler": extent, "victim": extent, "fence": {
					required: []string{"incident", "signaler", "victim"},
					inner:    map[string]*rule{"incident": reach, "signaler": reach, "victim": reach},
				}},
			},
			"quotas":   {required: []string{"entries_per_hour", "signals_per_hour"}},
			"quorum":   {required: []string{"approve", "override", "signalers"}},
			"index":    {required: []string{"required"}},
			"recovery": nil,
			"previous": entryRef,
			"predecessor": {required: []string{"origin", "ledger_keys"}, optional: []string{"genesis", "head"},
				inner: map[string]*rule{"head": headRef}},
			"rollout": {required: []string{"rollout"}, optional: []string{"report"}},
		},
	}),
	KindAgent: withHeader(false, rule{
		required: []string{"principal", "op", "key", "roles", "domain", "span"},
		optional: []string{"compromised_since", "capabilities"},
		inner:    map[string]*rule{"compromised_since": {required: []string{"index"}}},
	}),
	KindExecution: withHeader(true, rule{
		required: []string{"exec", "parents", "effect", "progress"},
		optional: []string{"idempotency_key", "task", "checkpoint", "comp", "compensates", "inp_hash", "out_hash",
			"cost_micro_usd", "latency_ms"},
		inner: map[string]*rule{
			"parents": {required: []string{"exec", "dep"}},
			"compensates": {
				required: []string{"incident", "decision", "exec"},
				inner:    map[string]*rule{"decision": entryRef},
			},
		},
	}),
	KindCheckpoint: withHeader(true, rule{
		required: []string{"checkpoint", "after", "digest"},
		optional: []string{"expires_at", "loc"},
		nullable: []string{"after"},
	}),
	KindSignal: withHeader(true, rule{
		required: []string{"subject", "class", "code", "standing", "effects", "replay_safety", "observed_at"},
		optional: []string{"since", "last_known_good", "evidence", "retry_after_ms", "severity", "attempt",
			"supersedes", "detail"},
		inner: map[string]*rule{"evidence": evidence, "supersedes": entryRef},
	}),
	KindDecision: withHeader(true, rule{
		required: []string{"incident", "act", "policy", "epoch", "exp", "reason"},
		optional: []string{"signals", "dismissed", "pin", "rollback_set", "impact", "not_fenced", "deadline_at", "approvals", "supersedes",
			"dispositions", "members"},
		inner: map[string]*rule{
			"policy": entryRef, "signals": headRef, "pin": headRef, "supersedes": entryRef, "dispositions": disposition,
			"dismissed":    {required: []string{"index", "reason"}},
			"rollback_set": {required: []string{"algorithm", "size", "root"}},
			"impact":       {required: []string{"members", "agents", "domains", "irrevocable", "undeclared"}},
		},
	}),
	KindApproval: withHeader(true, rule{
		required: []string{"incident", "proposal", "verdict", "exp", "reason"},
		inner:    map[string]*rule{"proposal": entryRef},
	}),
	KindOutcome: withHeader(true, rule{
		required: []string{"incident", "decision", "exec", "result", "observed_at"},
		optional: []string{"residual", "comp_exec", "post_digest", "evidence", "supersedes"},
		inner:    map[string]*rule{"decision": entryRef, "evidence": evidence, "supersedes": entryRef},
	}),
	KindRecord: withHeader(true, rule{
		required: []string{"incident", "state", "decision", "tally", "unresolved", "dispositions", "review"},
		inner: map[string]*rule{
			"decision": entryRef, "tally": {anyName: true}, "unresolved": headRef, "dispositions": disposition,
		},
	}),
	KindTask: withHeader(true, rule{
		required: []string{"task", "op", "from", "to", "reason", "epoch", "retry_count", "resume_count"},
		optional: []string{"type", "max_retries", "agent", "lease_ms", "snapshot", "about"},
		inner: map[string]*rule{"snapshot": {required: []string{"exec", "agent", "turns", "max_turns", "cost_micro_usd",
			"status", "started_at", "taken_at", "messages", "class", "code", "context_digest"}, optional: []string{"attempts"}},
			"about": {required: []string{"case", "attempt", "decided"}, optional: []string{"agent"}}},
	}),
	KindAttempt: withHeader(true, rule{
		required: attemptCase.required,
		optional: append([]string{"run", "agent", "task", "policy", "arm", "also"}, attemptCase.optional...),
		inner:    map[string]*rule{"rungs": rung, "facts": nil, "also": attemptCase},
	}),
	KindRun: withHeader(true, rule{
		required: []string{"run", "op", "config_digest", "scenario_digest", "seed", "engine"},
		optional: []string{"policy_digest", "baseline_digest", "run_root", "report_digest", "recommendation"},
	}),
	KindIndex: withHeader(false, rule{required: []string{"algorithm", "size", "root", "subjects"}}),
	KindRollout: withHeader(true, rule{
		required: []string{"rollout", "op", "reason"},
		optional: []string{"start", "stage", "share_permille", "gate"},
		inner: map[string]*rule{"start": {
			required: []string{"candidate_digest", "baseline_digest", "candidate", "salt", "gates", "tolerance_ppm", "cases_min", "deadline_at"},
			inner:    map[string]*rule{"candidate": nil},
		}},
	}),
}

// HeaderOf returns the header of an entry's content, to be filled in before
// [New].
func HeaderOf(body Body) *Header { return body.header() }
