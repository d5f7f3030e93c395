package run

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
)

// Runtime performs attempts: it looks them up in the record of a case
// ([Recorded]), draws them from an outcome model ([Simulated]), or makes them
// for real.
//
// Its method is called from several goroutines, for one case from one at a
// time and in the order of the steps.
type Runtime interface {
	// Attempt performs one attempt of one step and returns what came of it. A
	// failure of the attempt is part of what is returned, not an error; an
	// error ends the run. An attempt that the runtime knows nothing of is
	// [NotObserved].
	Attempt(ctx context.Context, q Request) (Attempt, error)
}

// Request asks for one attempt of one step.
type Request struct {
	// Case and Step are what is attempted; they are not to be changed.
	Case *Case
	Step *Step
	// Way is what the policy decided on; for the first attempt it has neither
	// strategy nor variant.
	Way Way
	// Attempt counts the attempts of this step from 0, the first one.
	Attempt int
	// Past is how those went that were asked for before and made, the first one
	// excepted.
	Past []Way
	// Failure is what the attempt answers; nil for the first one.
	Failure *Failure
	// Key is the idempotency key of the step: the same for every attempt that
	// may repeat its effect. Empty where nothing is really done.
	Key string
	// TimeLeftMS is what the budget leaves of the deadline; 0: no bound.
	TimeLeftMS int64
	// Outputs are the outputs of the step's parents by their ids, where the
	// runtime gave one.
	Outputs map[string]jsontext.Value
}

// Recorded is the runtime that looks attempts up in the case itself.
//
// A recorded attempt answers one that goes the same way: the strategies are
// equal, variant and model are equal or absent in the record. It answers once,
// and of several the first that has not answered yet does: one record shows one
// attempt. The place of a recorded attempt among others does not matter
// otherwise, so that another policy, which tries the same things in another
// order, finds what is known of them.
type Recorded struct{}

// Attempt implements [Runtime].
func (Recorded) Attempt(_ context.Context, q Request) (Attempt, error) {
	if q.Way.Strategy == "" {
		return q.Step.Attempt, nil
	}
	used := make([]bool, len(q.Step.Attempts))
	for _, w := range q.Past {
		if i := q.Step.answer(w, used); i >= 0 {
			used[i] = true
		}
	}
	if i := q.Step.answer(q.Way, used); i >= 0 {
		return q.Step.Attempts[i], nil
	}
	return Attempt{Way: q.Way, Outcome: NotObserved}, nil
}

// answer is the first attempt that goes a way and has not been used; -1: none.
func (s *Step) answer(w Way, used []bool) int {
	for i := range s.Attempts {
		if !used[i] && s.Attempts[i].answers(w) {
			return i
		}
	}
	return -1
}

// answers reports whether a recorded attempt is one that goes the given way.
func (a *Attempt) answers(w Way) bool {
	return a.Strategy == w.Strategy && (a.Variant == "" || a.Variant == w.Variant) && (a.Model == "" || w.Model == "" || a.Model == w.Model)
}

// wayOf is how an attempt under an action differs from the first one.
func wayOf(a recovery.Action) Way {
	w := Way{Strategy: string(a.Strategy), Variant: string(a.Variant), Model: a.Model}
	if a.Strategy == recovery.StateReset {
		w.Variant = string(a.Scope)
	}
	return w
}
