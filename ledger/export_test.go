package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/merkle"
)

// target is a directory that a log is exported to.
type target struct {
	t   *testing.T
	dir string
}

func newTarget(t *testing.T) *target {
	t.Helper()
	return &target{t, t.TempDir() + "/public"}
}

// export exports and fails the test on an error.
func (x *target) export(from ledger.Source) *ledger.ExportReport {
	x.t.Helper()
	report, err := x.try(x.t.Context(), from)
	must(x.t, err)
	return report
}

func (x *target) try(ctx context.Context, from ledger.Source) (*ledger.ExportReport, error) {
	return ledger.Export(ctx, x.dir, &ledger.ExportConfig{
		Source: from,
		Open:   func(signed []byte) (merkle.Head, error) { return parseNote(string(signed)) },
	})
}

func (x *target) read(name string) []byte {
	x.t.Helper()
	content, err := os.ReadFile(filepath.Join(x.dir, name))
	must(x.t, err)
	return content
}

// check compares the tiles of the export that a smaller one does not have with
// the reference.
func (x *target) check(tr *tree, smaller, size uint64) {
	x.t.Helper()
	if head := openNote(x.t, string(x.read("checkpoint"))); head.Size != size || head.Root != referenceRoot(tr.hashes[:size]) {
		x.t.Fatalf("checkpoint is of %v", head)
	}
	for _, tile := range tilesOf(smaller, size) {
		if !bytes.Equal(x.read(tile.Path()), tr.tile(tile)) {
			x.t.Fatalf("size %d: %s differs from the reference", size, tile.Path())
		}
	}
}

// files lists the files of the log in the export.
func (x *target) files() (names []string) {
	x.t.Helper()
	must(x.t, filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, strings.TrimPrefix(path, x.dir+"/"))
		}
		return err
	}))
	return names
}

// growing lets a test look at the export, and grow the log, before every tile
// that is read.
type growing struct {
	ledger.Source
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
	r := start(t, "log", atOnce(config(t, vfs.NewMem())))
	x, tr := newTarget(t), new(tree)
	check := func() {
		tr.grow(r)
		if signed, err := os.ReadFile(filepath.Join(x.dir, "checkpoint")); err == nil {
			x.check(tr, 0, openNote(t, string(signed)).Size)
		}
	}
	crash := errors.New("the power is gone")
	rng := newRNG(1)
	for step := range 7 {
		r.bulk(rng.IntN(400))
		for stopAt := 0; ; stopAt++ {
			calls := 0
			_, err := x.try(t.Context(), &growing{r.Log, func() error {
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
		if full := openNote(t, string(x.read("checkpoint"))).Size >> (8*tile.Level + 8); err == nil && tile.Width < 256 && tile.Index < full {
			t.Errorf("%s is there, and so is the full tile", name)
		}
	}
}

// TestExportLeavesNothingBehind exports to where a killed export has left a file
// that was not complete, and fails to; and it leaves alone what is not its own.
func TestExportLeavesNothingBehind(t *testing.T) {
	r := start(t, "log", atOnce(config(t, vfs.NewMem())))
	r.bulk(300)
	x := newTarget(t)
	killed := func(dir string) string {
		incoming := filepath.Join(dir, ".arl-incoming")
		must(t, os.MkdirAll(incoming, 0o755))
		must(t, os.WriteFile(filepath.Join(incoming, ".0001"), []byte("half a ti"), 0o600))
		return incoming
	}
	for _, calls := range []int{2, 100} { // until the power is gone
		desc, incoming := fmt.Sprintf("%d calls", calls), killed(x.dir)
		_, err := x.try(t.Context(), &growing{r.Log, func() error {
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
	r := start(t, "log", atOnce(config(t, vfs.NewMem())))
	x := newTarget(t)
	if report := x.export(r); report.Files != 1 || report.Newer != merkle.EmptyHead() {
		t.Errorf("empty log: %+v", report)
	}
	r.bulk(600)
	first := r.Head().Head
	if report := x.export(r); report.Files != 8 || report.Newer != first {
		t.Errorf("600 entries: %+v", report) // 2·3 of level 0, 1 of level 1, checkpoint
	}
	if report := x.export(r); report.Files != 0 || report.Older != first || report.Newer != first {
		t.Errorf("once more: %+v", report)
	}
	r.bulk(1)
	if report := x.export(r); report.Files != 4 || report.Older != first || report.Newer.Size != 601 {
		t.Errorf("one more entry: %+v", report)
	}
	r.bulk(300)
	var done, total uint64
	_, err := ledger.Export(t.Context(), x.dir, &ledger.ExportConfig{
		Source:   r,
		Open:     func(signed []byte) (merkle.Head, error) { return parseNote(string(signed)) },
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
	ledger.Source
	tile func(t merkle.Tile, content []byte) []byte
}

func (l *lying) Tile(t merkle.Tile) ([]byte, error) {
	content, err := l.Source.Tile(t)
	return l.tile(t, content), err
}

func TestExportRefuses(t *testing.T) {
	base := logOf(t, 300)
	longer, other := snapshotOf(base), snapshotOf(base)
	for disk, n := range map[*vfs.MemFS]int{longer: 10, other: 40} {
		r := start(t, "log", config(t, disk))
		r.bulk(n)
		r.stop()
	}
	x := newTarget(t)
	x.export(start(t, "log", config(t, longer)))
	before := x.files()
	refuses := func(desc string, from ledger.Source, want error, text string) {
		t.Helper()
		_, err := x.try(t.Context(), from)
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%s: %v, want %v: %s", desc, err, want, text)
		}
		if head := openNote(t, string(x.read("checkpoint"))); head.Size != 310 {
			t.Errorf("%s: the export is of %v", desc, head)
		}
	}
	refuses("an older log", start(t, "log", config(t, base)), ledger.ErrInconsistent, "it has 310 entries, the log 300")
	refuses("another history", start(t, "log", config(t, other)), ledger.ErrInconsistent, "the first 310 entries")
	if after := x.files(); len(after) != len(before) {
		t.Errorf("refused exports left %v", after)
	}

	good := start(t, "log", atOnce(config(t, snapshotOf(longer))))
	good.bulk(300)
	for desc, change := range map[string]func(merkle.Tile, []byte) []byte{
		"an entry is another":        func(_ merkle.Tile, c []byte) []byte { c[len(c)-9] ^= 1; return c },
		"a bundle is cut":            func(_ merkle.Tile, c []byte) []byte { return c[:len(c)-1] },
		"a bundle has something":     func(_ merkle.Tile, c []byte) []byte { return append(c, 0) },
		"a bundle is empty":          func(merkle.Tile, []byte) []byte { return nil },
		"hashes of the older differ": func(t merkle.Tile, c []byte) []byte { c[0] ^= byte(t.Level); return c },
	} {
		want := ledger.ErrCorrupt
		if _, err := x.try(t.Context(), &lying{good, change}); !errors.Is(err, want) && !errors.Is(err, ledger.ErrInconsistent) {
			t.Errorf("%s: %v", desc, err)
		}
		if head := openNote(t, string(x.read("checkpoint"))); head.Size != 310 {
			t.Errorf("%s: the export is of %v", desc, head)
		}
	}
	x.export(good)

	must(t, os.WriteFile(x.dir+"/checkpoint", []byte("other.example/log\n1\n"), 0o600))
	_, err := x.try(t.Context(), good)
	if !errors.Is(err, ledger.ErrInconsistent) {
		t.Errorf("a target of another log: %v", err)
	}
}

func TestExportRunsOnce(t *testing.T) {
	r := start(t, "log", atOnce(config(t, vfs.NewMem())))
	r.bulk(10)
	x := newTarget(t)
	var second error
	_, err := x.try(t.Context(), &growing{r.Log, func() error {
		_, second = x.try(t.Context(), r)
		return nil
	}})
	must(t, err)
	if !errors.Is(second, ledger.ErrInUse) {
		t.Errorf("a second export: %v", second)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.bulk(1)
	if _, err := x.try(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
