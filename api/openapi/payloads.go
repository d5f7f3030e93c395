package openapi

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// withPayloads returns all schemas: those of the Go types, and the JSON Schemas of the
// payloads, as payload.KIND and, for what they share, as defs.NAME. The library cannot
// hold these: it knows no if and then.
func withPayloads(registry huma.Registry) (object, error) {
	schemas, err := encoded(registry)
	if err != nil {
		return nil, err
	}
	var payloads []any
	for _, kind := range entry.Kinds() {
		if err := addSchema(schemas, string(kind), "payload."+string(kind)); err != nil {
			return nil, err
		}
		payloads = append(payloads, object{"$ref": "#/components/schemas/payload." + string(kind)})
	}
	if err := addSchema(schemas, "defs", "defs"); err != nil {
		return nil, err
	}
	if payload := member(schemas, "Envelope", "properties", "payload"); payload != nil {
		payload["contentEncoding"], payload["contentMediaType"] = "base64", "application/json"
		payload["contentSchema"] = object{"oneOf": payloads}
	}
	return schemas, nil
}

// addSchema adds a schema under a name, and its definitions under names of their
// own: references inside a component would not be found by every tool.
func addSchema(schemas object, file, name string) error {
	var schema object
	if err := json.Unmarshal(entry.Schema(file), &schema); err != nil {
		return fmt.Errorf("schema %s: %w", file, err)
	}
	definitions, _ := schema["$defs"].(object)
	delete(schema, "$defs")
	delete(schema, "$schema")
	for definition, text := range definitions {
		schemas[name+"."+definition] = withReferences(text, name)
	}
	if file != "defs" {
		schemas[name] = withReferences(schema, name)
	}
	return nil
}

// withReferences returns a schema whose references are to components.
func withReferences(node any, name string) any {
	switch node := node.(type) {
	case object:
		for member, value := range node {
			if text, ok := value.(string); ok && member == "$ref" {
				text = strings.Replace(text, "defs.json#/$defs/", "#/components/schemas/defs.", 1)
				node[member] = strings.Replace(text, "#/$defs/", "#/components/schemas/"+name+".", 1)
				continue
			}
			node[member] = withReferences(value, name)
		}
	case []any:
		for i, value := range node {
			node[i] = withReferences(value, name)
		}
	}
	return node
}
