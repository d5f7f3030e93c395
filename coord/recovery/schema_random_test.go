package recovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"pgregory.net/rapid"
)

// What a policy file has against the schema is what another validator of JSON Schemas finds, and
// it is reported in the same words at the same places.
func TestSchemaProblemsRandom(t *testing.T) {
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", text); err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("schema.json")
	seen, trees := map[string]bool{}, 3
	if testing.Short() { // a fifth of the checks, which meet as many problems
		trees = 12
	}
	rapid.Check(t, func(t *rapid.T) {
		for range trees {
			src, tree := parse("policy.yaml", defaultRules(t))
			rules := tree.(map[string]any)[recoveryMember]
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				rules = changed(t, rules)
			}
			got, want := &source{values: src.values, members: src.members}, &source{values: src.values, members: src.members}
			if err := got.checkSchema(rules); err != nil {
				t.Fatal(err)
			}
			if found, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(rules)); ok {
				want.oracle(schema, found)
			}
			for _, p := range want.problems {
				seen[strings.Join(strings.Fields(p.What)[:1], "")] = true
			}
			inOrder := func(a, b Problem) int { return strings.Compare(a.Error(), b.Error()) }
			slices.SortFunc(got.problems, inOrder)
			slices.SortFunc(want.problems, inOrder)
			if !slices.Equal(got.problems, want.problems) {
				text, _ := json.Marshal(rules, json.Deterministic(true))
				t.Errorf("of %s\nreported: %v\nwant:     %v", text, got.problems, want.problems)
			}
		}
	})
	if len(seen) < 8 {
		t.Errorf("only these problems were met: %v", slices.Sorted(maps.Keys(seen)))
	}
}

// The walk over a policy file knows the keywords that the schema uses.
func TestSchemaKeywords(t *testing.T) {
	var root any
	if err := json.Unmarshal([]byte(schemaText), &root); err != nil {
		t.Fatal(err)
	}
	known := []string{"$defs", "$ref", "$schema", "$id", "additionalProperties", "description", "enum", "items", "maxItems", "maxLength",
		"maxProperties", "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "propertyNames", "required", "title", "type"}
	var walk func(schema any, isMap bool)
	walk = func(schema any, isMap bool) {
		object, ok := schema.(map[string]any)
		if !ok {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !isMap && !slices.Contains(known, name) {
				t.Errorf("the walk over a policy file does not know the keyword %s", name)
			}
			if isMap || slices.Contains([]string{"$defs", "properties", "items", "additionalProperties", "propertyNames"}, name) {
				walk(object[name], !isMap && (name == "$defs" || name == "properties"))
			}
		}
	}
	walk(root, false)
}

func defaultRules(t *rapid.T) []byte {
	doc := DefaultDocument()
	if rapid.Bool().Draw(t, "more") {
		doc = append(doc, "\n  variants: { first: \"sha256:"+strings.Repeat("0", 64)+"\" }\n"...)
	}
	return doc
}

// changed is a tree with one change somewhere in it.
func changed(t *rapid.T, tree any) any {
	other := rapid.SampledFrom([]any{nil, true, "", "x", "Ä x", strings.Repeat("long", 100), int64(-1), int64(0), int64(1), int64(1 << 50), []any{},
		[]any{"x", int64(1)}, map[string]any{}, map[string]any{"unknown": int64(1)}})
	switch tree := tree.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(tree))
		name := rapid.SampledFrom(append(names, "unknown", "a/b~c")).Draw(t, "name")
		tree = maps.Clone(tree)
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			delete(tree, name)
		case 1:
			tree[name] = other.Draw(t, "value")
		default:
			tree[name] = changed(t, tree[name])
		}
		return tree
	case []any:
		tree = slices.Clone(tree)
		if len(tree) == 0 || rapid.IntRange(0, 5).Draw(t, "what") == 0 {
			tree = append(tree, other.Draw(t, "element"))
			return slices.Repeat(tree, rapid.SampledFrom([]int{0, 1, 300/len(tree) + 1}).Draw(t, "times"))
		}
		i := rapid.IntRange(0, len(tree)-1).Draw(t, "element")
		tree[i] = changed(t, tree[i])
		return tree
	default:
		return other.Draw(t, "value")
	}
}

// oracle reports the innermost causes of a schema error in words.
func (s *source) oracle(schema *jsonschema.Schema, e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		if k, ok := cause.ErrorKind.(*kind.PropertyNames); ok { // at the name, which is not the validator's place
			enum := cause
			for len(enum.Causes) > 0 {
				enum = enum.Causes[0]
			}
			place := "/" + recoveryMember + "/variants/" + pointerPart(k.Property) // the only names that the schema has a rule for
			what, fix := fmt.Sprintf("%.80q is unknown", k.Property), oneOf(k.Property, texts(enum.ErrorKind.(*kind.Enum)))
			s.report(s.members[place], place, what, fix)
		}
	}
	for _, cause := range e.Causes {
		if _, ok := cause.ErrorKind.(*kind.PropertyNames); !ok {
			s.oracle(schema, cause)
		}
	}
	if len(e.Causes) > 0 {
		return
	}
	at := "/" + recoveryMember
	if len(e.InstanceLocation) > 0 {
		for _, part := range e.InstanceLocation {
			at += "/" + pointerPart(part)
		}
	}
	if slices.ContainsFunc(s.problems, func(p Problem) bool { return p.Field == field(at) }) {
		return // it could not even be read
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known := oracleMembers(schema, e.InstanceLocation)
		for _, name := range k.Properties {
			s.report(s.members[at+"/"+pointerPart(name)], at+"/"+pointerPart(name), "unknown member", oneOf(name, known))
		}
	case *kind.Required:
		for _, name := range k.Missing {
			s.report(s.at(at), at+"/"+name, "missing", "add it; arl policy show has an example")
		}
	case *kind.Enum:
		s.oracleEnum(at, k)
	case *kind.Type:
		s.wrong(at, fmt.Sprintf("is %s, want %s", article(k.Got), article(strings.Join(k.Want, " or "))), typeFix(at, k.Got))
	case *kind.Minimum:
		s.wrong(at, k.Got.RatString()+" is too small", "at least "+k.Want.RatString())
	case *kind.Maximum:
		s.wrong(at, k.Got.RatString()+" is too large"+unbounded(at), "at most "+k.Want.RatString())
	case *kind.MinItems:
		s.wrong(at, fmt.Sprintf("%d elements", k.Got), fmt.Sprintf("at least %d", k.Want))
	case *kind.MaxItems:
		s.wrong(at, fmt.Sprintf("%d elements", k.Got), fmt.Sprintf("at most %d", k.Want))
	case *kind.MinLength:
		s.wrong(at, "is empty", "write a value")
	case *kind.MaxLength:
		s.wrong(at, fmt.Sprintf("%d characters", k.Got), fmt.Sprintf("at most %d", k.Want))
	case *kind.Pattern:
		s.wrong(at, fmt.Sprintf("%.80q has characters that are not allowed, or too many", k.Got), "match "+k.Want)
	default:
		s.wrong(at, strings.Join(k.KeywordPath(), "/")+" does not hold", "see the schema in docs/policy.md")
	}
}

func texts(k *kind.Enum) (known []string) {
	for _, word := range k.Want {
		if text, ok := word.(string); ok {
			known = append(known, text)
		}
	}
	return known
}

func (s *source) oracleEnum(at string, k *kind.Enum) {
	known := texts(k)
	got, ok := k.Got.(string)
	if !ok {
		s.wrong(at, "is not a text", oneOf("", known))
		return
	}
	what := fmt.Sprintf("%.80q is unknown", got)
	if strings.HasSuffix(at, "/strategy") {
		what = fmt.Sprintf("unknown strategy %.80q", got)
	}
	s.wrong(at, what, oneOf(got, known))
}

// oracleMembers are the members that an object may have.
func oracleMembers(schema *jsonschema.Schema, location []string) []string {
	for _, part := range location {
		for schema.Ref != nil {
			schema = schema.Ref
		}
		switch {
		case schema.Properties[part] != nil:
			schema = schema.Properties[part]
		case schema.Items2020 != nil:
			schema = schema.Items2020
		}
	}
	for schema.Ref != nil {
		schema = schema.Ref
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}
