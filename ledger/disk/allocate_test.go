//go:build unix

package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAllocate: what was allocated is as long as asked, all zeros, and has its
// blocks of the disk, by the system's own call and by writing alike.
func TestAllocate(t *testing.T) {
	const size = 8<<20 + 1
	for name, take := range map[string]func(*os.File, int64) error{"allocate": allocate, "write": writeZeros} {
		path := filepath.Join(t.TempDir(), name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := take(file, size); err != nil {
			t.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) != size || bytes.Count(content, []byte{0}) != size {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken < size {
			t.Errorf("%s: %d bytes of the disk, want %d", name, taken, size)
		}
	}
}
