package mcp_test

import (
	"maps"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestRollback has a client change notes, and a rollback bring them back: one that was there, and
// one that was not. What the client had read before is what the changes rest on.
func TestRollback(t *testing.T) {
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	_, first, failed := l.call("put", map[string]any{"name": "a", "text": "one"})
	if failed {
		t.Fatal(w.told)
	}
	before := w.notes()
	text, read, _ := l.call("get", map[string]any{"name": "a"})
	if text != "one" {
		t.Errorf("get: %q", text)
	}
	_, bad, _ := l.call("put", map[string]any{"name": "a", "text": "two"})
	_, after, _ := l.call("put", map[string]any{"name": "b", "text": "three"})
	if got := w.notes(); got["a"] != "two" || got["b"] != "three" {
		t.Fatalf("%v", got)
	}
	for exec, parent := range map[entry.Ref]entry.Ref{read: first, bad: read, after: bad} {
		x := w.entries(exec, entry.Confirmed)
		if len(x) != 2 || x[0].Progress != entry.Started || len(x[0].Parents) != 1 || x[0].Parents[0] != (entry.Parent{Exec: parent, Dep: entry.Hard}) {
			t.Errorf("%s: %d entries, parents %v, want %s", exec, len(x), x[0].Parents, parent)
		}
	}
	results := l.obey(bad)
	if !maps.Equal(w.notes(), before) {
		t.Errorf("after the rollback %v, before %v; %s", w.notes(), before, w.done())
	}
	if want := (map[entry.Ref]entry.Result{bad: entry.Compensated, after: entry.Compensated}); !maps.Equal(results, want) {
		t.Errorf("results %v, want %v", results, want)
	}
	if done := w.done(); !strings.HasSuffix(done, "del b\nput a\n") {
		t.Errorf("compensations are not in order: %s", done)
	}
	text, _, failed = l.call("put", map[string]any{"name": "a", "text": "four"})
	if !failed || !strings.Contains(text, "rolled back put ("+string(bad)+"), put ("+string(after)+")") {
		t.Errorf("the session was not told: %q", text)
	}
	_, again, failed := l.call("put", map[string]any{"name": "a", "text": "five"})
	if failed {
		t.Fatalf("the session may not go on: %v", w.told)
	}
	if x := w.entries(again, entry.Confirmed); len(x[0].Parents) != 1 || x[0].Parents[0].Exec != read {
		t.Errorf("parents %v, want %s", x[0].Parents, read)
	}
}
