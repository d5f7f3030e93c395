package entry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/schematest"
)

// beyondSchema is what the package refuses and a JSON Schema cannot, each with
// the words of the refusal. It is the list of Schema; a vector stands for
// every line.
var beyondSchema = []struct{ what, detail string }{
	{"a member stands twice in an object", "duplicate object member name"},
	{"not UTF-8, a lone surrogate included", "invalid UTF-8"},
	{"not UTF-8, a lone surrogate included", "surrogate"},
	{"an integer written with fraction, exponent or negative zero", "is not an integer that may stand here"},
	{"the same, or beyond ±(2^53−1), in a member that is not known", "is not an integer within"},
	{"arrays and objects nest too deep", "nesting deeper than"},
	{"the envelope is too large", "the envelope has"},
	{"a text within its length in characters, not in bytes", "bytes, the limit is"},
	{"a text within its length in characters, not in bytes", "bytes, want the ledger's origin"},
	{"a key that is no DER, or of another algorithm, or weak", "key"},
	{"two elements of a list differ, but not in what identifies them", "is listed twice"},
}

// beyond returns the line of the list that a refusal falls under, or -1.
func beyond(err error) int {
	refusal, _ := errors.AsType[*entry.Refusal](err)
	return slices.IndexFunc(beyondSchema, func(line struct{ what, detail string }) bool {
		return strings.Contains(refusal.Detail, line.detail) || line.detail == "key" && strings.HasSuffix(refusal.Field, "key")
	})
}

// compileSchemas compiles the schema files; the names are those of entry.Schema.
func compileSchemas(tb testing.TB) map[string]*jsonschema.Schema {
	tb.Helper()
	files, err := os.ReadDir("schema")
	must(tb, err)
	texts := map[string][]byte{}
	for _, file := range files {
		texts[file.Name()] = entry.Schema(strings.TrimSuffix(file.Name(), ".json"))
	}
	compiled := map[string]*jsonschema.Schema{}
	for file, schema := range schematest.CompileAll(tb, texts) {
		compiled[strings.TrimSuffix(file, ".json")] = schema
	}
	return compiled
}

// schemaAccepts reports the verdict of a schema on JSON text.
func schemaAccepts(schema *jsonschema.Schema, text []byte) bool {
	return schematest.Check(schema, text) == nil
}

// TestSchemaNames asks for each schema by its name.
func TestSchemaNames(t *testing.T) {
	compiled := compileSchemas(t)
	names := []string{"defs", "envelope", "leaf", "receipt"}
	for _, kind := range entry.Kinds() {
		names = append(names, string(kind))
	}
	for _, name := range names {
		if compiled[name] == nil {
			t.Errorf("no schema %q", name)
		}
	}
	if len(compiled) != len(names) {
		t.Errorf("%d schema files, want %d", len(compiled), len(names))
	}
	for _, name := range []string{"", "none", "../schema/run", "Policy"} {
		if entry.Schema(name) != nil {
			t.Errorf("a schema %q", name)
		}
	}
}

// TestSchemaVerdict draws payloads of every kind, damages them, and compares the
// verdicts of schema and package: they differ only as the list above says, and
// the schema is never the stricter one.
func TestSchemaVerdict(t *testing.T) {
	const mutants = 24 // of each payload drawn
	compiled := compileSchemas(t)
	for _, kind := range entry.Kinds() {
		accepted, refused := 0, 0
		t.Run(string(kind), rapid.MakeCheck(func(t *rapid.T) {
			made, err := entry.New(drawBody(t, kind))
			if err != nil {
				t.Fatal(err)
			}
			payload := made.Payload()
			for i := range mutants {
				if requireSameVerdict(t, compiled[string(kind)], kind, payload) {
					accepted++
				} else {
					refused++
				}
				if i%4 == 0 {
					payload = made.Payload() // damage adds up over a few rounds only
				}
				payload = mutate(t, payload)
			}
		}))
		t.Logf("%s: %d accepted, %d refused", kind, accepted, refused)
		// Each payload is accepted as it was drawn, which alone makes one verdict in 24.
		if few := (accepted + refused) / 20; accepted <= few || refused <= few {
			t.Errorf("%s: too few of one verdict to mean anything", kind)
		}
	}
}

// TestSchemaVectors compares the schemas with all vectors of payloads, envelopes
// and leaves, and finds one for every line of the list above.
func TestSchemaVectors(t *testing.T) {
	compiled := compileSchemas(t)
	hit := make([]bool, len(beyondSchema))
	for _, group := range []string{"payload", "envelope", "leaf"} {
		for name, v := range vectorsOf(t, group) {
			input, schema := inputBytes(t, v.Input), compiled[group]
			var err error
			switch group {
			case "payload":
				schema = compiled[v.Kind]
				_, err = entry.NewRaw(entry.Kind(v.Kind), input)
			case "envelope":
				_, err = entry.Decode(input)
			case "leaf":
				_, _, err = entry.DecodeLeaf(input)
			}
			accepted := schemaAccepts(schema, input)
			switch {
			case accepted == (err == nil):
			case accepted && group == "leaf" && jcsOf(t, input) != string(input):
				// No schema knows a canonical form.
			case accepted && group == "envelope" && (strings.HasPrefix(v.Desc, "a payload") || v.Field == "checkpoint"):
				// The schema of an envelope does not look into the payload.
			case accepted && beyond(err) >= 0:
				hit[beyond(err)] = true
			default:
				t.Errorf("%s: the schema accepts: %v, the package: %v", name, accepted, err)
			}
		}
	}
	for i, line := range beyondSchema {
		if !hit[i] {
			t.Errorf("no vector is refused though the schema accepts it: %s (%q)", line.what, line.detail)
		}
	}
}

// jcsOf returns the RFC 8785 form, or nothing if there is none.
func jcsOf(t *testing.T, text []byte) string {
	t.Helper()
	canonical, err := jcs.Transform(text)
	if err != nil {
		return ""
	}
	return string(canonical)
}

// TestSchemaReceipt draws the form of a receipt by example.
func TestSchemaReceipt(t *testing.T) {
	schema := compileSchemas(t)["receipt"]
	hash := merkle.HashLeaf(nil).String()
	const good = `{"leaf":"e30=","index":7,"proof":["HASH"],"head":"example.com/log\n8\nHASH\n\n— example.com/log AAAA\n"}`
	fill := func(text string) []byte { return []byte(strings.ReplaceAll(text, "HASH", hash)) }
	if !schemaAccepts(schema, fill(good)) {
		t.Error("a good receipt is refused")
	}
	for _, change := range [][2]string{
		{`"e30="`, `""`}, {`"e30="`, `"e30"`}, {`7`, `-1`}, {`["HASH"]`, `["x"]`}, {`["HASH"]`, `null`}, {`"index":7,`, ``},
		{`\n8\n`, `\n08\n`}, {`{`, `{"x":1,`}, {`HASH\n\n`, `x\n\n`},
	} {
		if bad := strings.Replace(good, change[0], change[1], 1); schemaAccepts(schema, fill(bad)) {
			t.Errorf("accepts %s", bad)
		}
	}
}

func requireSameVerdict(t *rapid.T, schema *jsonschema.Schema, kind entry.Kind, payload []byte) (accepted bool) {
	t.Helper()
	_, err := entry.NewRaw(kind, payload)
	bySchema := schemaAccepts(schema, payload)
	if bySchema == (err == nil) || bySchema && beyond(err) >= 0 {
		return err == nil
	}
	t.Fatalf("the schema accepts: %v, the package: %v\n%s", bySchema, err, payload)
	return false
}

// mutate damages JSON in one place: a member or element goes, changes, comes, or
// stands twice.
func mutate(t *rapid.T, payload []byte) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	places := placesIn(document, func(value any) { document = value })
	place := places[rapid.IntRange(0, len(places)-1).Draw(t, "place")]
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		place.remove()
	case 1:
		place.set([]any{place.value, place.value})
	case 2: // what stands elsewhere in the document
		source := places[rapid.IntRange(0, len(places)-1).Draw(t, "source")]
		text, err := json.Marshal(source.value)
		if err != nil {
			t.Fatal(err)
		}
		place.set(json.RawMessage(text))
	case 3:
		if object, ok := place.value.(map[string]any); ok {
			object[rapid.SampledFrom(memberNames).Draw(t, "name")] = rapid.SampledFrom(strangeValues).Draw(t, "value")
		}
	default:
		place.set(rapid.SampledFrom(strangeValues).Draw(t, "value"))
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// place is a value in a document, and how to change it.
type place struct {
	value  any
	set    func(any)
	remove func()
}

func placesIn(value any, set func(any)) []place {
	all := []place{{value, set, func() { set(nil) }}}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			inner := placesIn(value[name], func(v any) { value[name] = v })
			inner[0].remove = func() { delete(value, name) }
			all = append(all, inner...)
		}
	case []any:
		for i := range value {
			inner := placesIn(value[i], func(v any) { value[i] = v })
			inner[0].remove = func() { set(slices.Delete(slices.Clone(value), i, i+1)) }
			all = append(all, inner...)
		}
	}
	return all
}

var memberNames = []string{"x", "wid", "crit", "after", "compensates", "compromised_since", "evidence", "retry_after_ms", "detail",
	"dismissed", "dispositions", "domains", "independent", "members", "deadline_at", "residual", "comp_exec", "post_digest", "snapshot", "recovery", "previous",
	"run_root", "loc", "uri", "model", "agent", "restored", "Iss", "é", ""}

// strangeValues are what a member is replaced with: near misses of every form.
var strangeValues = []any{
	nil, true, "", "x", "a#b", "a b", "a#b#c", "é", "unknown", "revoke", "deny", "release", "authorize", "restored", "close",
	"compensable", "RECOVERED", "2b", json.Number("0"), json.Number("1"), json.Number("-1"), json.Number("9007199254740991"),
	json.Number("9007199254740992"), json.Number("-9007199254740991"), json.Number("1.5"), json.Number("1.0"), json.Number("1e3"),
	json.Number("-0"), json.Number("18446744073709551616"), []any{}, map[string]any{}, []any{nil}, []any{"x", "x"}, []any{"agent", "agent"},
	[]any{"v"}, []any{"x-new"}, strings.Repeat("n", 128), strings.Repeat("n", 129), strings.Repeat("w", 64), strings.Repeat("w", 65),
	strings.Repeat("t", 1024), strings.Repeat("t", 1025), strings.Repeat("é", 600), strings.Repeat("é", 100),
	entry.Digest("sha256:" + strings.Repeat("0", 64)), entry.Digest("sha256:" + strings.Repeat("F", 64)), "md5:" + strings.Repeat("0", 32),
	strings.Repeat("A", 43) + "=", strings.Repeat("A", 42) + "B=", "AAAA", "0190B9D4-7D3E-7CC0-9F11-6C0D8E6A5B21",
	map[string]any{"index": 1, "leaf_hash": strings.Repeat("A", 43) + "="}, map[string]any{"index": 1},
	map[string]any{"size": 1, "root": strings.Repeat("A", 43) + "="}, map[string]any{"agent": []any{"enroller"}},
	map[string]any{"operator": []any{}}, map[string]any{"failed": 3, "restored": 0}, map[string]any{"failed": nil},
	[]any{map[string]any{"index": 1, "disposition": "self_reported"}, map[string]any{"index": 1, "disposition": "dismissed"}},
	"corroborated", "self_reported", []any{"a", "b"},
	[]any{map[string]any{"exec": "a#b", "dep": "hard"}, map[string]any{"exec": "a#b", "dep": "soft"}},
	[]any{map[string]any{"digest": entry.Digest("sha256:" + strings.Repeat("0", 64)), "uri": ""}}, slices.Repeat([]any{"w"}, 256), slices.Repeat([]any{"w"}, 257),
	slices.Repeat([]any{0}, 256), slices.Repeat([]any{0}, 257), slices.Repeat([]any{"a#b"}, 257),
	map[string]any{"a": map[string]any{"b": []any{nil, 1, "x"}}},
}
