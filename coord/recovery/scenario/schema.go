package scenario

import _ "embed"

//go:embed schema/case.json
var schema string

// CaseSchema returns the JSON Schema (2020-12) of a line of a scenario. The schema
// accepts all that [Decode] accepts, and refuses what Decode refuses, but for what
// no schema can say:
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
func CaseSchema() []byte { return []byte(schema) }
