package ledger_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/verify"
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

// source is a log to be exported.
type source struct{ *ledger.Log }

// Published implements [export.Source].
func (s source) Published() (verify.SignedHead, error) {
	head, err := s.Log.Published()
	return head.SignedHead, err
}

// export exports the log and fails the test on an error.
func (x *target) export(from *ledger.Log) {
	x.t.Helper()
	_, err := export.Write(x.t.Context(), x.dir, &export.Config{
		Source: source{from},
		Open:   func(signed []byte) (merkle.Head, error) { return parseNote(string(signed)) },
	})
	must(x.t, err)
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
