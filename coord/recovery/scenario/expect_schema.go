package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kaptinlin/jsonschema"
)

const schemaRemedy = "write a JSON Schema (2020-12) without references outside of itself"

// compile gives the schema, nil without one.
func (e *Expect) compile() (*jsonschema.Schema, *Error) {
	if len(e.Schema) == 0 {
		return nil, nil
	}
	compiler := jsonschema.NewCompiler()
	clear(compiler.Loaders) // nothing is fetched
	schema, err := compiler.Compile(e.Schema)
	if err != nil {
		return nil, noSchema(err.Error())
	}
	return schema, nil
}

func noSchema(why string) *Error {
	return Malformed("/schema", "is not a schema: "+Cut(why, ToolMax), schemaRemedy)
}

// checkSchema refuses a schema that the meta schemas of JSON Schema refuse, and one that refers to
// what it lacks: the library takes both, and then judges outputs by something else.
func (e *Expect) checkSchema() *Error {
	schema, wrong := e.compile()
	if schema == nil {
		return wrong
	}
	if lacks := schema.UnresolvedReferenceURIs(); len(lacks) > 0 {
		return noSchema(fmt.Sprintf("it refers to %.80q, which it lacks", lacks[0]))
	}
	var value any
	if err := json.Unmarshal(e.Schema, &value); err != nil {
		return noSchema(err.Error())
	}
	if at, why := misused("", value); why != "" {
		return noSchema(fmt.Sprintf("%s %s", at, why))
	}
	return nil
}

// below are the keywords that apply schemas, in the words of all drafts.
var below = struct{ one, list, members []string }{
	one:     []string{"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"},
	list:    []string{"allOf", "anyOf", "oneOf", "prefixItems"},
	members: []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"},
}

// misused returns the place of the first keyword in a schema whose value is none of the keyword's,
// as a pointer, and why. Which types values have, the library checks.
func misused(at string, schema any) (place, why string) {
	if list, ok := schema.([]any); ok { // items in the drafts before 2020-12
		for i, one := range list {
			if place, why = misused(fmt.Sprintf("%s/%d", at, i), one); why != "" {
				return place, why
			}
		}
	}
	object, _ := schema.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		place, value := at+"/"+keyword, object[keyword]
		if why := misvalued(keyword, value); why != "" {
			return place, why
		}
		switch members, _ := value.(map[string]any); {
		case slices.Contains(below.one, keyword), slices.Contains(below.list, keyword):
			if place, why := misused(place, value); why != "" {
				return place, why
			}
		case slices.Contains(below.members, keyword):
			for _, name := range slices.Sorted(maps.Keys(members)) {
				if place, why := misused(string(jsontext.Pointer(place).AppendToken(name)), members[name]); why != "" {
					return place, why
				}
			}
		}
	}
	return "", ""
}

// dialects are the drafts of JSON Schema that are known.
func dialects() (names []string) {
	for _, draft := range []jsonschema.Dialect{jsonschema.Draft4, jsonschema.Draft6, jsonschema.Draft7, jsonschema.Draft201909, jsonschema.Draft202012} {
		names = append(names, strings.TrimSuffix(string(draft), "#"))
	}
	return names
}

// misvalued says why a keyword cannot have a value; nothing if it can.
func misvalued(keyword string, value any) string {
	switch keyword {
	case "$schema":
		if !slices.Contains(dialects(), strings.TrimSuffix(fmt.Sprint(value), "#")) {
			return fmt.Sprintf("is %.60q, which is no draft of JSON Schema", fmt.Sprint(value))
		}
	case "type":
		names, ok := value.([]any)
		if !ok {
			names = []any{value}
		}
		for _, name := range names {
			if !slices.Contains([]any{"array", "boolean", "integer", "null", "number", "object", "string"}, name) {
				return fmt.Sprintf("names the type %.40q, which JSON lacks", fmt.Sprint(name))
			}
		}
	case "multipleOf":
		if number, ok := value.(float64); ok && number <= 0 {
			return "is not above 0"
		}
	case "maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties":
		if number, ok := value.(float64); !ok || number < 0 || number != math.Trunc(number) {
			return "is not a count"
		}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		if list, ok := value.([]any); !ok || len(list) == 0 {
			return "is not a list of schemas"
		}
	}
	return ""
}
