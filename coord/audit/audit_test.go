package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSite(t *testing.T, steps int, lying bool) *site {
	t.Helper()
	s, err := open(steps, lying)
	must(t, err)
	t.Cleanup(func() { must(t, s.stop()) })
	return s
}

// files returns the export in memory.
func (s *site) files(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	must(t, filepath.WalkDir(s.export, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(s.export, path)
		files[filepath.ToSlash(name)] = &fstest.MapFile{Data: content}
		return err
	}))
	return files
}

// bundle returns the file with the entries.
func bundle(t *testing.T, files fstest.MapFS) *fstest.MapFile {
	t.Helper()
	for name, file := range files {
		if strings.HasPrefix(name, "tile/entries/") {
			return file
		}
	}
	t.Fatal("no entry bundle in the export")
	return nil
}

// TestAForbiddenEntryIsProven gets the receipt of an entry of an unknown issuer,
// and the receipt verifies without the audit.
func TestAForbiddenEntryIsProven(t *testing.T) {
	s := newSite(t, 2, true)
	export := audit.Dir{Files: os.DirFS(s.export)}
	head, err := export.Head(s.root)
	must(t, err)
	_, report, err := audit.Run(t.Context(), export, s.root, head, audit.Config{})
	found, ok := errors.AsType[*audit.FindingError](err)
	if !ok || found.Index != 4 || found.Refusal.Problem != entry.UnknownIssuer || report.Size != 4 {
		t.Fatalf("%v after %d entries, want a finding at entry 4", err, report.Size)
	}
	must(t, merkle.CheckInclusion(4, merkle.HashLeaf(found.Receipt.Leaf), head.Head, found.Receipt.Proof))
	if _, err := s.root.Verify(verify.Material{Receipts: []verify.Receipt{found.Receipt}}); err != nil {
		t.Errorf("the evidence does not verify: %v", err)
	}
	if e := audit.Evidence(fmt.Errorf("audit: %w", err)); e == nil || e.Kind != verify.EvidenceEntry || len(e.Receipts) != 1 || e.Receipts[0].Index != 4 {
		t.Errorf("evidence %+v", e)
	}
}

// TestEvidenceHoldsBothHeads: a fork is evidence with both heads. An error that lost one is none,
// and an error of reading, or no error, is none.
func TestEvidenceHoldsBothHeads(t *testing.T) {
	if e := audit.Evidence(fmt.Errorf("read: %w", &verify.ForkError{First: "a", Second: "b", Detail: "two"})); e == nil || e.Kind != verify.EvidenceFork || e.Older != "a" || e.Newer != "b" {
		t.Errorf("two heads: %+v", e)
	}
	for _, err := range []error{nil, fs.ErrNotExist, &verify.ForkError{First: "a"}, &verify.ForkError{Second: "b"}, &audit.RootError{Head: verify.SignedHead{Note: "a"}}} {
		if e := audit.Evidence(err); e != nil {
			t.Errorf("%v: %+v", err, e)
		}
	}
}

// TestWhatWasChangedOnTheWayAccusesNobody changes, cuts and extends the bundle.
func TestWhatWasChangedOnTheWayAccusesNobody(t *testing.T) {
	s := newSite(t, 3, false)
	clean := s.files(t)
	head, err := audit.Dir{Files: clean}.Head(s.root)
	must(t, err)
	whole := bundle(t, clean).Data
	for name, spoil := range map[string]struct {
		change func(b []byte) []byte
		want   func(error) bool
	}{
		"another instant": {func(b []byte) []byte {
			b[len(b)-2] ^= 1 // the last digit of registered_at
			return b
		}, isRoot},
		"cut off":        {func(b []byte) []byte { return b[:len(b)-1] }, isDamaged},
		"empty":          {func([]byte) []byte { return nil }, isDamaged},
		"something more": {func(b []byte) []byte { return append(b, 0) }, isDamaged},
	} {
		files := s.files(t)
		file := bundle(t, files)
		file.Data = spoil.change(append([]byte(nil), whole...))
		_, _, err := audit.Run(t.Context(), audit.Dir{Files: files}, s.root, head, audit.Config{})
		if !spoil.want(err) || audit.Evidence(err) != nil {
			t.Errorf("%s: %v, evidence %+v", name, err, audit.Evidence(err))
		}
	}
	if _, _, err := audit.Run(t.Context(), audit.Dir{Files: fstest.MapFS{}}, s.root, head, audit.Config{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no files: %v", err)
	}
}

func isRoot(err error) bool {
	_, ok := errors.AsType[*audit.RootError](err)
	return ok
}

func isDamaged(err error) bool { return errors.Is(err, audit.ErrDamaged) }

// TestAnAuditGoesOn reads only what is new, and tells how far it is.
func TestAnAuditGoesOn(t *testing.T) {
	s := newSite(t, 3, false)
	export := audit.Dir{Files: os.DirFS(s.export)}
	head, err := export.Head(s.root)
	must(t, err)
	follower, _, err := audit.Run(t.Context(), export, s.root, head, audit.Config{})
	must(t, err)
	seen, told := 0, uint64(0)
	cfg := audit.Config{From: follower, See: func(entry.Registered) { seen++ }, Progress: func(done, _ uint64) { told = done }}
	_, report, err := audit.Run(t.Context(), export, s.root, head, cfg)
	must(t, err)
	if seen != 0 || report.Size != 5 || told != 5 {
		t.Errorf("read %d entries again of %d, told %d", seen, report.Size, told)
	}
	cfg = audit.Config{See: func(entry.Registered) { seen++ }}
	if _, _, err := audit.Run(t.Context(), export, s.root, head, cfg); err != nil || seen != 5 {
		t.Errorf("saw %d of 5 entries: %v", seen, err)
	}
	pinned := s.root
	pinned.Genesis[0] ^= 1
	if _, _, err := audit.Run(t.Context(), export, pinned, head, audit.Config{}); err == nil || !strings.Contains(err.Error(), "TRU-1") {
		t.Errorf("another genesis: %v", err)
	}
}

// FuzzBundle reads whatever is served as an entry bundle.
func FuzzBundle(f *testing.F) {
	f.Add([]byte{0, 1, 'x', 0, 0}, uint64(2))
	f.Add([]byte{}, uint64(1))
	f.Fuzz(func(t *testing.T, served []byte, size uint64) {
		leaves, err := audit.Bundle(context.Background(), always{served}, 0, size)
		total := 0
		for _, leaf := range leaves {
			total += 2 + len(leaf)
		}
		if err == nil && (total != len(served) || uint64(len(leaves)) != min(size, merkle.TileWidth)) || total > len(served) {
			t.Errorf("%d leaves of %d bytes out of %d, %v", len(leaves), total, len(served), err)
		}
	})
}

// always serves the same bytes for every tile.
type always struct{ content []byte }

// Tile implements [audit.Source].
func (s always) Tile(context.Context, merkle.Tile) ([]byte, error) { return s.content, nil }
