package run

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Runtime performs attempts: it looks them up in the record of a case
// ([Recorded]), draws them from an outcome model, or makes them for real.
//
// Its methods are called from several goroutines, for one case from one at a
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
	// Way is what the policy decided on; the zero Way asks for the first
	// attempt.
	Way Way
	// Attempt counts the attempts of this step from 0, the first one.
	Attempt int
	// Key is the idempotency key of the step: the same for every attempt that
	// may repeat its effect.
	Key string
	// TimeLeftMS is what the budget leaves of the deadline; 0: no bound.
	TimeLeftMS int64
	// Outputs are the outputs of the step's parents by their ids, where the
	// runtime gave one.
	Outputs map[string]jsontext.Value
}
