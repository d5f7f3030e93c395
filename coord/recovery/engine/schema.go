package engine

import "embed"

// schemas are the JSON Schemas (2020-12) of the engine's files.
//
//go:embed schema/*.json
var schemas embed.FS

// Schema returns a JSON Schema: of a line of traces.ndjson ("trace"), of report.json ("report"), of
// the question to an external strategy ("question"), or of its answer ("action"). It returns nil
// for any other name. The schema of an action leaves out two rules: only retry_altered has a
// variant, and only state_reset has a scope.
func Schema(name string) []byte {
	text, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return text
}
