package export_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
)

// open opens an export and fails the test on an error.
func (x *target) open() *export.Dir {
	x.t.Helper()
	_, verifier := key(x.t)
	d, err := export.Open(x.dir, verifier)
	must(x.t, err)
	return d
}

// readAll reads everything in an export, as somebody does who wants all of it, and
// compares it with the log.
func readAll(d *export.Dir, l *log) error {
	for _, tile := range tilesOf(d.Head.Size) {
		if tile.Entries {
			leaves, err := d.Leaves(tile)
			if err != nil {
				return err
			}
			for i, leaf := range leaves {
				if !bytes.Equal(leaf, l.leaves[256*tile.Index+uint64(i)]) {
					return fmt.Errorf("%w: %s: leaf %d is another one", export.ErrDamaged, filepath.Base(d.Path(tile)), i)
				}
			}
			continue
		}
		hashes, err := d.Hashes(tile)
		if err != nil {
			return err
		}
		if want, _ := l.Tile(tile); !bytes.Equal(hashes, want) {
			return fmt.Errorf("%w: %s is another one", export.ErrDamaged, filepath.Base(d.Path(tile)))
		}
	}
	return nil
}

// TestOpenReadsWhatWasWritten reads exports at the borders of tiles: every tile and
// leaf, and the head of every size before.
func TestOpenReadsWhatWasWritten(t *testing.T) {
	l := newLog(t, "a")
	x := newTarget(t)
	for _, size := range []int{0, 1, 255, 256, 257, 511, 512, 700} {
		l.grow(size - len(l.leaves))
		x.export(l)
		d := x.open()
		if d.Head != l.head() || d.Origin != origin || !d.Signed || d.Name() != x.dir {
			t.Errorf("size %d: %+v", size, d)
		}
		must(t, readAll(d, l))
		for older := range size + 1 {
			if head, err := d.HeadAt(uint64(older)); err != nil || head != merkle.HeadOf(l.hashes[:older]) {
				t.Fatalf("size %d: head at %d: %v, %v", size, older, head, err)
			}
		}
	}
}

// TestOpenKeepsTheSignaturesOfItsKeys: a signature that nobody can check is not in
// the note, and one by no key that is given counts for nothing.
func TestOpenKeepsTheSignaturesOfItsKeys(t *testing.T) {
	l := newLog(t, "a")
	l.grow(3)
	x := newTarget(t)
	x.export(l)
	alone := string(x.read("checkpoint"))
	_, verifier := key(t)
	skey, vkey, err := note.GenerateKey(nil, "witness.example")
	must(t, err)
	witness, err := note.NewSigner(skey)
	must(t, err)
	foreign, err := note.NewVerifier(vkey)
	must(t, err)
	opened, err := note.Open([]byte(alone), note.VerifierList(verifier))
	must(t, err)
	both, err := note.Sign(opened, witness)
	must(t, err)
	must(t, os.WriteFile(x.path("checkpoint"), both, 0o600))
	if d := x.open(); d.Note != alone || !d.Signed {
		t.Errorf("signed %v:\n%s", d.Signed, d.Note)
	}
	if d, err := export.Open(x.dir, foreign); err != nil || !d.Signed {
		t.Errorf("by the other: %+v, %v", d, err)
	}
	if d, err := export.Open(x.dir); err != nil || d.Signed || strings.Contains(d.Note, "—") {
		t.Errorf("by nobody: %+v, %v", d, err)
	}
}

// TestOpenRefusesDamage changes, cuts and removes every file of an export. Whoever
// reads all of it hears of it, by the name of the file.
func TestOpenRefusesDamage(t *testing.T) {
	l := newLog(t, "a")
	l.grow(600)
	x := newTarget(t)
	x.export(l)
	_, verifier := key(t)
	for _, name := range x.files() {
		good := x.read(name)
		flipped := slices.Clone(good)
		flipped[len(flipped)/2] ^= 4
		for what, change := range map[string]func() error{
			"changed": func() error { return os.WriteFile(x.path(name), flipped, 0o600) },
			"cut":     func() error { return os.WriteFile(x.path(name), good[:len(good)-1], 0o600) },
			"empty":   func() error { return os.WriteFile(x.path(name), nil, 0o600) },
			"too long": func() error {
				return os.WriteFile(x.path(name), append(slices.Clone(good), make([]byte, 1<<25)...), 0o600)
			},
			"missing": func() error { return os.Remove(x.path(name)) },
		} {
			must(t, change())
			d, err := export.Open(x.dir, verifier)
			if err == nil {
				err = readAll(d, l)
			}
			want := export.ErrDamaged
			if name == "checkpoint" && what == "missing" {
				want = os.ErrNotExist
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Base(name)) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
		must(t, os.WriteFile(x.path(name), good, 0o600))
	}
	must(t, readAll(x.open(), l))
}

// TestHeadAtIsProven changes a hash tile: the heads that follow from it are refused,
// not returned.
func TestHeadAtIsProven(t *testing.T) {
	l := newLog(t, "a")
	l.grow(600)
	x := newTarget(t)
	x.export(l)
	hashes := x.read("tile/0/000")
	hashes[40*merkle.HashSize] ^= 1
	must(t, os.WriteFile(x.path("tile/0/000"), hashes, 0o600))
	d := x.open()
	for _, size := range []uint64{40, 41, 100, 255} {
		if head, err := d.HeadAt(size); !errors.Is(err, export.ErrDamaged) {
			t.Errorf("the head at %d: %v, %v", size, head, err)
		}
	}
	if head, err := d.HeadAt(512); err != nil || head != merkle.HeadOf(l.hashes[:512]) { // which follows from other tiles
		t.Errorf("the head at 512: %v, %v", head, err)
	}
}

// TestOpenACopyOfAGrowingExport: a copy that was made while the export grew has an
// older head beside newer tiles.
func TestOpenACopyOfAGrowingExport(t *testing.T) {
	l := newLog(t, "a")
	l.grow(300)
	x := newTarget(t)
	x.export(l)
	older := x.read("checkpoint")
	l.grow(300)
	x.export(l)
	must(t, os.WriteFile(x.path("checkpoint"), older, 0o600))
	d := x.open()
	if d.Head.Size != 300 {
		t.Fatalf("%v", d.Head)
	}
	must(t, readAll(d, l))
}

// FuzzOpen opens whatever stands in the place of a tree head, and reads what it says
// that there is.
func FuzzOpen(f *testing.F) {
	l := newLog(f, "a")
	l.grow(2)
	signed, err := l.Published()
	must(f, err)
	_, verifier := key(f)
	for _, seed := range []string{"", signed.Note, strings.Replace(signed.Note, "\n2\n", "\n18446744073709551615\n", 1), "a\n1\nAA==\n\n— a AAAA\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "checkpoint"), content, 0o600))
		d, err := export.Open(dir, verifier)
		if err != nil {
			if !errors.Is(err, export.ErrDamaged) || d != nil {
				t.Fatalf("%+v, %v", d, err)
			}
			return
		}
		if d.Signed && d.Head != signed.Head {
			t.Fatalf("nobody has signed %v", d.Head)
		}
		if _, err := d.HeadAt(d.Head.Size / 2); d.Head.Size > 1 && !errors.Is(err, export.ErrDamaged) {
			t.Fatalf("the head over half of %d entries, of which none is there: %v", d.Head.Size, err)
		}
	})
}
