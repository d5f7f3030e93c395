package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"recoveryledger/ledger/entry"
)

func TestNewFileIsForItsOwnerAlone(t *testing.T) {
	_, path := mustGenerate(t, Ed25519, nil)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Fatalf("mode %v, want 0600", info.Mode())
	}
	checkFiles(t, filepath.Dir(path), "agent.key")
}

// TestExistingFileIsNeverReplaced generates over a key, over a file of another
// kind and over a link that leads nowhere.
func TestExistingFileIsNeverReplaced(t *testing.T) {
	made, path := mustGenerate(t, Ed25519, nil)
	if _, err := Generate(path, Ed25519, nil); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("over a key: error %v, want fs.ErrExist", err)
	}
	loaded, err := Load(path, nil)
	if err != nil || !loaded.Public().Equal(made.Public()) {
		t.Fatalf("the first key is gone: %v", err)
	}
	dir := filepath.Dir(path)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "absent"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(link, Ed25519, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a link: error %v, want fs.ErrExist", err)
	}
	checkFiles(t, dir, "agent.key", "link")
}

// TestOneOfManyGeneratesWins races writers of one path: the file is whole and
// the winner's, the others are told.
func TestOneOfManyGeneratesWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.key")
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		won   []entry.PublicKey
	)
	for range 16 {
		group.Go(func() {
			signer, err := Generate(path, Ed25519, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, signer.Public())
			} else if !errors.Is(err, fs.ErrExist) {
				t.Errorf("error %v, want fs.ErrExist", err)
			}
		})
	}
	group.Wait()
	loaded, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(won) != 1 || !won[0].Equal(loaded.Public()) {
		t.Fatalf("%d writers won, and the file holds %s", len(won), loaded.Public())
	}
	checkFiles(t, filepath.Dir(path), "agent.key")
}

func TestNothingIsLeftWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := Generate(filepath.Join(dir, "absent", "agent.key"), Ed25519, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	checkFiles(t, dir)
}

// TestOthersMay: a mode that lets the group or others at a file is seen, and on Windows
// no mode says anything.
func TestOthersMay(t *testing.T) {
	for mode, want := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o700 | fs.ModeDir: false, 0o640: true, 0o604: true, 0o666: true, 0o755 | fs.ModeDir: true} {
		for _, system := range []string{"linux", "darwin"} {
			if got := OthersMay(mode, system); got != want {
				t.Errorf("%v on %s: %v", mode, system, got)
			}
		}
		if OthersMay(mode, "windows") {
			t.Errorf("%v on Windows", mode)
		}
	}
}
