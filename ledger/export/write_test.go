package export_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// growing lets a test look at the export, and grow the log, before every tile
// that is read.
type growing struct {
	export.Source
	before func() error
}

func (g *growing) Tile(t merkle.Tile) ([]byte, error) {
	if err := g.before(); err != nil {
		return nil, err
	}
	return g.Source.Tile(t)
}

// TestExportIsServableAtAnyMoment stops exports before each tile that they read,
// while the log grows. Whatever is there is a whole log: that of the tree head
// that lies with it.
func TestExportIsServableAtAnyMoment(t *testing.T) {
	r := newLog(t, "a")
	x := newTarget(t)
	check := func() {
		if _, err := os.Stat(filepath.Join(x.dir, "checkpoint")); err == nil {
			x.check(r)
		}
	}
	crash := errors.New("the power is gone")
	rng := rand.New(rand.NewPCG(1, 0))
	for step := range 7 {
		r.grow(rng.IntN(400))
		for stopAt := 0; ; stopAt++ {
			calls := 0
			_, err := x.try(t.Context(), &growing{r, func() error {
				check()
				if calls++; calls > stopAt {
					return crash
				}
				return nil
			}})
			check()
			if err == nil {
				break
			}
			if !errors.Is(err, crash) {
				t.Fatalf("step %d, stop %d: %v", step, stopAt, err)
			}
		}
	}
	for _, name := range x.files() {
		tile, err := merkle.ParseTilePath(name)
		if err != nil && name != "checkpoint" {
			t.Errorf("%s: %v", name, err)
		}
		if full := x.head().Size >> (8*tile.Level + 8); err == nil && tile.Width < 256 && tile.Index < full {
			t.Errorf("%s is there, and so is the full tile", name)
		}
	}
}

// TestExportLeavesNothingBehind exports to where a killed export has left a file
// that was not complete, and fails to; and it leaves alone what is not its own.
func TestExportLeavesNothingBehind(t *testing.T) {
	r := newLog(t, "a")
	r.grow(300)
	x := newTarget(t)
	killed := func(dir string) string {
		incoming := filepath.Join(dir, ".arl-incoming")
		must(t, os.MkdirAll(incoming, 0o755))
		must(t, os.WriteFile(filepath.Join(incoming, ".0001"), []byte("half a ti"), 0o600))
		return incoming
	}
	for _, calls := range []int{2, 100} { // until the power is gone
		desc, incoming := fmt.Sprintf("%d calls", calls), killed(x.dir)
		_, err := x.try(t.Context(), &growing{r, func() error {
			if calls--; calls <= 0 {
				return errors.New("the power is gone")
			}
			return nil
		}})
		if cut := calls <= 0; cut != (err != nil) {
			t.Errorf("%s: %v", desc, err)
		}
		if _, err := os.Stat(incoming); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: what was under way is left: %v", desc, err)
		}
	}
	must(t, filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && name[0] == '.' && name != ".lock" {
			t.Errorf("left: %s", path)
		}
		return err
	}))
	papers := newTarget(t)
	incoming := killed(papers.dir)
	must(t, os.WriteFile(filepath.Join(papers.dir, "letter.txt"), nil, 0o600))
	if _, err := papers.try(t.Context(), r); !errors.Is(err, os.ErrExist) {
		t.Errorf("among papers: %v", err)
	}
	if _, err := os.Stat(incoming); err != nil {
		t.Errorf("among papers: %v", err)
	}
}

func TestExportIsIncremental(t *testing.T) {
	r := newLog(t, "a")
	x := newTarget(t)
	if report := x.export(r); report.Files != 1 || report.Newer != merkle.EmptyHead() {
		t.Errorf("empty log: %+v", report)
	}
	r.grow(600)
	first := r.head()
	if report := x.export(r); report.Files != 8 || report.Newer != first {
		t.Errorf("600 entries: %+v", report) // 2·3 of level 0, 1 of level 1, checkpoint
	}
	if report := x.export(r); report.Files != 0 || report.Older != first || report.Newer != first {
		t.Errorf("once more: %+v", report)
	}
	r.grow(1)
	if report := x.export(r); report.Files != 4 || report.Older != first || report.Newer.Size != 601 {
		t.Errorf("one more entry: %+v", report)
	}
	r.grow(300)
	var done, total uint64
	_, err := export.Write(t.Context(), x.dir, &export.Config{
		Source:   r,
		Open:     openHead,
		Progress: func(d, n uint64) { done, total = d, n },
	})
	must(t, err)
	if done != 300 || total != 300 {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	info, err := os.Stat(x.dir + "/tile/0/000")
	must(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("a web server must read it: mode %v", info.Mode())
	}
}

// lying is a source that answers something else.
type lying struct {
	export.Source
	tile func(t merkle.Tile, content []byte) []byte
}

func (l *lying) Tile(t merkle.Tile) ([]byte, error) {
	content, err := l.Source.Tile(t)
	return l.tile(t, content), err
}

func isFork(err error) bool {
	_, ok := errors.AsType[*verify.ForkError](err)
	return ok
}

// TestExportRefuses what the log does not have. Two signed histories are a fork, with both heads; a
// source that lies makes none.
func TestExportRefuses(t *testing.T) {
	base := newLog(t, "a")
	base.grow(300)
	longer, other := base.fork("b"), base.fork("c")
	longer.grow(10)
	other.grow(40)
	x := newTarget(t)
	x.export(longer)
	before := x.files()
	exported := x.read(export.Checkpoint)
	refuses := func(desc string, from export.Source, want error, text string) (err error) {
		t.Helper()
		_, err = x.try(t.Context(), from)
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%s: %v, want %v: %s", desc, err, want, text)
		}
		if head := x.head(); head.Size != 310 {
			t.Errorf("%s: the export is of %v", desc, head)
		}
		return err
	}
	if err := refuses("an older log", base, export.ErrInconsistent, "it has size 310, the log 300"); isFork(err) {
		t.Errorf("an older log convicts: %v", err)
	}
	equal := base.fork("d")
	equal.grow(10)
	for desc, log := range map[string]*log{"another history": other, "another history of one size": equal} {
		published, err := log.Published()
		must(t, err)
		err = refuses(desc, log, export.ErrInconsistent, "size 310 has root")
		fork, ok := errors.AsType[*verify.ForkError](err)
		if !ok || fork.First != string(exported) || fork.Second != published.Note {
			t.Fatalf("%s: the heads are not kept: %+v", desc, fork)
		}
		if log == equal {
			continue
		}
		if err := merkle.CheckConsistency(merkle.Head{Size: 310, Root: *fork.Root}, log.head(), fork.Path); err != nil || *fork.Root == x.head().Root {
			t.Errorf("%s: nothing shows that the log began otherwise: %v", desc, err)
		}
	}
	if after := x.files(); len(after) != len(before) {
		t.Errorf("refused exports left %v", after)
	}

	good := longer.fork("b")
	good.grow(300)
	for desc, change := range map[string]func(merkle.Tile, []byte) []byte{
		"an entry is another":    func(_ merkle.Tile, c []byte) []byte { c[len(c)-9] ^= 1; return c },
		"a bundle is cut":        func(_ merkle.Tile, c []byte) []byte { return c[:len(c)-1] },
		"a bundle has something": func(_ merkle.Tile, c []byte) []byte { return append(c, 0) },
		"a bundle is empty":      func(merkle.Tile, []byte) []byte { return nil },
		"hash tiles have a hash more": func(t merkle.Tile, c []byte) []byte {
			if t.Entries {
				return c
			}
			return append(c, c[:merkle.HashSize]...)
		},
		"hashes of the older differ": func(t merkle.Tile, c []byte) []byte { c[0] ^= byte(t.Level); return c },
	} {
		want := export.ErrDamaged
		if _, err := x.try(t.Context(), &lying{good, change}); !errors.Is(err, want) && !errors.Is(err, export.ErrInconsistent) || isFork(err) {
			t.Errorf("%s: %v", desc, err)
		}
		if head := x.head(); head.Size != 310 {
			t.Errorf("%s: the export is of %v", desc, head)
		}
	}
	x.export(good)

	must(t, os.WriteFile(x.dir+"/checkpoint", []byte("other.example/log\n1\n"), 0o600))
	_, err := x.try(t.Context(), good)
	if !errors.Is(err, export.ErrInconsistent) {
		t.Errorf("a target of another log: %v", err)
	}
}

func TestExportRunsOnce(t *testing.T) {
	r := newLog(t, "a")
	r.grow(10)
	x := newTarget(t)
	var second error
	_, err := x.try(t.Context(), &growing{r, func() error {
		_, second = x.try(t.Context(), r)
		return nil
	}})
	must(t, err)
	if !errors.Is(second, export.ErrInUse) {
		t.Errorf("a second export: %v", second)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.grow(1)
	if _, err := x.try(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestInterruptedExportGoesOn cuts an export off behind eight bundles, and damages some of the
// files that it left. The next one writes these and what is missing, reads the entries of no bundle
// that is whole, and leaves the export as it should be.
func TestInterruptedExportGoesOn(t *testing.T) {
	r := newLog(t, "a")
	r.grow(10*merkle.TileWidth + 9)
	x := newTarget(t)
	bundles := 0
	reading := func(limit int) export.Source {
		bundles = 0
		return &lying{r, func(m merkle.Tile, c []byte) []byte {
			if m.Entries {
				bundles++
			}
			if bundles > limit {
				return nil
			}
			return c
		}}
	}
	if _, err := x.try(t.Context(), reading(8)); !errors.Is(err, export.ErrDamaged) {
		t.Fatalf("cut off: %v", err)
	}
	if len(x.files()) != 16 {
		t.Fatalf("left: %v", x.files())
	}
	other := newLog(t, "b")
	other.grow(3 * merkle.TileWidth)
	foreign, err := other.Tile(merkle.Tile{Entries: true, Index: 2, Width: merkle.TileWidth})
	must(t, err)
	for name, content := range map[string][]byte{
		"tile/entries/000": x.read("tile/entries/000")[:100],
		"tile/entries/001": append(x.read("tile/entries/001"), 0),
		"tile/entries/002": foreign,
		"tile/entries/003": nil,
		"tile/0/004":       make([]byte, merkle.TileWidth*merkle.HashSize),
		"tile/0/005":       x.read("tile/0/005")[:32],
	} {
		must(t, os.WriteFile(x.path(name), content, 0o600))
	}
	must(t, os.Remove(x.path("tile/0/006")))
	report, err := x.try(t.Context(), reading(1000))
	must(t, err)
	if report.Kept != 16-7 || bundles != 4+3 || report.Files != 7+2*3+1+1 {
		t.Errorf("%+v, %d bundles read", report, bundles)
	}
	x.check(r)
}
