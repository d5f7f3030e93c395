package redact

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// An input keeps its JSON and its lines, and loses its secrets.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": "ABC123", "n": 12.50, "ok": [true, null, {"a": {}}]}`: `{"id":"ABC123","n":12.50,"ok":[true,null,{"a":{}}]}`,
		`{"password": {"a": ["x"]}, "to": "ann@example.org"}`:         `{"password":"[secret]","to":"[mail]"}`,
		"ls -l\n  cat a.py": `"ls -l\n  cat a.py"`,
		`{"a": 1} x`:        `"{\"a\": 1} x"`,
		`{"a": 1, "a": 2}`:  `"{\"a\": 1, \"a\": 2}"`,
		"a\xff":             `"a"`,
		`7`:                 `7`,
		`"text"`:            `"text"`,
	} {
		if got := string(JSON(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzJSON looks for an input that is no JSON, or that redacting twice changes in form.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, "b"]}`, `{"password": 1}`, "x\ny", `{"a": 1e400}`, "\"\\ud800\"", `[[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := JSON(text)
		if !got.IsValid() {
			t.Fatalf("%q became %s", text, got)
		}
		if again := JSON(text); string(again) != string(got) {
			t.Fatalf("%q became %s, then %s", text, got, again)
		}
		if jsontext.Value(text).IsValid() && jsontext.Value(text).Kind() == '{' && got.Kind() != '{' {
			t.Fatalf("%q became %s", text, got)
		}
	})
}
