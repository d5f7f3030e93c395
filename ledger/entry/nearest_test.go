package entry_test

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestNearest: one mistake in a short word, more in a longer one, is near.
func TestNearest(t *testing.T) {
	known := []string{"", "kind", "agent", "since", "until", "entries_per_hour"}
	for mistyped, want := range map[string]string{
		"kind": "kind", "kinds": "kind", "knd": "kind", "kidn": "kind", "agnet": "agent", "snice": "since", "entry_per_hours": "entries_per_hour",
		"": "", "x": "", "kxxd": "", strings.Repeat("k", entry.MaxName+1): "",
	} {
		if got := entry.Nearest(mistyped, known); got != want {
			t.Errorf("%.40q: %q, want %q", mistyped, got, want)
		}
	}
	if got := entry.Nearest("kind", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// A word is suggested if it is near, and no other.
func TestSuggest(t *testing.T) {
	known := []string{"listen", "origin", "policy"}
	for mistyped, want := range map[string]string{
		"lisen": " (did you mean listen?)", "Origin": " (did you mean origin?)", "polic": " (did you mean policy?)",
		"bananas": "", "": "",
	} {
		if got := entry.Suggest(mistyped, known); got != want {
			t.Errorf("suggest %q: %q, want %q", mistyped, got, want)
		}
	}
}
