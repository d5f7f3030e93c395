package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
)

// told collects what a gate tells.
type told struct {
	mu            sync.Mutex
	found, failed []error
}

func (s *site) gate(t *testing.T, dir string, to *told) *audit.Gate {
	t.Helper()
	note := func(list *[]error) func(error) {
		return func(err error) {
			to.mu.Lock()
			defer to.mu.Unlock()
			*list = append(*list, err)
		}
	}
	return &audit.Gate{Source: s.sources(t)["export"], Root: s.root, Place: audit.Place{Path: filepath.Join(dir, "fold"), Root: s.root},
		Found: note(&to.found), Failed: note(&to.failed)}
}

// TestGatePassesWhatWasAudited: heads up to what was audited, in any order, also when the
// log has grown, and in a new process.
func TestGatePassesWhatWasAudited(t *testing.T) {
	s, dir := newIndexed(t, nil), t.TempDir()
	var heard told
	g := s.gate(t, dir, &heard)
	older := s.exported(t)
	must(t, g.Pass(t.Context(), older.Note))
	s.register(t, signed(newSigner("agent"), step("agent-1")))
	s.index(t, s.log.Head().Size, nil)
	must(t, os.RemoveAll(s.export))
	must(t, s.publish())
	g.Source = s.sources(t)["export"]
	newer := s.exported(t)
	must(t, g.Pass(t.Context(), newer.Note))
	must(t, g.Pass(t.Context(), older.Note))
	again := s.gate(t, dir, &heard)
	must(t, again.Pass(t.Context(), newer.Note))
	if err := g.Pass(t.Context(), "no note"); err == nil {
		t.Error("what is no head passes")
	}
	other, err := openWith(25, false, time.Millisecond) // of the same key
	must(t, err)
	t.Cleanup(func() { must(t, other.stop()) })
	if err := g.Pass(t.Context(), other.exported(t).Note); err == nil {
		t.Error("the head of another history passes")
	} else if _, ok := errors.AsType[*audit.RootError](err); !ok {
		t.Errorf("another history: %v", err)
	}
	if len(heard.found) > 0 || len(heard.failed) > 0 {
		t.Errorf("found %v, failed %v", heard.found, heard.failed)
	}
}

// TestGateHoldsAFalseIndexUp for good, and what cannot be read until it can.
func TestGateHoldsAFalseIndexUp(t *testing.T) {
	bad := newIndexed(t, func(x *entry.LogIndex) { x.Root[0]++ })
	var heard told
	g := bad.gate(t, t.TempDir(), &heard)
	for range 3 {
		if _, ok := errors.AsType[*audit.IndexError](g.Pass(t.Context(), bad.exported(t).Note)); !ok {
			t.Error("a false index passes")
		}
	}
	if len(heard.found) != 1 || len(heard.failed) > 0 {
		t.Errorf("found %v, failed %v", heard.found, heard.failed)
	}

	good := newIndexed(t, nil)
	g = good.gate(t, t.TempDir(), &heard)
	source := g.Source
	g.Source = audit.Dir{Files: os.DirFS(t.TempDir())}
	if err := g.Pass(t.Context(), good.exported(t).Note); err == nil {
		t.Error("what cannot be read passes")
	}
	g.Source = source
	must(t, g.Pass(t.Context(), good.exported(t).Note))
	if len(heard.found) != 1 || len(heard.failed) != 1 {
		t.Errorf("found %v, failed %v", heard.found, heard.failed)
	}
}
