package mcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/mcp"
	"recoveryledger/ledger/entry"
)

// TestKeepDays rolls back a call whose compensation is not kept any more, and one after it: the
// first fails, and the second is undone.
func TestKeepDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config("keep_days: 30\n"+notesFile), nil)
	l.proxy.Tighten(-1<<40, mcp.MaxJournal) // each call replaces the journal
	put := func(name string) entry.Ref {
		t.Helper()
		text, exec, failed := l.call("put", map[string]any{"name": name, "text": "x"})
		if failed {
			t.Fatal(text)
		}
		w.entries(exec, entry.Confirmed)
		return exec
	}
	old := put("old")
	l.proxy.Age(31 * 24 * time.Hour)
	kept := put("kept")
	l.proxy.Age(29 * 24 * time.Hour)
	put("newest") // which gives nothing up
	if results := l.obey(old); results[old] != entry.ResultFailed || results[kept] != entry.Compensated {
		t.Errorf("%s and %s: %v", old, kept, results)
	}
}

// TestFullJournal has a call with a compensation not reach its tool where the journal is full. A
// call that nothing can undo reaches it.
func TestFullJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	l.proxy.Tighten(1<<20, 0)
	text, _, failed := l.call("put", map[string]any{"name": "n", "text": "x"})
	if !failed || !strings.Contains(text, "put was not called: it could not be undone: the journal of calls has ") {
		t.Error(text)
	}
	if left, err := os.ReadDir(filepath.Join(w.files, "notes")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if text, exec, failed := l.call("mail", nil); failed || w.only() != exec {
		t.Error(text)
	}
}
