package export_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	checkpoint "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

const origin = "ledger.example/test"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// key returns the key that signs the logs of these tests.
func key(tb testing.TB) (note.Signer, note.Verifier) {
	tb.Helper()
	signer, verifier, _ := testlog.NoteKey(origin)
	return signer, verifier
}

// log is a log in memory that signs every head and serves every tile by their
// definitions. It is slow, and has nothing in common with what is tested.
type log struct {
	t      testing.TB
	name   string // makes its leaves other ones than those of other logs
	signer note.Signer
	leaves [][]byte
	hashes []merkle.Hash
}

func newLog(tb testing.TB, name string) *log {
	tb.Helper()
	signer, _ := key(tb)
	return &log{t: tb, name: name, signer: signer}
}

// fork returns a log with the same leaves, which goes on by itself.
func (l *log) fork(name string) *log {
	return &log{l.t, name, l.signer, slices.Clone(l.leaves), slices.Clone(l.hashes)}
}

// grow adds n leaves of different lengths.
func (l *log) grow(n int) {
	for range n {
		i := len(l.leaves)
		leaf := fmt.Appendf(nil, "%s %d %s", l.name, i, strings.Repeat("x", i%100))
		l.leaves, l.hashes = append(l.leaves, leaf), append(l.hashes, merkle.HashLeaf(leaf))
	}
}

func (l *log) head() merkle.Head { return merkle.HeadOf(l.hashes) }

// Published implements [export.Source].
func (l *log) Published() (verify.SignedHead, error) {
	head := l.head()
	body := checkpoint.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(body)}, l.signer)
	return verify.SignedHead{Head: head, Note: string(signed)}, err
}

// Tile is c2sp.org/tlog-tiles word for word: hash i of tile n at level l is
// MTH(D[(n·256+i)·256^l : (n·256+i+1)·256^l]).
func (l *log) Tile(t merkle.Tile) (out []byte, err error) {
	if t.Entries {
		for _, leaf := range l.leaves[256*t.Index:][:t.Width] {
			out = append(append(out, byte(len(leaf)>>8), byte(len(leaf))), leaf...)
		}
		return out, nil
	}
	span := uint64(1)
	for range t.Level {
		span *= 256
	}
	for i := range uint64(t.Width) {
		h := merkle.HeadOf(l.hashes[(256*t.Index+i)*span:][:span]).Root
		out = append(out, h[:]...)
	}
	return out, nil
}

// tilesOf lists the tiles of a tree of size leaves.
func tilesOf(size uint64) (tiles []merkle.Tile) {
	for level := uint(0); size>>(8*level) > 0; level++ {
		hashes := size >> (8 * level)
		for index := uint64(0); index*256 < hashes; index++ {
			t := merkle.Tile{Level: level, Index: index, Width: int(min(256, hashes-index*256))}
			tiles = append(tiles, t)
			if level == 0 {
				t.Entries = true
				tiles = append(tiles, t)
			}
		}
	}
	return tiles
}

// openHead opens a head that the key of these tests has signed.
func openHead(signed []byte) (merkle.Head, error) {
	_, verifier, _ := testlog.NoteKey(origin)
	opened, _, _, err := checkpoint.ParseCheckpoint(signed, origin, verifier)
	if err != nil {
		return merkle.Head{}, err
	}
	return merkle.Head{Size: opened.Size, Root: merkle.Hash(opened.Hash)}, nil
}

// target is a directory that a log is exported to.
type target struct {
	t   testing.TB
	dir string
}

func newTarget(tb testing.TB) *target {
	tb.Helper()
	return &target{tb, filepath.Join(tb.TempDir(), "public")}
}

// export exports and fails the test on an error.
func (x *target) export(from export.Source) *export.Report {
	x.t.Helper()
	report, err := x.try(context.Background(), from)
	must(x.t, err)
	return report
}

func (x *target) try(ctx context.Context, from export.Source) (*export.Report, error) {
	return export.Write(ctx, x.dir, &export.Config{Source: from, Open: openHead})
}

func (x *target) path(name string) string { return filepath.Join(x.dir, filepath.FromSlash(name)) }

func (x *target) read(name string) []byte {
	x.t.Helper()
	content, err := os.ReadFile(x.path(name))
	must(x.t, err)
	return content
}

// head is the tree head of the export.
func (x *target) head() merkle.Head {
	x.t.Helper()
	head, err := openHead(x.read("checkpoint"))
	must(x.t, err)
	return head
}

// check compares the export with the log as it was under the head of the export.
func (x *target) check(l *log) {
	x.t.Helper()
	head := x.head()
	if head != merkle.HeadOf(l.hashes[:head.Size]) {
		x.t.Fatalf("checkpoint is of %v", head)
	}
	for _, tile := range tilesOf(head.Size) {
		want, err := l.Tile(tile)
		must(x.t, err)
		if !bytes.Equal(x.read(tile.Path()), want) {
			x.t.Fatalf("size %d: %s differs from the definition", head.Size, tile.Path())
		}
	}
}

// files lists the files of the log in the export.
func (x *target) files() (names []string) {
	x.t.Helper()
	must(x.t, filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			name, err := filepath.Rel(x.dir, path)
			must(x.t, err)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	return names
}
