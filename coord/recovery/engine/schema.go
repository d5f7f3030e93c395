package engine

import "embed"

// schemas are the JSON Schemas (2020-12) of the engine's files.
//
//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema of a line of traces.ndjson ("trace"), of
// report.json ("report"), of what an external strategy is asked ("question") or of
// what it answers ("action"), and nil for any other name. A schema says of an action
// all but that it has a variant exactly with retry_altered, and a scope exactly with
// state_reset.
func Schema(name string) []byte {
	text, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return text
}
