package entry

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// NewWithReason returns the entry of a body. Its payload has the reason as a further member, which
// readers may ignore.
func NewWithReason(body Body, reason string) (*Entry, error) {
	if reason == "" {
		return New(body)
	}
	var members map[string]jsontext.Value
	payload, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(payload, &members)
	}
	if err == nil {
		members["reason"], err = json.Marshal(reason)
	}
	if err == nil {
		payload, err = json.Marshal(members)
	}
	if err == nil {
		err = (*jsontext.Value)(&payload).Canonicalize()
	}
	if err != nil {
		return nil, err
	}
	return NewRaw(body.Kind(), payload)
}

// Complete does what [NewRaw] does, and adds the members of the header that the payload lacks. The
// members that the payload has are signed as they are written.
func Complete(kind Kind, payload []byte, header Header) (*Entry, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, Refuse(Malformed, "payload", "not a JSON object: %v", err)
	}
	completed, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	var defaults map[string]jsontext.Value
	if err := json.Unmarshal(completed, &defaults); err != nil {
		return nil, err
	}
	for name, value := range defaults {
		if _, there := members[name]; !there {
			members[name] = value
		}
	}
	if completed, err = json.Marshal(members, json.Deterministic(true)); err != nil {
		return nil, err
	}
	return NewRaw(kind, completed)
}
