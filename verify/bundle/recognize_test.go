package bundle_test

import (
	"strings"
	"testing"

	"recoveryledger/verify/bundle"
)

// TestRecognize tells a bundle from other JSON by its members, with any white space.
func TestRecognize(t *testing.T) {
	for text, want := range map[string]string{
		`{"inclusion":[],"steps":[]}`:                     `{"inclusion":[],"steps":[]}`,
		"\n { \"inclusion\" : [] ,\n\t\"steps\": [] } \n": `{"inclusion":[],"steps":[]}`,
		`{"inclusion":[]}`:                                "",
		`{"steps":[]}`:                                    "",
		`[{"inclusion":[],"steps":[]}]`:                   "",
		`{"inclusion":[],"steps":[]`:                      "",
		"— a tree head":                                   "",
	} {
		got, ok := bundle.Recognize([]byte(text))
		if ok != (want != "") || ok && string(got) != want {
			t.Errorf("%s: %s, %v", strings.TrimSpace(text), got, ok)
		}
	}
}
