package engine

import (
	"context"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// Runtime performs attempts: it looks them up in the record of a case
// ([Recorded]), draws them from an outcome model ([Simulated]), or makes them
// for real.
//
// Its method is called from several goroutines, for one case from one at a
// time and in the order of the steps.
type Runtime interface {
	// Attempt performs one attempt of one step and returns its result. A failed attempt is a result
	// and no error. An error ends the run. If the runtime has no record of the attempt, the result
	// is [NotObserved].
	Attempt(ctx context.Context, q scenario.Request) (scenario.Attempt, error)
}

// checkingRuntime is a runtime that can tell, before the first attempt, which cases it cannot
// complete.
type checkingRuntime interface {
	Check(c *scenario.Case) *scenario.Error
}

// Recorded is the runtime that looks attempts up in the case itself.
//
// A recorded attempt answers an attempt with the same strategy. Its variant and model must be
// equal, or absent in the record. A recorded attempt answers once. If several match, the first that
// has not answered yet answers, because one record shows one attempt. Otherwise the order of the
// recorded attempts does not matter. So another policy, which tries the same actions in another
// order, finds their recorded results.
type Recorded struct{}

// Attempt implements [Runtime].
func (Recorded) Attempt(_ context.Context, q scenario.Request) (scenario.Attempt, error) {
	if q.Variation.Strategy == "" {
		return q.Step.Attempt, nil
	}
	used := make([]bool, len(q.Step.Attempts))
	for _, w := range q.Past {
		if i := answering(q.Step, w, used); i >= 0 {
			used[i] = true
		}
	}
	if i := answering(q.Step, q.Variation, used); i >= 0 {
		return q.Step.Attempts[i], nil
	}
	return scenario.Attempt{Variation: q.Variation, Outcome: scenario.NotObserved}, nil
}

// answering returns the first recorded attempt of a step that has the given variation and is not
// yet used; -1: none.
func answering(s *scenario.Step, w scenario.Variation, used []bool) int {
	for i := range s.Attempts {
		if !used[i] && goesAlike(&s.Attempts[i], w) && (w.Model != "" || !ranElsewhere(s, &s.Attempts[i])) {
			return i
		}
	}
	return -1
}

// ranElsewhere reports whether a recorded attempt ran on the model of a recorded fallback. Such an
// attempt is no answer to an attempt on the model of before, which no member names.
func ranElsewhere(s *scenario.Step, a *scenario.Attempt) bool {
	if a.Model == "" || a.Strategy == string(recovery.FallbackModel) {
		return false
	}
	for i := range s.Attempts {
		if b := &s.Attempts[i]; b.Strategy == string(recovery.FallbackModel) && b.Model == a.Model {
			return true
		}
	}
	return false
}

// goesAlike reports whether a recorded attempt has the given variation.
func goesAlike(a *scenario.Attempt, w scenario.Variation) bool {
	return a.Strategy == w.Strategy && (a.Variant == "" || a.Variant == w.Variant) && (a.Model == "" || w.Model == "" || a.Model == w.Model)
}

// variationOf returns the difference between an attempt under an action and the first attempt.
func variationOf(a recovery.Action) scenario.Variation {
	w := scenario.Variation{Strategy: string(a.Strategy), Variant: string(a.Variant), Model: a.Model}
	if a.Strategy == recovery.StateReset {
		w.Variant = string(a.Scope)
	}
	return w
}
