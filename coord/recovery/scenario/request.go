package scenario

import "github.com/go-json-experiment/json/jsontext"

// Request asks for one attempt of one step.
type Request struct {
	// Case and Step are the subject of the attempt. A runtime must not change them.
	Case *Case
	Step *Step
	// Variation is the decision of the policy. For the first attempt it has neither strategy nor
	// variant.
	Variation Variation
	// Attempt counts the attempts of this step from 0, the first one.
	Attempt int
	// Past is how those went that were asked for before and made, the first one
	// excepted.
	Past []Variation
	// Failure is the failure that the attempt answers; nil for the first attempt.
	Failure *Failure
	// Key is the idempotency key of the step: the same for every attempt that
	// may repeat its effect. Empty where nothing is really done.
	Key string
	// TimeLeftMS is the rest of the budget's deadline; 0: no bound.
	TimeLeftMS int64
	// Outputs are the outputs of the step's parents by their ids, where the
	// runtime gave one.
	Outputs map[string]jsontext.Value
}
