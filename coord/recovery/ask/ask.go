// Package ask decides about one failure for a live loop: a [Question] as JSON in, a [Decision] out.
//
//	{"history": {"case": "order-7", "step": "charge", "effect": "compensable", "idempotent": true,
//	  "failure": {"class": "transient", "code": "timeout"}}, "elapsed_ms": 1500}
//
// The history is that of package recovery, and [recovery.Choose] decides, as it does for the
// coordinator. In place of class and code a question may have the raw error, which the classifier
// puts into the taxonomy. The same question under the same rules gets the same decision: a decision
// knows no clock but elapsed_ms.
package ask

import (
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Question asks what to do about the failure with which a history ends.
type Question struct {
	History recovery.History `json:"history"`
	// Error is the raw error, of which class and code are derived; nil: the failure has both.
	Error *scenario.RawError `json:"error,omitempty"`
	// ElapsedMS is the time since the case began, in milliseconds, as it counts for limits.
	ElapsedMS int64 `json:"elapsed_ms,omitzero"`
	// Explain asks for the reasoning.
	Explain bool `json:"explain,omitzero"`
}

// Decision is the answer to a question.
type Decision struct {
	// Failure is the failure as it was effective: classified, and unknown within its class without
	// the evidence that it needs (SIG-2).
	Failure scenario.Label `json:"failure"`
	// Action is what to do next. Its member wait_ms is the pause before it.
	Action recovery.Action `json:"action"`
	// Rule is the place in the policy that the action comes from.
	Rule recovery.Rule `json:"rule"`
	// Rung is the action as history.rungs of the next question has it, but for its result.
	Rung Rung `json:"rung"`
	// Remediation is the policy's advice to people; empty: it gives none.
	Remediation string `json:"remediation,omitzero"`
	// Reasoning is every step of the decision, if the question asked for it.
	Reasoning []recovery.Step `json:"reasoning,omitzero"`
}

// Rung is a [recovery.Rung] whose result is not known yet.
type Rung struct {
	Step     string            `json:"step,omitzero"`
	Class    string            `json:"class"`
	Code     string            `json:"code"`
	Rule     recovery.Rule     `json:"rule"`
	Strategy recovery.Strategy `json:"strategy"`
	Variant  recovery.Variant  `json:"variant,omitzero"`
	Scope    recovery.Scope    `json:"scope,omitzero"`
	Model    string            `json:"model,omitzero"`
}

// Decode reads a question, and refuses everything that is none. The error is a [*scenario.Error].
func Decode(text []byte) (*Question, error) {
	q := new(Question)
	wrong := scenario.Document{What: "a question", Help: "docs/recovery-reference.md describes it"}.DecodeJSON(text, q)
	if wrong == nil {
		wrong = q.check()
	}
	if wrong != nil {
		return nil, wrong
	}
	return q, nil
}

// Classified returns the history with everything in its failure that follows from the raw error.
// What the question says of the failure stays.
func (q *Question) Classified(p *recovery.Policy) *recovery.History {
	h := q.History
	if q.Error == nil {
		return &h
	}
	f, known := &h.Failure, scenario.Relabel(scenario.NewFailure(h.Effect, *q.Error, ""), p)
	f.Class, f.Code = known.Class, known.Code
	if f.Effects == "" {
		f.Effects = known.Effects
	}
	if f.ReplaySafety == "" {
		f.ReplaySafety = known.ReplaySafety
	}
	if f.RetryAfterMS == nil {
		f.RetryAfterMS = q.Error.RetryAfterMS
	}
	return &h
}

// Decide answers the question by the rules of a policy. It is pure. No strategy of another program
// is asked: the ladder of the rule decides in its place, as for a task.
func (q *Question) Decide(p *recovery.Policy) *Decision {
	h, now := q.Classified(p), q.History.StartedAt+q.ElapsedMS
	chosen := recovery.Choose(h, p, now)
	r := h.RungOf(chosen.Action, chosen.Rule, recovery.ResultDecided)
	d := &Decision{
		Failure: scenario.Label{Class: r.Class, Code: r.Code}, Action: chosen.Action, Rule: chosen.Rule,
		Rung:        Rung{r.Step, r.Class, r.Code, r.Rule, r.Strategy, r.Variant, r.Scope, r.Model},
		Remediation: p.RemediationFor(h, now),
	}
	if q.Explain {
		d.Reasoning = recovery.Explain(h, p, now)
	}
	return d
}

// check refuses a question that no history of a case could be.
func (q *Question) check() *scenario.Error {
	h := &q.History
	wrong := scenario.FirstOf(scenario.Prefixed("/history", checkHistory(h)), scenario.CheckCount("/elapsed_ms", &q.ElapsedMS))
	f := &h.Failure
	switch {
	case wrong != nil:
		return wrong
	case q.Error == nil:
		return scenario.FirstOf(scenario.CheckWord("/history/failure/class", f.Class), scenario.CheckWord("/history/failure/code", f.Code))
	case f.Class != "" || f.Code != "":
		return scenario.Malformed("/error", "stands beside class and code", "leave class and code out to have the error classified, or leave out the error")
	}
	return scenario.Prefixed("/error", q.Error.Check())
}

func checkHistory(h *recovery.History) *scenario.Error {
	wrong := scenario.FirstOf(
		scenario.CheckName("/case", h.Case), scenario.Optional("/step", h.Step, scenario.CheckName),
		scenario.Optional("/task_type", h.TaskType, scenario.CheckWord), scenario.Optional("/intent", h.Intent, scenario.CheckWord),
		scenario.Optional("/risk", h.Risk, scenario.OneOf("low", "medium", "high", "critical")), checkSeed(h.Seed),
		scenario.CheckSize("/tool", h.Tool, scenario.ToolMax), scenario.Optional("/model", h.Model, scenario.CheckName),
		scenario.Optional("/effect", h.Effect, oneOf[entry.Effect](entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared)),
		scenario.Prefixed("/failure", checkFailure(&h.Failure)),
		scenario.Optional("/probe", h.Probe, oneOf(entry.EffectsNone, entry.EffectsComplete, entry.EffectsUnknown)),
		scenario.CheckCount("/epoch", &h.Epoch), scenario.CheckCount("/spent_micro_usd", &h.SpentMicroUSD),
		scenario.CheckCount("/spent_tokens", &h.SpentTokens), scenario.CheckCount("/started_at", &h.StartedAt), scenario.CheckCount("/max_retries", h.MaxRetries),
		scenario.CheckCount("/budget/attempts", h.Budget.Attempts), scenario.CheckCount("/budget/cost_micro_usd", h.Budget.CostMicroUSD),
		scenario.CheckCount("/budget/tokens", h.Budget.Tokens), scenario.CheckCount("/budget/deadline_ms", h.Budget.DeadlineMS),
		checkMany("/tags", len(h.Tags), tagsMax, "leave out tags"),
		checkMany("/rungs", len(h.Rungs), rungsMax, "ask a person: no ladder is that long"))
	if wrong != nil {
		return wrong
	}
	for i, tag := range h.Tags {
		if wrong := scenario.CheckWord("", tag); wrong != nil {
			return scenario.Below("/tags", i, wrong)
		}
	}
	for i := range h.Rungs {
		if wrong := checkRung(&h.Rungs[i]); wrong != nil {
			return scenario.Below("/rungs", i, wrong)
		}
	}
	return nil
}

func checkFailure(f *recovery.Failure) *scenario.Error {
	return scenario.FirstOf(
		scenario.Optional("/effects", f.Effects, oneOf(entry.EffectsNone, entry.EffectsPartial, entry.EffectsComplete, entry.EffectsUnknown)),
		scenario.Optional("/replay_safety", f.ReplaySafety, oneOf(entry.ReplaySafe, entry.ReplayUnsafe, entry.ReplayUnknown)),
		scenario.CheckCount("/retry_after_ms", f.RetryAfterMS))
}

func checkRung(r *recovery.Rung) *scenario.Error {
	wrong := scenario.FirstOf(
		scenario.Optional("/step", r.Step, scenario.CheckName), scenario.CheckWord("/class", r.Class), scenario.CheckWord("/code", r.Code),
		scenario.CheckName("/rule/id", r.Rule.ID), oneOf(recovery.Strategies()...)("/strategy", r.Strategy),
		scenario.Optional("/variant", r.Variant, oneOf(recovery.Variants()...)), scenario.Optional("/scope", r.Scope, oneOf(recovery.Scopes()...)),
		scenario.Optional("/model", r.Model, scenario.CheckName),
		oneOf(recovery.ResultOK, recovery.ResultFailed, recovery.ResultDecided, recovery.ResultNotObserved, recovery.ResultUnverified)("/result", r.Result))
	if wrong == nil && (r.Rule.Rung < -1 || r.Rule.Rung > rungsMax) {
		return scenario.Malformed("/rule/rung", "is no position in a ladder", "write the rung of an earlier decision, with its result")
	}
	return wrong
}

// oneOf makes a check that takes these words alone.
func oneOf[T ~string](allowed ...T) func(field string, value T) *scenario.Error {
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	check := scenario.OneOf(words...)
	return func(field string, value T) *scenario.Error { return check(field, string(value)) }
}

func checkSeed(seed int64) *scenario.Error {
	if seed < -entry.MaxInteger || seed > entry.MaxInteger {
		return scenario.Malformed("/seed", "is no integer that JSON carries exactly", "write an integer from −2^53+1 to 2^53−1")
	}
	return nil
}

func checkMany(field string, n, most int, remedy string) *scenario.Error {
	if n > most {
		return &scenario.Error{Problem: entry.TooLarge, Field: field, Detail: "holds more elements than the limit", Remedy: remedy}
	}
	return nil
}
