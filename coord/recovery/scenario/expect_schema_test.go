package scenario

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// A demand whose schema no output could be held to is refused when the case is read.
func TestExpectRefusesSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type": "strin"}`: `is not a schema: /type names the type "strin", which JSON lacks`,
		`{"anyOf": [true, {"type": ["string", "text"]}]}`: `is not a schema: /anyOf/1/type names the type "text"`,
		`{"properties": {"a/b": {"minLength": -1}}}`:      "is not a schema: /properties/a~1b/minLength is not a count",
		`{"items": {"maxItems": 1.5}}`:                    "is not a schema: /items/maxItems is not a count",
		`{"maxLength": -1e300}`:                           "is not a schema: /maxLength is not a count",
		`{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"], "c": {"type": "strin"}}}`: `is not a schema: /dependencies/c/type names the type "strin"`,
		`{"multipleOf": 0}`:                        "is not a schema: /multipleOf is not above 0",
		`{"allOf": []}`:                            "is not a schema: /allOf is not a list of schemas",
		`{"properties": {"a": {"required": "b"}}}`: "is not a schema: ",
		`{"pattern": "("}`:                         "is not a schema: ",
		`{"enum": 3}`:                              "is not a schema: ",
		`[]`:                                       "is not a schema: ",
		`3`:                                        "is not a schema: ",
		`{"$ref": "http://127.0.0.1:9/a.json"}`:    `is not a schema: it refers to "http://127.0.0.1:9/a.json", which it lacks`,
		`{"items": {"$ref": "#/$defs/none"}}`:      `is not a schema: it refers to "#/$defs/none", which it lacks`,
		`{"$dynamicRef": "#none"}`:                 `is not a schema: it refers to "#none", which it lacks`,
		`{"$schema": "http://127.0.0.1:9/own"}`:    `is not a schema: /$schema is "http://127.0.0.1:9/own", which is no draft`,
		`{"allOf": [{"$schema": "x", "type": ["string"}]`: "is not a schema: ",
	} {
		wrong := (&Expect{Schema: []byte(schema)}).check()
		if wrong == nil || wrong.Field != "/schema" || !strings.Contains(wrong.Detail, want) || wrong.Remedy == "" {
			t.Errorf("%s: %v", schema, wrong)
		}
	}
}

// Numbers are exact, every draft is known, and references in a circle end.
func TestExpectSchemas(t *testing.T) {
	const chain = `{"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": false}}, "$ref": "#/$defs/node"}`
	for _, test := range []struct {
		schema, output string
		fits           bool
	}{
		{`{"multipleOf": 0.01}`, `19.99`, true},
		{`{"multipleOf": 0.01}`, `19.995`, false},
		{`{"maximum": 9007199254740992}`, `9007199254740993`, false},
		{`{"minimum": -0.1}`, `-0.1000000000000000001`, false},
		{`{"const": 1}`, `1.0`, true},
		{`{"type": "integer"}`, `1e3`, true},
		{`{"uniqueItems": true}`, `[1, 1.0]`, false},
		{`{"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": true}`, `3`, false},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, `["a", 1]`, false},
		{`{"$schema": "https://json-schema.org/draft/2019-09/schema", "dependentRequired": {"a": ["b"]}}`, `{"a": 1}`, false},
		{`{"prefixItems": [{"type": "string"}], "items": false}`, `["a", 1]`, false},
		{`{"properties": {"a": true}, "unevaluatedProperties": false}`, `{"b": 1}`, false},
		{chain, `{"next": {"next": {}}}`, true},
		{chain, `{"next": {"other": 1}}`, false},
		{`{"$ref": "#"}`, `1`, true},
		{`{"allOf": [{"$ref": "#"}], "type": "string"}`, `1`, false},
		{`{"format": "email"}`, `"nobody"`, true}, // a format is a note, by the drafts since 2019-09
		{`{"type": "object"}`, `{"a": 1`, false},
		{`true`, `{}`, true},
		{`false`, `{}`, false},
	} {
		e := &Expect{Schema: []byte(test.schema)}
		if wrong := e.check(); wrong != nil {
			t.Errorf("%s: %v", test.schema, wrong)
			continue
		}
		verdict, err := e.Judge([]byte(test.output), nil)
		if err != nil || (verdict.Code == "") != test.fits {
			t.Errorf("%s of %s: %+v, %v", test.output, test.schema, verdict, err)
		}
	}
}

// Outputs fit a schema where another validator of JSON Schemas says so.
func TestExpectSchemasRandom(t *testing.T) {
	fits := 0
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(drawSchema(t, 3), json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		output, err := json.Marshal(drawValue(t, 3), json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		e := &Expect{Schema: schema}
		if wrong := e.check(); wrong != nil {
			t.Fatalf("%s: %v", schema, wrong)
		}
		verdict, err := e.Judge(output, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := otherTakes(t, schema, output)
		if want {
			fits++
		}
		if (verdict.Code == "") != want {
			t.Errorf("%s of %s: %+v, want %t", output, schema, verdict, want)
		}
	})
	if fits == 0 {
		t.Error("no output fits its schema")
	}
}

// FuzzExpectSchema: a schema is refused or judges every output, and neither panics.
func FuzzExpectSchema(f *testing.F) {
	for _, schema := range []string{
		`{"$ref": "#"}`, `{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": ["string", "null"], "pattern": "^a*$"}}}`,
		`{"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a", "items": {"multipleOf": 0.01}}}}`, `{"properties": {"a": {"not": {}}}, "unevaluatedProperties": false}`,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "items": [{"maximum": 3, "exclusiveMaximum": true}], "dependencies": {"a": ["b"]}}`, `false`,
	} {
		f.Add([]byte(schema), []byte(`{"a": [19.99, "a", null]}`))
	}
	f.Fuzz(func(t *testing.T, schema, output []byte) {
		e := &Expect{Schema: schema}
		if wrong := e.check(); wrong != nil {
			if wrong.Field != "/schema" || wrong.Remedy == "" {
				t.Errorf("%s: %+v", schema, wrong)
			}
			return
		}
		if _, err := e.Judge(output, nil); err != nil {
			t.Errorf("%s of %s: %v", output, schema, err)
		}
	})
}

func otherTakes(t *rapid.T, schema, output []byte) bool {
	read := func(text []byte) any {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("urn:expect", read(schema)); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("urn:expect").Validate(read(output)) == nil
}

func drawValue(t *rapid.T, depth int) any {
	scalar := rapid.SampledFrom([]any{nil, true, false, "", "a", "bb", "Ä", 0, 1, -1, 2, 1.5, 0.3, int64(1 << 53)})
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case depth == 0 || kind < 2:
		return scalar.Draw(t, "value")
	case kind == 2:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			object[rapid.SampledFrom([]string{"a", "b", "cc"}).Draw(t, "name")] = drawValue(t, depth-1)
		}
		return object
	}
}

// drawSchema draws up to three keywords at each level.
func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "boolean") == 0 {
		return rapid.IntRange(0, 4).Draw(t, "true") > 0
	}
	below := func() any { return drawSchema(t, depth-1) }
	some := func() []any { return []any{below(), below()} }
	members := func() map[string]any { return map[string]any{"a": below(), "b": below()} }
	keywords := map[string]func() any{
		"type": func() any {
			return rapid.SampledFrom([]any{"object", "array", "string", "number", "integer", "null", "boolean", []any{"string", "integer"}}).Draw(t, "type")
		},
		"enum":                  func() any { return []any{drawValue(t, 1), drawValue(t, 1), 1, "a"} },
		"const":                 func() any { return drawValue(t, 1) },
		"minimum":               func() any { return rapid.SampledFrom([]any{-1, 0, 1.5}).Draw(t, "minimum") },
		"exclusiveMaximum":      func() any { return rapid.SampledFrom([]any{0, 1, 2.5}).Draw(t, "maximum") },
		"multipleOf":            func() any { return rapid.SampledFrom([]any{1, 0.1, 0.5}).Draw(t, "multiple") },
		"minLength":             func() any { return rapid.IntRange(0, 2).Draw(t, "length") },
		"pattern":               func() any { return rapid.SampledFrom([]string{"^a", "b$", "."}).Draw(t, "pattern") },
		"minItems":              func() any { return rapid.IntRange(0, 2).Draw(t, "items") },
		"uniqueItems":           func() any { return true },
		"items":                 below,
		"prefixItems":           func() any { return some() },
		"contains":              below,
		"maxProperties":         func() any { return rapid.IntRange(0, 2).Draw(t, "properties") },
		"required":              func() any { return []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "required")} },
		"properties":            func() any { return members() },
		"patternProperties":     func() any { return map[string]any{"^a": below()} },
		"additionalProperties":  below,
		"propertyNames":         below,
		"unevaluatedProperties": below,
		"unevaluatedItems":      below,
		"dependentRequired":     func() any { return map[string]any{"a": []string{"b"}} },
		"dependentSchemas":      func() any { return map[string]any{"a": below()} },
		"allOf":                 func() any { return some() },
		"anyOf":                 func() any { return some() },
		"oneOf":                 func() any { return some() },
		"not":                   below,
		"if":                    below,
		"then":                  below,
		"else":                  below,
		"$ref":                  func() any { return "#/$defs/a" },
	}
	names := []string{"type", "enum", "const", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "pattern", "minItems", "uniqueItems",
		"items", "prefixItems", "contains", "maxProperties", "required", "properties", "patternProperties", "additionalProperties", "propertyNames",
		"unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"}
	schema := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keywords") {
		name := rapid.SampledFrom(names).Draw(t, "keyword")
		schema[name] = keywords[name]()
	}
	if depth == 3 {
		schema["$defs"] = map[string]any{"a": map[string]any{"type": []any{"string", "object"}}}
	} else {
		delete(schema, "$ref")
	}
	return schema
}
