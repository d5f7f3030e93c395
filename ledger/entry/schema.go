package entry

import "embed"

// schemas are the JSON Schemas (2020-12) of what goes over the wire. They say
// what Decode says, but for what a schema cannot: see docs/entry.md.
//
//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema of a kind's payload, or "envelope", "leaf" or
// "receipt"; they refer to "defs". It returns nil for any other name.
func Schema(name string) []byte {
	text, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return text
}
