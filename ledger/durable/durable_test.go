package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"recoveryledger/ledger/durable"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds wants a directory with these files and no others: what was written under
// another name is gone.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		if _, ok := want[f.Name()]; !ok {
			t.Errorf("%s is left", f.Name())
		}
	}
	for name, content := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
			t.Errorf("%s: %q, %v, want %q", name, got, err, content)
		}
	}
}

// TestWrite makes a file and replaces it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, content := range []string{"one", "", "another one"} {
		must(t, durable.Write(path, []byte(content), 0o600))
		holds(t, dir, map[string]string{"a": content})
	}
}

// TestPermissions: a new file gets the mode, and a file that is replaced hands its own
// permissions on, whatever the umask is.
func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	path := filepath.Join(t.TempDir(), "a")
	must(t, durable.Write(path, nil, 0o600))
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o640} {
		if mode != 0o600 {
			must(t, os.Chmod(path, mode))
			must(t, durable.Write(path, []byte("x"), 0o644))
		}
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("mode %v, want %v", info.Mode(), mode)
		}
	}
}

// TestCreate leaves what is there: a file, a link to nothing, a directory.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, durable.Create(path, []byte("first"), 0o600))
	if err := durable.Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file is there: %v", err)
	}
	holds(t, dir, map[string]string{"a": "first"})
	must(t, os.Remove(path))
	if err := os.Symlink("nowhere", path); err == nil {
		if err := durable.Create(path, nil, 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a link is there: %v", err)
		}
		must(t, os.Remove(path))
	}
	must(t, os.Mkdir(path, 0o700))
	if err := durable.Create(path, nil, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a directory is there: %v", err)
	}
	must(t, os.Remove(path))
	holds(t, dir, nil)
}

// TestOneCreates: of many that create a file at once, one does, and its content stays.
func TestOneCreates(t *testing.T) {
	dir := t.TempDir()
	made := make([]bool, 8)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			err := durable.Create(filepath.Join(dir, "a"), []byte{byte('0' + i)}, 0o600)
			if made[i] = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, won := range made {
		if won {
			holds(t, dir, map[string]string{"a": string(byte('0' + i))})
		}
	}
	if n := bytes.Count(flags(made), []byte{1}); n != 1 {
		t.Errorf("%d have created it", n)
	}
}

func flags(made []bool) []byte {
	text := make([]byte, len(made))
	for i, won := range made {
		if won {
			text[i] = 1
		}
	}
	return text
}

// TestNobodyReadsHalf reads a file while it is replaced.
func TestNobodyReadsHalf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace a file that somebody has open")
	}
	path := filepath.Join(t.TempDir(), "a")
	one, two := bytes.Repeat([]byte("1"), 1<<16), bytes.Repeat([]byte("2"), 1<<15)
	must(t, durable.Write(path, one, 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			for _, content := range [][]byte{two, one} {
				if err := durable.Write(path, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(got, one) && !bytes.Equal(got, two) {
			t.Fatalf("%d bytes that nobody wrote", len(got))
		}
	}
}

// TestFailureLeavesNothing: what fails leaves what was there, and nothing beside it;
// the error names the place.
func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "sub", "x"), []byte("x"), 0o600))
	for name, err := range map[string]error{
		"sub":  durable.Write(filepath.Join(dir, "sub"), nil, 0o600),      // a directory with something in it
		"no/a": durable.Write(filepath.Join(dir, "no", "a"), nil, 0o600),  // no directory
		"no/b": durable.Create(filepath.Join(dir, "no", "b"), nil, 0o600), // no directory
	} {
		at, ok := errors.AsType[*fs.PathError](err)
		if !ok || at.Path != filepath.Join(dir, filepath.FromSlash(name)) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(name, "no/") && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "sub", "x")))
	must(t, os.Remove(filepath.Join(dir, "sub")))
	holds(t, dir, nil)
}

// TestFile writes a file in pieces, in another directory.
func TestFile(t *testing.T) {
	dir, incoming := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "a")
	f, err := durable.Begin(incoming, path, 0o600)
	must(t, err)
	for _, piece := range []string{"in ", "pieces"} {
		_, err = f.Write([]byte(piece))
		must(t, err)
	}
	holds(t, dir, nil)
	must(t, f.Place())
	must(t, f.Discard()) // does nothing
	must(t, durable.SyncDir(dir))
	holds(t, dir, map[string]string{"a": "in pieces"})
	holds(t, incoming, nil)

	f, err = durable.Begin("", path, 0o600)
	must(t, err)
	_, err = f.Write([]byte("half"))
	must(t, err)
	must(t, f.Discard())
	must(t, f.Discard())
	holds(t, dir, map[string]string{"a": "in pieces"})
}

// TestRename moves a file over another one, and a directory into another directory.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, durable.Write(a, []byte("a"), 0o600))
	must(t, durable.Write(b, []byte("b"), 0o600))
	must(t, durable.Rename(a, b))
	holds(t, dir, map[string]string{"b": "a"})
	from, to := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "e")
	must(t, os.Mkdir(from, 0o700))
	must(t, durable.Write(filepath.Join(from, "x"), []byte("x"), 0o600))
	must(t, durable.Rename(from, to))
	holds(t, to, map[string]string{"x": "x"})
	if err := durable.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to move: %v", err)
	}
}

// TestRemove removes a file once.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, durable.Write(path, nil, 0o600))
	must(t, durable.Remove(path))
	holds(t, dir, nil)
	if err := durable.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to remove: %v", err)
	}
}

func ExampleWrite() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := durable.Write(filepath.Join(dir, "root.json"), []byte("{}\n"), 0o644); err != nil {
		panic(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "root.json"))
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(content) //nolint:errcheck // an example
	// Output: {}
}
