package ask

import _ "embed"

//go:embed schema/decision.json
var decisionSchema []byte

//go:embed schema/question.json
var questionSchema []byte

// Schema returns a JSON Schema (2020-12): of a question ("question"), or of its answer
// ("decision"). It returns nil for any other name. The schema of a question leaves out one rule:
// error stands in place of class and code.
func Schema(name string) []byte {
	switch name {
	case "question":
		return questionSchema
	case "decision":
		return decisionSchema
	}
	return nil
}
