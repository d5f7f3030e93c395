package node

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNewOriginWaitsForStableStorage has a directory that cannot be synced: in
// /proc/self, a name is a link to the working directory, which takes every file.
// The new keys stay aside until another run has seen the old ones kept.
func TestNewOriginWaitsForStableStorage(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	t.Chdir(t.TempDir())
	n := &Node{Dir: dir, Anchor: dir + ".anchor"}
	coming := filepath.Join(dir, comingKeys)
	must(os.Mkdir(coming, 0o700))
	must(os.Mkdir(n.KeysDir(), 0o700))
	must(os.WriteFile(filepath.Join(n.KeysDir(), "ledger.key"), []byte("old"), 0o600))
	must(os.Symlink("/proc/self", filepath.Join(dir, formerDir)))

	if err := n.moveFormer(coming, filepath.Join(dir, formerDir, "cwd")); err == nil {
		t.Fatal("no error, though /proc/self cannot be synced")
	}
	if !isThere(coming) || isThere(n.KeysDir()) {
		t.Errorf("the new keys took their place before the old ones were kept: aside %t, in place %t", isThere(coming), isThere(n.KeysDir()))
	}
	if !isThere("keys/ledger.key") {
		t.Error("the old keys are gone")
	}

	must(os.Remove(filepath.Join(dir, formerDir)))
	must(n.moveFormer(coming, "."))
	if isThere(coming) || !isThere(n.KeysDir()) || !isThere("keys/ledger.key") {
		t.Error("another run does not come to the end")
	}
}
