//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	checkpoint "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
	"recoveryledger/testdata/bucket"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// published has the files of a log of short leaves by their names.
func published(t *testing.T, origin string, size int) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	keep := func(tile merkle.Tile, hashes []byte) error { files[tile.Path()] = hashes; return nil }
	tree, err := merkle.NewTileBuilder(0, nil, keep)
	var head merkle.Head
	for i := 0; err == nil && i < size; i++ {
		leaf := fmt.Appendf(nil, "leaf %d", i)
		bundle := merkle.Tile{Entries: true, Index: uint64(i) / merkle.TileWidth, Width: min(merkle.TileWidth, size-i/merkle.TileWidth*merkle.TileWidth)}
		files[bundle.Path()] = append(append(files[bundle.Path()], 0, byte(len(leaf))), leaf...)
		err = tree.Append(merkle.HashLeaf(leaf))
	}
	for tile, hashes := range tree.Partial() {
		_ = keep(tile, hashes) // it is nil
	}
	if err == nil {
		head, err = tree.Head()
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, _, _ := testlog.NoteKey(origin)
	body := checkpoint.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal()
	if files["checkpoint"], err = note.Sign(&note.Note{Text: string(body)}, signer); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestInterruptedExportsGoOn: an export to a directory or to a bucket gets a signal when it asks
// for another bundle after 90 of 100, and then runs again. What the first run has written stands,
// and is not written again; from a directory the second run does not even read its entries.
func TestInterruptedExportsGoOn(t *testing.T) {
	const origin, bundles, asked = "ledger.example/exported", 100, 90
	files := published(t, origin, bundles*merkle.TileWidth+7)
	_, _, key := testlog.NoteKey(origin)
	root, err := json.Marshal(verify.Root{Origin: origin, LedgerKeys: []string{key}, Genesis: merkle.HashLeaf(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		for _, to := range []string{"directory", "bucket"} {
			t.Run(fmt.Sprint(to, " ", signal), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				dir := filepath.Dir(m.data)
				pinned, where := filepath.Join(dir, "root.json"), []string{filepath.Join(dir, "public")}
				m.must(os.WriteFile(pinned, root, 0o600))
				var env []string
				stored := func() map[string][]byte { return readTree(t, where[0]) }
				if to == "bucket" {
					store := httptest.NewServer(bucket.NewStore())
					t.Cleanup(store.Close)
					where = []string{"--to", "s3://" + bucket.Name + "/mine"}
					for name, value := range bucket.Variables(store.URL) {
						env = append(env, name+"="+value)
					}
					stored = func() map[string][]byte { return nil }
				}
				var first atomic.Pointer[exec.Cmd]
				var read atomic.Int64 // bundles
				web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					name := strings.TrimPrefix(r.URL.Path, "/")
					if strings.HasPrefix(name, "tile/entries/") && read.Add(1) == asked+1 {
						if cmd := first.Load(); cmd != nil {
							_ = cmd.Process.Signal(signal) // Wait shows whether it came
							<-r.Context().Done()
							return
						}
					}
					content, ok := files[name]
					if !ok {
						w.WriteHeader(http.StatusNotFound)
					}
					_, _ = w.Write(content) // the client shows what it lacks
				}))
				t.Cleanup(web.Close)
				args := append([]string{"log", "export", "--url", web.URL, "--root", pinned, "--output", "json"}, where...)

				cmd, said := m.command(env, args...)
				first.Store(cmd)
				m.must(cmd.Start())
				_ = cmd.Wait() // its code follows
				if code := cmd.ProcessState.ExitCode(); code != map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGKILL: -1}[signal] {
					t.Fatalf("exit code %d\n%s", code, said)
				}
				if stored()["checkpoint"] != nil {
					t.Fatal("an interrupted export has a tree head")
				}

				first.Store(nil)
				read.Store(0)
				again, said := m.command(env, args...)
				m.must(again.Run())
				var report struct{ Files, Kept int }
				m.must(json.Unmarshal(said.Bytes(), &report))
				// Of 90 bundles and their tiles up to 16 files may have been under way. A bucket
				// has notes after 64.
				least := map[string]int{"directory": 2*asked - 16, "bucket": 2 * 64}[to]
				if to == "directory" && signal == syscall.SIGINT {
					least = 2 * asked
				}
				all := len(files)
				if to == "bucket" {
					all-- // it counts no tree head
				}
				if report.Kept < least || report.Files+report.Kept != all {
					t.Errorf("%d files written and %d kept of %d, want %d kept", report.Files, report.Kept, all, least)
				}
				if to == "directory" {
					if n := int(read.Load()); n > bundles+1-asked+16 {
						t.Errorf("the second run read %d bundles", n)
					}
					if !maps.EqualFunc(stored(), files, slices.Equal) {
						t.Error("the export differs from the log")
					}
				}
				third, said := m.command(env, args...)
				m.must(third.Run())
				m.must(json.Unmarshal(said.Bytes(), &report))
				if report.Files+report.Kept > 0 {
					t.Errorf("a third run wrote %d files and kept %d", report.Files, report.Kept)
				}
			})
		}
	}
}

// readTree reads the files of an export.
func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
