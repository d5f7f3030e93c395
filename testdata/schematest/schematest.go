// Package schematest holds values to JSON Schemas.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package schematest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Compile compiles a schema. The test ends if the text is none.
func Compile(tb testing.TB, text []byte) *jsonschema.Schema {
	tb.Helper()
	return CompileAll(tb, map[string][]byte{"schema.json": text})["schema.json"]
}

// CompileAll compiles schemas that refer to each other by the names of their files. The test ends
// if a text is no schema.
func CompileAll(tb testing.TB, texts map[string][]byte) map[string]*jsonschema.Schema {
	tb.Helper()
	const base = "https://schema.invalid/"
	compiler := jsonschema.NewCompiler()
	for name, text := range texts {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = compiler.AddResource(base+name, document)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	compiled := map[string]*jsonschema.Schema{}
	for name := range texts {
		compiled[name] = compiler.MustCompile(base + name)
	}
	return compiled
}

// Check returns why a schema refuses a text; nil: the schema takes it.
func Check(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// words are values of the types that take a few words alone.
var words = map[reflect.Type]string{
	reflect.TypeFor[entry.Effect]():       string(entry.EffectNone),
	reflect.TypeFor[entry.Effects]():      string(entry.EffectsNone),
	reflect.TypeFor[entry.ReplaySafety](): string(entry.ReplaySafe),
	reflect.TypeFor[entry.Severity]():     "info",
	reflect.TypeFor[recovery.Strategy]():  "retry",
	reflect.TypeFor[recovery.Result]():    string(recovery.ResultOK),
}

// Fill sets every member of a value to something that is not zero, so that each is in the JSON of
// the value. Text is a risk, which is also a name and a word.
func Fill[T any](value *T) { fill(reflect.ValueOf(value).Elem()) }

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, member := range v.Fields() {
			fill(member)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Int, reflect.Int64:
		v.SetInt(400) // an HTTP status, too
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("high")
		if word := words[v.Type()]; word != "" {
			v.SetString(word)
		}
	}
}
