package main_test

import (
	"fmt"
	"syscall"
	"testing"

	"recoveryledger/testdata/needs"
)

// mountSmall mounts a file system of size bytes in memory, or skips the test.
func mountSmall(t *testing.T, dir string, size int) (unmount func() error) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		needs.Missing(t, "the right to mount", "run the test as root: "+err.Error(), "no small disk is filled")
	}
	return func() error { return syscall.Unmount(dir, 0) }
}
