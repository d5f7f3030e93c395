package recovery

import (
	"strconv"

	"recoveryledger/ledger/entry"
)

// Action is the next step that a policy or strategy decides. Members that the strategy
// does not use are zero.
type Action struct {
	Strategy Strategy `json:"strategy"`
	Variant  Variant  `json:"variant,omitzero"` // of retry_altered
	Scope    Scope    `json:"scope,omitzero"`   // of state_reset
	// Model is the model to execute on: the next model of the chain for fallback_model, otherwise
	// the model of the previous attempt.
	Model string `json:"model,omitzero"`
	// WaitMS is the pause before the attempt in milliseconds. For the strategy wait it is the whole
	// pause.
	WaitMS int64 `json:"wait_ms,omitzero"`
	// Verify says that a success counts only if a check of the result shows it. Otherwise the
	// result of the attempt is unverified.
	Verify bool `json:"verify,omitzero"`
	// Severity and Question belong to escalate, quarantine and abort: the urgency, and whether a
	// person must answer one specific question.
	Severity entry.Severity `json:"severity,omitzero"`
	Question bool           `json:"question,omitzero"`
	Reason   Reason         `json:"reason"`
}

// Final reports whether the action ends the case.
func (a *Action) Final() bool { return a.Strategy == Escalate }

// Variation is what an attempt changes: the variant, or the scope of a reset. It is empty if the
// attempt changes neither.
func (a *Action) Variation() string { return string(a.Variant) + string(a.Scope) }

// Rule is the place in the policy that an action comes from.
type Rule struct {
	// ID is the id of a rule or guard, or [RuleGate] or [RuleLimits].
	ID string `json:"id"`
	// Rung is the position in the ladder of the rule, from 0. It is -1 if the rule has no ladder.
	Rung int `json:"rung"`
}

// The rules that every policy has.
const (
	// RuleGate is the effect gate.
	RuleGate = "gate"
	// RuleLimits is limits of the policy, or the budget of the case.
	RuleLimits = "limits"
	// RuleRuntime stands in for a rule when the runtime could not carry an action out.
	RuleRuntime = "runtime"
)

// String gives the rule, and the rung if there is one: "transient.timeout[1]".
func (r Rule) String() string {
	if r.Rung < 0 {
		return r.ID
	}
	return r.ID + "[" + strconv.Itoa(r.Rung) + "]"
}

// String describes the action for people.
func (a Action) String() string {
	text := describe(a.Strategy, a.Variant, a.Scope)
	if a.Model != "" {
		text += " on " + a.Model
	}
	if a.WaitMS > 0 {
		text += " after " + strconv.FormatInt(a.WaitMS, 10) + " ms"
	}
	if a.Severity != "" {
		text += " (" + string(a.Severity) + ")"
	}
	if a.Question {
		text += " with a question"
	}
	if a.Verify {
		text += ", to be verified"
	}
	return text + ": " + string(a.Reason)
}

// describe names a strategy together with its variant or scope.
func describe(s Strategy, v Variant, scope Scope) string {
	if v == "" && scope == "" {
		return string(s)
	}
	return string(s) + "(" + string(v) + string(scope) + ")"
}

// String names the rung's way.
func (r *rungDoc) String() string {
	text := describe(r.Strategy, r.Variant, r.Scope)
	if r.Account != "" {
		text += "(account: " + r.Account + ")"
	}
	if r.Context != "" {
		text += "(context: " + r.Context + ")"
	}
	return text
}
