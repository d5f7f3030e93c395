package scenario

import (
	"strings"
	"testing"
)

// Little evidence leaves a phrase near the share of its label, and a data set that is left out
// counts for nothing.
func TestEvidence(t *testing.T) {
	tables := func(evidence string) *causeTables {
		t.Helper()
		c, err := readCauses(asJSON(t, `
phrase:
  - {words: "not {found|seen}", label: output.bad_arguments}
  - {words: "cannot", label: tool.error}
  - {words: "busy", label: capacity.overloaded, from: [a]}
`))
		if err != nil {
			t.Fatal(err)
		}
		if c.evidence, err = readEvidence(asJSON(t, evidence), c.phrases); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := tables(`
phrase:
  - {words: "not {found|seen}", label: output.bad_arguments, in: {a: [12, 0], b: [0, 2]}}
  - {words: "cannot", label: tool.error, in: {a: [3, 0], b: [1, 5]}}
`)
	for _, want := range []struct {
		text, leaving, label, cause string
	}{
		{"it was not seen", "", "output.bad_arguments", `phrase "not seen"`},                    // 12 of 14
		{"it was not seen", "b", "output.bad_arguments", `phrase "not seen"`},                   // 12 of 12
		{"it was not seen", "a", "unknown", `nothing: phrase "not seen" says`},                  // 0 of 2
		{"it cannot", "", "unknown", `nothing: phrase "cannot" says tool.error, and was right`}, // 4 of 9
		{"it cannot", "b", "tool.error", `phrase "cannot"`},                                     // 3 of 3
		{"it is busy", "b", "capacity.overloaded", `phrase "busy"`},                             // no evidence: as all phrases of a
		{"it is busy", "a", "unknown", ""},                                                      // learned from a alone
		{"it rained", "", "unknown", ""},
	} {
		e := c.explain(RawError{Text: want.text}, want.leaving, nil)
		if e.Label.String() != want.label || !strings.HasPrefix(e.Cause, want.cause) || (want.cause == "") != (e.Cause == "") {
			t.Errorf("%q without %q: %s by %q, want %s by %q", want.text, want.leaving, e.Label, e.Cause, want.label, want.cause)
		}
	}
	for _, wrong := range []string{
		"phrase:\n  - {words: cannot, label: tool.error, in: {a: [1]}}\n",
		"phrase:\n  - {words: cannot, label: tool.error, in: {a: [1, -1]}}\n",
		"phrase:\n  - {words: cannot, label: crash.oom, in: {}}\n",
		"phrase:\n  - {words: cannot, label: tool.error, in: {}}\n  - {words: cannot, label: tool.error, in: {}}\n",
		"phrases: []\n",
	} {
		if _, err := readEvidence(asJSON(t, wrong), c.phrases); err == nil {
			t.Errorf("no error of %q", wrong)
		}
	}
}

// PhraseLeaving names the phrase that would decide, also one that does not count, and none where
// another step decides.
func TestPhraseLeaving(t *testing.T) {
	for text, want := range map[string]string{
		"You are not authorized to do this":    "not authorized access.denied",
		"user not found":                       " unknown",
		"TypeError: x cannot be":               " unknown",
		"it rained":                            " unknown",
		"You must be logged in to see this":    "{must be|be|not|please|are not|need to be} {logged in|log in|sign in|signed in} access.unauthenticated",
		"HTTP 503: the service is unavailable": " unknown",
	} {
		words, label := PhraseLeaving(RawError{Text: text}, "")
		if got := words + " " + label.String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
