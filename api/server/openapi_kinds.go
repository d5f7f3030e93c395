package server

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// withPayloads adds the JSON Schemas of the payloads to the encoded document, as
// payload.KIND and, for what they share, as defs.NAME. The library cannot hold
// them: it knows no if and then.
func withPayloads(document []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("server: OpenAPI document: %w", err)
	}
	components, _ := doc["components"].(map[string]any)
	schemas, ok := components["schemas"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("server: OpenAPI document: no components.schemas")
	}
	var payloads []any
	for _, kind := range entry.Kinds() {
		if err := addSchema(schemas, string(kind), "payload."+string(kind)); err != nil {
			return nil, err
		}
		payloads = append(payloads, map[string]any{"$ref": "#/components/schemas/payload." + string(kind)})
	}
	if err := addSchema(schemas, "defs", "defs"); err != nil {
		return nil, err
	}
	if envelope, ok := schemas["Envelope"].(map[string]any); ok {
		if members, ok := envelope["properties"].(map[string]any); ok {
			if payload, ok := members["payload"].(map[string]any); ok {
				payload["contentEncoding"], payload["contentMediaType"] = "base64", "application/json"
				payload["contentSchema"] = map[string]any{"oneOf": payloads}
			}
		}
	}
	return json.Marshal(doc, json.Deterministic(true))
}

// addSchema adds a schema under a name, and its definitions under names of their
// own: references inside a component would not be found by every tool.
func addSchema(schemas map[string]any, file, name string) error {
	var schema map[string]any
	if err := json.Unmarshal(entry.Schema(file), &schema); err != nil {
		return fmt.Errorf("server: schema %s: %w", file, err)
	}
	definitions, _ := schema["$defs"].(map[string]any)
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
	case map[string]any:
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
