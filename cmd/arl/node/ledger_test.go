package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// scene is a data directory, and the machine that it lies on.
type scene struct {
	t       *testing.T
	machine *trust.Store
	dir     string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	return &scene{t, &trust.Store{Home: func() (string, error) { return home, nil }}, filepath.Join(t.TempDir(), "data")}
}

func (s *scene) options() node.Options {
	return node.Options{Dir: s.dir, Machine: s.machine, Fatal: func(err error) { s.t.Error(err) }}
}

// run opens the ledger, makes it known to the machine, and stops it.
func (s *scene) run() (p *trust.Profile, err error) {
	s.t.Helper()
	o := s.options()
	o.Create, o.Decides = true, true
	n, err := node.Open(s.t.Context(), o)
	if err != nil {
		return nil, err
	}
	if err := n.ContinuesKnown(); err != nil {
		return nil, errors.Join(err, n.Log.Close())
	}
	p = &trust.Profile{URL: "http://127.0.0.1:1"}
	why, err := n.Run(s.t.Context(), true, func(ctx context.Context) error {
		return n.Introduce(ctx, p, func() (*entry.Policy, error) { return entry.Genesis(""), nil })
	})
	if why != nil {
		s.t.Errorf("the order ended: %v", why)
	}
	return p, err
}

// TestLedgerOfADirectory begins a ledger, runs it again, checks it, and opens it for
// whoever only looks.
func TestLedgerOfADirectory(t *testing.T) {
	s := newScene(t)
	if _, err := node.Open(t.Context(), s.options()); exit.Code(err) != exit.NotFound {
		t.Errorf("without a ledger: %v", err)
	}
	first, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if again.Root.Genesis != first.Root.Genesis || len(first.Keys) != 2 || len(again.Keys) != 2 {
		t.Errorf("the first start made %+v, the second %+v", first, again)
	}
	found, err := node.Check(t.Context(), s.options(), func(uint64, uint64) {})
	if err != nil || found.Entries != 3 {
		t.Errorf("check: %+v, %v", found, err)
	}
	o := s.options()
	o.Looks = true
	n, err := node.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if root, err := n.Root(); err != nil || root.Genesis != first.Root.Genesis {
		t.Errorf("the root of the directory is %+v, %v", root, err)
	}
	if _, err := node.Open(t.Context(), o); !errors.Is(err, ledger.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := n.Log.Close(); err != nil {
		t.Fatal(err)
	}
	o.Origin = "another.example/log"
	if _, err := node.Open(t.Context(), o); exit.Code(err) != exit.Config {
		t.Errorf("opened as another ledger: %v", err)
	}
}

// TestChangeOrigin gives up the entries of a ledger: it goes on under another origin,
// which links to the old one, and the machine refuses a second log of the old origin.
func TestChangeOrigin(t *testing.T) {
	s := newScene(t)
	before, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	if _, err := node.ChangeOrigin(o, false); exit.Code(err) != exit.Conflict {
		t.Errorf("with a database and without abandon: %v", err)
	}
	o.Origin = before.Root.Origin
	if _, err := node.ChangeOrigin(o, true); exit.Code(err) != exit.Usage {
		t.Errorf("the same origin: %v", err)
	}
	o.Origin = "next.example/log"
	change, err := node.ChangeOrigin(o, true)
	if err != nil {
		t.Fatal(err)
	}
	if change.Origin != o.Origin || change.Predecessor.Origin != before.Root.Origin || *change.Predecessor.Genesis != before.Root.Genesis ||
		change.Profile != "former/"+before.Name {
		t.Errorf("%+v", change)
	}
	after, err := s.run()
	if err != nil || after.Root.Origin != o.Origin {
		t.Fatalf("the new ledger is %+v, %v", after, err)
	}
	o.Origin, o.Create, o.Dir = before.Root.Origin, true, filepath.Join(t.TempDir(), "other")
	if _, err := node.Open(t.Context(), o); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a second log of the old origin: %v", err)
	}
}

// TestNextKey makes the key that is to follow the ledger's: the next start has both.
func TestNextKey(t *testing.T) {
	s := newScene(t)
	if _, err := node.MakeNextKey(s.dir, "", nil); exit.Code(err) != exit.NotFound {
		t.Errorf("without a ledger: %v", err)
	}
	p, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	next, err := node.MakeNextKey(s.dir, "", nil)
	if err != nil || len(next.LedgerKeys) != 4 || next.LedgerKeys[0] != p.Root.LedgerKeys[0] || next.Origin != p.Root.Origin {
		t.Fatalf("%+v, %v", next, err)
	}
	n, err := node.Look(s.dir, "")
	if err != nil || len(n.Keys) != 2 {
		t.Errorf("%v, %v", n, err)
	}
}

// TestDamagedOptionsNeedNoRestore: the engine's list of its options is damage that fsck
// names, with another remedy than a copy which may be older, and a start replaces the list.
func TestDamagedOptionsNeedNoRestore(t *testing.T) {
	s := newScene(t)
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "db", "OPTIONS-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	if err := os.WriteFile(found[0], make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = node.Check(t.Context(), s.options(), func(uint64, uint64) {})
	remedy := exit.Remedy(err)
	if exit.Code(err) != exit.Inconsistent || !strings.Contains(remedy, "restore nothing: no entry depends on "+found[0]) || strings.Contains(remedy, "from the newest copy") {
		t.Errorf("exit code %d, %v, remedy %q", exit.Code(err), err, remedy)
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Check(t.Context(), s.options(), func(uint64, uint64) {}); err != nil {
		t.Errorf("after a start: %v", err)
	}
}
