package entry

import (
	"embed"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// schemas are the JSON Schemas (2020-12) of what goes over the wire.
//
//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema of a kind's payload, or "envelope", "leaf" or
// "receipt"; they refer to "defs". It returns nil for any other name.
//
// A schema accepts all that [Decode] accepts, and refuses what it refuses, but
// for what no schema can say:
//
//   - a member stands twice in an object; text is not UTF-8;
//   - an integer is written with fraction, exponent or negative zero, or, in an
//     unknown member, is beyond ±(2^53 − 1);
//   - arrays and objects nest deeper than [MaxDepth];
//   - lengths of text count bytes, those of a schema characters;
//   - a key is no DER, of another algorithm, or weak;
//   - two elements of a list differ, but not in what identifies them: parents by
//     exec, authority by key, signals by index;
//   - the envelope is larger than [MaxEnvelope]; the leaf is not in RFC 8785 form.
func Schema(name string) []byte {
	text, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return text
}

// Example returns a payload of a kind without the header: the first example in the kind's [Schema],
// indented. With a header, [Decode] accepts the payload. Example returns nil if the kind does not
// exist.
func Example(kind Kind) []byte {
	var schema struct {
		Examples []jsontext.Value `json:"examples"`
	}
	if err := json.Unmarshal(Schema(string(kind)), &schema); err != nil || len(schema.Examples) == 0 {
		return nil
	}
	example := schema.Examples[0]
	if err := example.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil
	}
	return append(example, '\n')
}
