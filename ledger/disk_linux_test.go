package ledger_test

import (
	"syscall"
	"testing"

	"recoveryledger/testdata/needs"
)

// smallDisk mounts a file system in memory, or skips the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		needs.Missing(t, "the right to mount", "run the test as root: "+err.Error(), "no small disk is filled")
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
	return dir
}
