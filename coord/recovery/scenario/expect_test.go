package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func expectOf(t *testing.T, text string) *Expect {
	t.Helper()
	var e Expect
	if err := json.Unmarshal([]byte(text), &e, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	return &e
}

// What is demanded of an output, and what comes of an output that does not
// keep it.
func TestExpectJudges(t *testing.T) {
	const output = `{"total": 12, "name": "Ann", "items": ["a", "b"], "sources": ["doc:1", "", "doc:2"], "more": {"a/b": [1]}}`
	for _, c := range []struct{ desc, expect, want string }{
		{"nothing", `{}`, " unverified"},
		{"a schema", `{"schema": {"type": "object", "required": ["total"]}}`, " verified"},
		{"another schema", `{"schema": {"properties": {"total": {"maximum": 11}}}}`, "malformed_output schema_violation unverified"},
		{"a value", `{"checks": [{"name": "x", "at": "/name", "equals": "Ann"}]}`, " verified 1000000"},
		{"a value in another form", `{"checks": [{"name": "x", "at": "/more", "equals": {"a/b": [1.0]}}]}`, " verified 1000000"},
		{"a value behind an escape", `{"checks": [{"name": "x", "at": "/more/a~1b/0", "equals": 1}]}`, " verified 1000000"},
		{"a part", `{"checks": [{"name": "x", "at": "/items/1", "contains": "b"}]}`, " verified 1000000"},
		{"an expression is for all of it", `{"checks": [{"name": "x", "at": "/name", "matches": "A|nn", "required": true}]}`, "quality_gate_failed check.x unverified 0"},
		{"a bound", `{"checks": [{"name": "x", "at": "/total", "min": 12, "max": 12}]}`, " verified 1000000"},
		{"a bound of a text", `{"checks": [{"name": "x", "at": "/name", "min": 1}]}`, " verified 0"},
		{"what is not there", `{"checks": [{"name": "x", "at": "/items/2", "contains": "", "equals": null, "required": true}]}`, "quality_gate_failed check.x unverified 0"},
		{"a score", `{"checks": [{"name": "x", "weight": 3, "contains": "Ann"}, {"name": "y", "contains": "Bob"}], "confidence_min_ppm": 750000}`, " verified 750000"},
		{"a low score", `{"checks": [{"name": "x", "weight": 3, "contains": "Ann"}, {"name": "y", "contains": "Bob"}], "confidence_min_ppm": 750001}`, "quality_gate_failed check.y unverified 750000"},
		{"the required one is named", `{"checks": [{"name": "x", "contains": "Bob"}, {"name": "y", "contains": "Eve", "required": true}]}`, "quality_gate_failed check.y unverified 0"},
		{"a grader", `{"checks": [{"name": "x", "at": "/total", "tool": "grader"}, {"name": "y", "tool": "other"}]}`, " verified 500000"},
		{"citations", `{"citations_at": "/sources", "citations_min": 2}`, " verified doc:1 doc:2"},
		{"too few of them", `{"citations_at": "/sources", "citations_min": 3}`, "ungrounded_output citations_missing unverified doc:1 doc:2"},
		{"none", `{"citations_at": "/nowhere", "citations_min": 1}`, "ungrounded_output citations_missing unverified"},
	} {
		v, err := expectOf(t, c.expect).Judge(jsontext.Value(output), func(c *Check, value jsontext.Value) (int64, error) {
			if c.Tool == "grader" && string(value) == "12" {
				return FullPPM, nil
			}
			return 0, nil
		})
		if err != nil {
			t.Errorf("%s: %v", c.desc, err)
		}
		got := strings.TrimLeft(v.Code+" "+v.Reason, " ")
		got += map[bool]string{true: " verified", false: " unverified"}[v.Verified]
		if v.Confidence != nil {
			got += fmt.Sprint(" ", *v.Confidence)
		}
		if len(v.Citations) > 0 {
			got += " " + strings.Join(v.Citations, " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.desc, got, c.want)
		}
	}
}

// Demands that cannot be met are refused with the field and a remedy; what is
// at a limit is not.
func TestExpectIsChecked(t *testing.T) {
	checks := func(n int) string {
		return `{"checks": [` + strings.TrimSuffix(strings.Repeat(`{"name": "x", "contains": "y"},`, n), ",") + `]}`
	}
	for text, want := range map[string]string{
		`{"schema": {"type": "objekt"}}`:                                  "/schema: is not a schema",
		`{"schema": {"$ref": "http://127.0.0.1/x"}}`:                      "/schema: is not a schema",
		`{"schema": {"$ref": "file:///etc/passwd"}}`:                      "/schema: is not a schema",
		`{"confidence_min_ppm": 1000001}`:                                 "/confidence_min_ppm: is 1000001",
		`{"confidence_min_ppm": 1000000}`:                                 "",
		`{"citations_min": -1}`:                                           "/citations_min: is -1",
		`{"citations_at": "sources"}`:                                     "/citations_at: \"sources\" is not a JSON pointer",
		`{"checks": [{"name": "X", "contains": "y"}]}`:                    "/checks/0/name: \"X\" is not a word",
		`{"checks": [{"name": "x"}]}`:                                     "/checks/0: has 0 ways to look at the output",
		`{"checks": [{"name": "x", "contains": "y", "min": 1}]}`:          "/checks/0: has 2 ways to look at the output",
		`{"checks": [{"name": "x", "matches": "("}]}`:                     "/checks/0/matches: is not a regular expression",
		`{"checks": [{"name": "x", "contains": "y", "weight": 1000001}]}`: "/checks/0/weight: is 1000001",
		`{"checks": [{"name": "x", "contains": "y", "weight": 1000000}]}`: "",
		checks(checksMax):                                                 "",
		checks(checksMax + 1):                                             "/checks: holds 65 elements",
	} {
		wrong := expectOf(t, text).check()
		switch {
		case want == "" && wrong != nil:
			t.Errorf("%.80s: %v", text, wrong)
		case want != "" && (wrong == nil || !strings.HasPrefix(wrong.Field+": "+wrong.Detail, want)):
			t.Errorf("%.80s: %v, want %s", text, wrong, want)
		}
		line := `{"v":1,"id":"c","agent":"a","steps":[{"id":"s","expect":` + text + `}]}`
		if _, err := Decode([]byte(line)); (err == nil) != (want == "") {
			t.Errorf("%.80s: as a scenario: %v", text, err)
		}
	}
}

// Values are found as a decoder finds them that reads the whole document.
func FuzzValueAt(f *testing.F) {
	f.Add(`{"a": [1, {"b/c": 2}]}`, "/a/1/b~1c")
	f.Add(`[[[]]]`, "/0/0/0")
	f.Add(`{"a": `, "/a")
	f.Fuzz(func(t *testing.T, doc, pointer string) {
		if !jsontext.Pointer(pointer).IsValid() || !jsontext.Value(doc).IsValid() {
			ValueAt(jsontext.Value(doc), pointer) // does not panic
			return
		}
		var value any
		if err := json.Unmarshal([]byte(doc), &value); err != nil {
			return
		}
		ok := true
		for token := range jsontext.Pointer(pointer).Tokens() {
			value, ok = child(value, token)
			if !ok {
				break
			}
		}
		got, found := ValueAt(jsontext.Value(doc), pointer)
		if found != ok {
			t.Fatalf("%s at %s: found %t, want %t", doc, pointer, found, ok)
		}
		want, err := json.Marshal(value)
		if ok && (err != nil || !sameJSON(got, want)) {
			t.Fatalf("%s at %s: %s, want %s", doc, pointer, got, want)
		}
	})
}

func child(value any, token string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		inner, ok := v[token]
		return inner, ok
	case []any:
		for i := range v {
			if fmt.Sprint(i) == token {
				return v[i], true
			}
		}
	}
	return nil, false
}
