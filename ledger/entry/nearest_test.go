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
