package entry

import (
	"cmp"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestMembers walks over the body of every kind by reflection: the table of
// kinds, the JSON tags and the schema name the same members at every level. A
// mandatory member's tag has no option.
func TestMembers(t *testing.T) {
	if len(kinds) != len(Kinds()) {
		t.Fatalf("the table has %d kinds, want %d", len(kinds), len(Kinds()))
	}
	for _, kind := range Kinds() {
		body := newBody(kind)
		if body.Kind() != kind {
			t.Errorf("the body of %s says it is of kind %s", kind, body.Kind())
		}
		checkMembers(t, string(kind), kinds[kind], reflect.TypeOf(body).Elem(), schemaFile(t, string(kind)))
		checkCrit(t, kind)
	}
}

// checkMembers compares what the table, a struct and a schema say of an object.
func checkMembers(t *testing.T, path string, r *rule, object reflect.Type, s schemaNode) {
	t.Helper()
	fields := jsonFields(object)
	properties := s.properties(t)
	equal(t, path+": members of the struct", slices.Collect(maps.Keys(fields)), slices.Concat(r.required, r.optional))
	equal(t, path+": properties of the schema", slices.Collect(maps.Keys(properties)), slices.Concat(r.required, r.optional))
	equal(t, path+": mandatory in the schema", s.required(t), r.required)
	for name, field := range fields {
		place := path + "." + name
		if mandatory := slices.Contains(r.required, name); mandatory == field.optional && name != "wid" {
			t.Errorf("%s: mandatory %v in the table, tagged otherwise", place, mandatory)
		}
		if field.nullable != slices.Contains(r.nullable, name) {
			t.Errorf("%s: nullable %v in the struct, not so in the table", place, field.nullable)
		}
		inner, listed := r.inner[name]
		switch value := element(field.typ); {
		case value == reflect.TypeFor[jsontext.Value]():
			if !listed || inner != nil {
				t.Errorf("%s: the table must say that any JSON may stand here", place)
			}
		case value.Kind() == reflect.Map:
			if !listed || !inner.anyName {
				t.Errorf("%s: the table must say that this is a map", place)
			}
		case value.Kind() == reflect.Struct && !value.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
			if inner == nil {
				t.Errorf("%s: the table has no rule for this object", place)
				continue
			}
			checkMembers(t, place, inner, value, properties[name].element(t))
		case listed:
			t.Errorf("%s: the table has a rule for an object, it holds %s", place, value)
		}
	}
}

// checkCrit compares the names that the schema allows in crit with those that
// the table understands.
func checkCrit(t *testing.T, kind Kind) {
	t.Helper()
	r := kinds[kind]
	var names []string
	own := schemaFile(t, string(kind)).node["properties"].(map[string]any)["crit"].(map[string]any)
	for _, name := range own["items"].(map[string]any)["enum"].([]any) {
		names = append(names, name.(string))
	}
	equal(t, string(kind)+": names for crit in the schema", names, slices.Concat(r.required, r.optional))
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

type jsonField struct {
	typ      reflect.Type
	optional bool // omitted when empty
	nullable bool // a pointer that is never omitted
}

// jsonFields returns the members that a struct is encoded with.
func jsonFields(object reflect.Type) map[string]jsonField {
	fields := map[string]jsonField{}
	for f := range object.Fields() {
		if f.Anonymous {
			maps.Copy(fields, jsonFields(f.Type))
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = jsonField{f.Type, options != "", options == "" && f.Type.Kind() == reflect.Pointer}
	}
	return fields
}

// element returns what a pointer or a list holds.
func element(typ reflect.Type) reflect.Type {
	for typ != reflect.TypeFor[jsontext.Value]() && (typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice) {
		typ = typ.Elem()
	}
	return typ
}

// schemaNode is a schema and the file that it stands in.
type schemaNode struct {
	file string
	node map[string]any
}

func schemaFile(t *testing.T, name string) schemaNode {
	t.Helper()
	s := schemaNode{file: name}
	if err := json.Unmarshal(Schema(name), &s.node); err != nil {
		t.Fatalf("schema %s: %v", name, err)
	}
	return s
}

// parts returns the schema and those that $ref and allOf add to it.
func (s schemaNode) parts(t *testing.T) []schemaNode {
	t.Helper()
	all := []schemaNode{s}
	if ref, ok := s.node["$ref"].(string); ok {
		file, pointer, _ := strings.Cut(ref, "#")
		target := schemaFile(t, strings.TrimSuffix(cmp.Or(file, s.file+".json"), ".json"))
		for _, key := range strings.Split(pointer, "/")[1:] {
			target.node = target.node[key].(map[string]any)
		}
		all = append(all, target.parts(t)...)
	}
	if list, ok := s.node["allOf"].([]any); ok {
		for _, part := range list {
			all = append(all, schemaNode{s.file, part.(map[string]any)}.parts(t)...)
		}
	}
	return all
}

func (s schemaNode) properties(t *testing.T) map[string]schemaNode {
	t.Helper()
	all := map[string]schemaNode{}
	for _, part := range s.parts(t) {
		properties, _ := part.node["properties"].(map[string]any)
		for name, property := range properties {
			if _, seen := all[name]; !seen {
				node, _ := property.(map[string]any) // nil for the schema "false"
				all[name] = schemaNode{part.file, node}
			}
		}
	}
	return all
}

func (s schemaNode) required(t *testing.T) (names []string) {
	t.Helper()
	for _, part := range s.parts(t) {
		list, _ := part.node["required"].([]any)
		for _, name := range list {
			names = append(names, name.(string))
		}
	}
	return names
}

// element returns the schema of a list's elements, or the schema itself.
func (s schemaNode) element(t *testing.T) schemaNode {
	t.Helper()
	for _, part := range s.parts(t) {
		if items, ok := part.node["items"].(map[string]any); ok {
			return schemaNode{part.file, items}
		}
	}
	return s
}
