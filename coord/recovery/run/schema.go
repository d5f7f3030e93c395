package run

import "embed"

// schemas are the JSON Schemas (2020-12) of the engine's files.
//
//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema of a line of a scenario ("case"), of a line of
// traces.ndjson ("trace"), of report.json ("report"), of what an external strategy
// is asked ("question") or of what it answers ("action"), and nil for any other
// name.
//
// That of a case accepts all that [DecodeCase] accepts, and refuses what it
// refuses, but for what no schema can say:
//
//   - a member stands twice in an object; text is not UTF-8;
//   - an integer is written with fraction or exponent, as 1.0;
//   - lengths of text count bytes, those of a schema characters;
//   - ids of steps differ, parents stand before their children, each once;
//   - a failure stands exactly with an attempt that failed, effects with a
//     reconcile that ended ok, attempts behind a first one that failed;
//   - an action has a variant exactly with retry_altered, a scope exactly with
//     state_reset;
//   - demands on outputs can be compiled, and look at them in one way.
func Schema(name string) []byte {
	text, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return text
}
