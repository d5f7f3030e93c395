package recovery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// failedStep is a history of one failure, on the model primary.
func failedStep(class, code string, change func(*recovery.History)) *recovery.History {
	h := &recovery.History{
		Case: "c", Step: "s", Model: "primary", Effect: entry.EffectNone, StartedAt: 1,
		Failure: recovery.Failure{Class: class, Code: code, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, Evidence: true},
	}
	if change != nil {
		change(h)
	}
	return h
}

// after is a history behind an action of an external strategy.
func after(h *recovery.History, a recovery.Action, result recovery.Result) *recovery.History {
	h.Rungs = append(h.Rungs, h.RungOf(a, recovery.Rule{ID: recovery.RuleExternal, Rung: -1}, result))
	return h
}

// What an external strategy chooses passes only as far as a rung of the policy
// would: effects, safety, models, limits and guards bind it like a ladder.
func TestAdmitHoldsAnswersToThePolicy(t *testing.T) {
	retry := recovery.Action{Strategy: recovery.Retry}
	refused := recovery.Action{Strategy: recovery.Escalate, Severity: entry.SeverityError, Reason: recovery.ReasonAnswerRefused}
	external := func(a recovery.Action) recovery.Action {
		a.Reason = recovery.ReasonExternal
		return a
	}
	limit := int64(0)
	for _, test := range []struct {
		name   string
		h      *recovery.History
		chosen recovery.Action
		want   recovery.Action
	}{
		{"a retry where the ladder has none", failedStep("access", "denied", nil), retry, external(recovery.Action{Strategy: recovery.Retry, Model: "primary"})},
		{"its own reason stays", failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Retry, Reason: "cheap"}, recovery.Action{Strategy: recovery.Retry, Model: "primary", Reason: "cheap"}},
		{"another model than that of the step", failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Retry, Model: "alternate"},
			external(recovery.Action{Strategy: recovery.Retry, Model: "primary"})},
		{"the chain's next model", failedStep("output", "refused", nil), recovery.Action{Strategy: recovery.FallbackModel}, external(recovery.Action{Strategy: recovery.FallbackModel, Model: "alternate"})},
		{"a model of the chain", failedStep("output", "refused", nil), recovery.Action{Strategy: recovery.FallbackModel, Model: "long-context"},
			external(recovery.Action{Strategy: recovery.FallbackModel, Model: "long-context"})},
		{"a model that nobody knows", failedStep("output", "refused", nil), recovery.Action{Strategy: recovery.FallbackModel, Model: "other"}, refused},
		{"the same model", failedStep("output", "refused", nil), recovery.Action{Strategy: recovery.FallbackModel, Model: "primary"}, refused},
		{"another model after a safety failure", failedStep("safety", "violation", nil), recovery.Action{Strategy: recovery.FallbackModel}, refused},
		{"a dearer model after a budget failure", failedStep("budget", "exceeded", nil), recovery.Action{Strategy: recovery.FallbackModel, Model: "alternate"}, refused},
		{
			"a second effect", failedStep("tool", "error", func(h *recovery.History) {
				h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectIrrevocable, entry.EffectsComplete, entry.ReplayUnsafe
			}), retry,
			recovery.Action{Strategy: recovery.Escalate, Severity: entry.SeverityError, Reason: recovery.ReasonEffectsComplete},
		},
		{"a checkpoint that is not there", failedStep("crash", "lost", nil), recovery.Action{Strategy: recovery.CheckpointResume}, refused},
		{"success that must be verified", failedStep("output", "ungrounded", nil), retry, external(recovery.Action{Strategy: recovery.Retry, Model: "primary", Verify: true})},
		{
			"limits", failedStep("tool", "error", func(h *recovery.History) { h.Budget.Attempts = &limit }), retry,
			recovery.Action{Strategy: recovery.Escalate, Severity: entry.SeverityError, Reason: recovery.ReasonAttemptsExhausted},
		},
		{
			"a guard", failedStep("tool", "error", func(h *recovery.History) { h.SafetyCritical = true }), retry,
			recovery.Action{Strategy: recovery.Escalate, Severity: entry.SeverityCritical, Reason: recovery.ReasonGuard},
		},
		{"an end", failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Escalate, Question: true},
			external(recovery.Action{Strategy: recovery.Escalate, Question: true, Severity: entry.SeverityError})},
		{"a fence", failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Quarantine}, external(recovery.Action{Strategy: recovery.Quarantine, Severity: entry.SeverityCritical})},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := recovery.Admit(test.h, recovery.Default(), 1, test.chosen)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("action (-want +got):\n%s", diff)
			}
		})
	}
}

// Nobody is asked where the action is certain.
func TestSettledAsksNobody(t *testing.T) {
	uncertain := func(h *recovery.History) {
		h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectIrrevocable, entry.EffectsUnknown, entry.ReplayUnknown
	}
	for _, test := range []struct {
		name string
		h    *recovery.History
		want recovery.Reason // empty: a strategy may choose
	}{
		{"a failure", failedStep("tool", "error", nil), ""},
		{"effects in doubt", failedStep("tool", "error", uncertain), recovery.ReasonEffectsUncertain},
		{"not observed", after(failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Retry}, recovery.ResultNotObserved), recovery.ReasonNotObserved},
		{"failed again", after(failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Retry}, recovery.ResultFailed), ""},
		{"fenced", after(failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Quarantine}, recovery.ResultOK), recovery.ReasonAfterQuarantine},
		{"stopped", after(failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Abort}, recovery.ResultOK), recovery.ReasonAfterAbort},
		{"signalled", after(failedStep("tool", "error", nil), recovery.Action{Strategy: recovery.Rollback}, recovery.ResultOK), recovery.ReasonAfterRollback},
	} {
		action, _, settled := recovery.Settled(test.h, recovery.Default(), 1)
		if settled != (test.want != "") || settled && action.Reason != test.want {
			t.Errorf("%s: settled %t with %s, want %q", test.name, settled, action, test.want)
		}
	}
}
