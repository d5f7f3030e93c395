package run

import "github.com/go-json-experiment/json/jsontext"

// Expect is what a live run demands of a step's output.
type Expect struct {
	// Schema is a JSON Schema that the output fits.
	Schema jsontext.Value `json:"schema,omitzero"`
}
