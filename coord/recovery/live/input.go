package live

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// callRequest is what a tool gets, as one JSON object.
type callRequest struct {
	Case    string `json:"case"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Strategy and Variant are the way of the attempt, Class and Code those of
	// the failure that it answers. The words of an error are never passed on:
	// they are not trusted.
	Strategy string `json:"strategy,omitzero"`
	Variant  string `json:"variant,omitzero"`
	Class    string `json:"class,omitzero"`
	Code     string `json:"code,omitzero"`
	Reason   string `json:"reason,omitzero"`
	// Key is the idempotency key of the step.
	Key   string         `json:"idempotency_key,omitzero"`
	Input jsontext.Value `json:"input,omitzero"`
	// Check and Output are those of a check that the tool is to judge.
	Check  string         `json:"check,omitzero"`
	Output jsontext.Value `json:"output,omitzero"`

	deadlineMS int64
}

// request is what the tool of a plan gets.
func (p *plan) request(q scenario.Request) callRequest {
	r := callRequest{
		Case: q.Case.ID, Step: q.Step.ID, Attempt: q.Attempt, Strategy: q.Variation.Strategy, Variant: q.Variation.Variant,
		Key: q.Key, Input: p.input, deadlineMS: q.TimeLeftMS,
	}
	if q.Failure != nil {
		r.Class, r.Code = q.Failure.Class, q.Failure.Code
	}
	return r
}

// body is the request as it is sent.
func (r *callRequest) body(raw bool) ([]byte, error) {
	if raw {
		if len(r.Input) == 0 {
			return []byte("null"), nil
		}
		return r.Input, nil
	}
	return json.Marshal(r)
}

// resolve puts the outputs of earlier steps into an input: an object
// {"$from": STEP} or {"$from": STEP, "at": POINTER} is replaced by the output
// of that step, or the value in it.
func resolve(input jsontext.Value, outputs map[string]jsontext.Value) (jsontext.Value, *scenario.Error) {
	if len(input) == 0 {
		return nil, nil
	}
	return substitute(input.Clone(), outputs, 0)
}

func substitute(value jsontext.Value, outputs map[string]jsontext.Value, depth int) (jsontext.Value, *scenario.Error) {
	if depth > inputDepthMax {
		return nil, scenario.Malformed("", fmt.Sprintf("holds more than %d values inside one another", inputDepthMax), "flatten the input")
	}
	switch value.Kind() {
	case '{':
		if ref, ok := reference(value); ok {
			return ref.follow(outputs)
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return nil, scenario.Malformed("", err.Error(), "write the input as JSON")
		}
		for name, member := range members {
			inner, wrong := substitute(member, outputs, depth+1)
			if wrong != nil {
				return nil, scenario.Prefixed("/"+name, wrong)
			}
			members[name] = inner
		}
		return remade(members)
	case '[':
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			return nil, scenario.Malformed("", err.Error(), "write the input as JSON")
		}
		for i, element := range elements {
			inner, wrong := substitute(element, outputs, depth+1)
			if wrong != nil {
				return nil, scenario.Prefixed("/"+strconv.Itoa(i), wrong)
			}
			elements[i] = inner
		}
		return remade(elements)
	}
	return value, nil
}

func remade(v any) (jsontext.Value, *scenario.Error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, scenario.Malformed("", err.Error(), "write the input as JSON")
	}
	return text, nil
}

// outputOf names the output of a step, or a value in it.
type outputOf struct {
	From string `json:"$from"`
	At   string `json:"at"`
}

func reference(value jsontext.Value) (outputOf, bool) {
	var ref outputOf
	err := json.Unmarshal(value, &ref, json.RejectUnknownMembers(true))
	return ref, err == nil && ref.From != ""
}

func (r outputOf) follow(outputs map[string]jsontext.Value) (jsontext.Value, *scenario.Error) {
	output, ok := outputs[r.From]
	if !ok {
		return nil, scenario.Malformed("/$from", fmt.Sprintf("names step %.60q, which gave no output", r.From), "name an earlier step that runs live in this case")
	}
	value, ok := scenario.ValueAt(output, r.At)
	if !ok || !jsontext.Pointer(r.At).IsValid() {
		return nil, scenario.Malformed("/at", fmt.Sprintf("%.60q is not in the output of step %.60q", r.At, r.From), "write a JSON pointer to a value in that output")
	}
	return value, nil
}

// ppmOf reads parts per million. A grade that is none counts as nothing.
func ppmOf(value jsontext.Value) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 || n > scenario.FullPPM {
		return 0
	}
	return n
}
