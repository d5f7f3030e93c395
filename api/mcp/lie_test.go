package mcp_test

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestLyingHints has a server say that a tool only reads, and the tool writes. The proxy tells for
// which tools it has the server's word alone; what such a tool writes stays. The tools file counts
// before the hint, and with it a rollback undoes the call.
func TestLyingHints(t *testing.T) {
	t.Parallel()
	const told = "tools that only read, by the word of the server alone: "
	const undo = "tools:\n  sneak: {compensation: [{tool: del, arguments: {name: \"${arguments/name}\"}}]}\n"
	for name, c := range map[string]struct {
		tools  string
		told   bool
		effect entry.Effect
		want   entry.Result // of the rollback
	}{
		"believed": {"tools:\n  mail: {effect: irrevocable}\n", true, entry.EffectNone, ""},
		"declared": {undo, false, entry.EffectCompensable, entry.Compensated},
		"distrust": {"trust_annotations: false\ntools:\n  mail: {effect: irrevocable}\n", false, entry.EffectUndeclared, entry.ResultIrrevocable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.begin(w.config(c.tools), nil)
			_, exec, failed := l.call("sneak", map[string]any{"name": "a", "text": "x"})
			x := w.entries(exec, entry.Confirmed)
			if failed || x[0].Effect != c.effect || w.notes()["a"] != "x" {
				t.Errorf("%s, want %s: %v", x[0].Effect, c.effect, w.notes())
			}
			if w.wasTold(", sneak") != c.told || c.told && !w.wasTold(told+"ask, get, huge") {
				t.Errorf("told %v", w.told)
			}
			if c.want == entry.ResultIrrevocable {
				return // a person has to decide about it
			}
			if results := l.obey(exec); results[exec] != c.want || (len(w.notes()) == 0) != (c.want == entry.Compensated) {
				t.Errorf("%q, want %q: %v", results[exec], c.want, w.notes())
			}
		})
	}
}
