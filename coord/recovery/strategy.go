package recovery

import "recoveryledger/ledger/entry"

// Strategy is a kind of action about a failure (taxonomy, protocol.md section 10).
type Strategy string

// The strategies. Strategies that execute the failed step again say so. The others prepare an
// attempt or end the case.
const (
	// Retry executes the step again as it was.
	Retry Strategy = "retry"
	// RetryAltered executes the step again with the change of its [Variant].
	RetryAltered Strategy = "retry_altered"
	// FallbackModel executes it again on the next model of the policy's chain.
	FallbackModel Strategy = "fallback_model"
	// StateReset takes the state of its [Scope] back and executes it again.
	StateReset Strategy = "state_reset"
	// FailReassign gives the step to another agent, which executes it.
	FailReassign Strategy = "fail_reassign"
	// CheckpointResume continues from the newest usable checkpoint.
	CheckpointResume Strategy = "checkpoint_resume"
	// Reconcile asks the authoritative state whether the effect occurred.
	Reconcile Strategy = "reconcile"
	// Wait lets time pass.
	Wait Strategy = "wait"
	// Rollback signals the failure, so that the step and its dependents are undone.
	Rollback Strategy = "rollback"
	// Quarantine fences the agent; an escalation follows.
	Quarantine Strategy = "quarantine"
	// Escalate gives the case to a person. It ends the case.
	Escalate Strategy = "escalate"
	// Abort stops everything that still runs for the case; an escalation follows.
	Abort Strategy = "abort"
)

// Strategies returns all strategies.
func Strategies() []Strategy {
	return []Strategy{Retry, RetryAltered, FallbackModel, StateReset, FailReassign, CheckpointResume, Reconcile, Wait,
		Rollback, Quarantine, Escalate, Abort}
}

// Attempts reports whether the strategy executes the failed step again.
func (s Strategy) Attempts() bool {
	switch s {
	case Retry, RetryAltered, FallbackModel, StateReset, FailReassign, CheckpointResume:
		return true
	}
	return false
}

// Unpriced reports whether an attempt was made that nobody knows the cost of.
func Unpriced(s Strategy, r Result, costMicroUSD *int64) bool {
	return costMicroUSD == nil && s.Attempts() && r != ResultDecided && r != ResultNotObserved
}

// Stays reports whether the agent that failed executes the step again.
func (s Strategy) Stays() bool {
	return s.Attempts() && s != FailReassign && s != CheckpointResume
}

// CaseStatus returns the status of a case about which the strategy is decided last, for its attempt
// entry: the case goes on, or people have it.
func (s Strategy) CaseStatus() entry.CaseStatus {
	if s.Attempts() || s == Wait || s == Reconcile {
		return entry.StatusPassedOn
	}
	return entry.StatusEscalated
}

// Variant is the change that a retry_altered makes.
type Variant string

// The variants.
const (
	Reflect           Variant = "reflect"            // show the model its error
	RepairArgs        Variant = "repair_args"        // correct the arguments
	StricterSchema    Variant = "stricter_schema"    // constrain the output
	CompactContext    Variant = "compact_context"    // shorten the context
	Decompose         Variant = "decompose"          // split the task
	AlternateTool     Variant = "alternate_tool"     // use another tool
	LowerVariance     Variant = "lower_variance"     // sample with less freedom
	FreshContext      Variant = "fresh_context"      // begin with an empty context
	RefreshCredential Variant = "refresh_credential" // get a new credential
	Reread            Variant = "reread"             // read the state again first
)

// Variants returns all variants.
func Variants() []Variant {
	return []Variant{Reflect, RepairArgs, StricterSchema, CompactContext, Decompose, AlternateTool, LowerVariance,
		FreshContext, RefreshCredential, Reread}
}

// Scope is the part of the state that a state_reset takes back.
type Scope string

// The scopes. All but the first two need a usable checkpoint.
const (
	ScopeContext  Scope = "context"  // the model's context; work stays
	ScopeStart    Scope = "start"    // the whole task, to its beginning
	ScopeProgress Scope = "progress" // to the last checkpoint that made progress
	ScopeVerified Scope = "verified" // to an earlier checkpoint whose digest verifies
)

// Scopes returns all scopes.
func Scopes() []Scope {
	return []Scope{ScopeContext, ScopeStart, ScopeProgress, ScopeVerified}
}

// Result is the result of an action.
type Result string

// The results that [Decide] tells apart; any other word is a failure.
const (
	// ResultOK: the attempt succeeded; the wait, the probe is done.
	ResultOK Result = "ok"
	// ResultFailed means that the step failed again. The history has the new failure.
	ResultFailed Result = "failed"
	// ResultDecided means that the action was decided and not yet carried out.
	ResultDecided Result = "decided"
	// ResultNotObserved means that the runtime has no record of such an attempt.
	ResultNotObserved Result = "not_observed"
	// ResultUnverified means that the attempt claims success, and that the check that the action
	// asked for did not show it.
	ResultUnverified Result = "unverified"
)

// Reason says in one word why an action was chosen.
type Reason string

// The reasons.
const (
	ReasonLadder            Reason = "ladder"             // the next rung of the rule
	ReasonEffectsUncertain  Reason = "effects_uncertain"  // gate: ask whether the effect occurred
	ReasonEffectsUnknown    Reason = "effects_unknown"    // gate: asking did not tell
	ReasonEffectsComplete   Reason = "effects_complete"   // every rung left would repeat an effect
	ReasonGuard             Reason = "guard"              // a guard raised it
	ReasonRule              Reason = "rule"               // the rule itself escalates here
	ReasonLadderExhausted   Reason = "ladder_exhausted"   // no rung left
	ReasonRetriesSpent      Reason = "retries_spent"      // max_retries of the task
	ReasonAttemptsExhausted Reason = "attempts_exhausted" // limits.attempts
	ReasonCostExhausted     Reason = "cost_exhausted"     // limits.cost_micro_usd
	ReasonTokensExhausted   Reason = "tokens_exhausted"   // limits.tokens
	ReasonDeadlineExceeded  Reason = "deadline_exceeded"  // limits.deadline_ms
	ReasonConditionError    Reason = "condition_error"    // a when could not be evaluated
	ReasonNotObserved       Reason = "not_observed"       // the wanted attempt was never made
	ReasonAfterQuarantine   Reason = "after_quarantine"   // fenced; a person decides
	ReasonAfterAbort        Reason = "after_abort"        // stopped; a person decides
	ReasonAfterRollback     Reason = "after_rollback"     // signalled; incident decides
	ReasonUnverified        Reason = "unverified"         // success that nothing verified, and no rung left
)
