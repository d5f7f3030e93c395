package main_test

import (
	"fmt"
	"syscall"
	"testing"
)

// mountSmall mounts a file system of size bytes in memory, or skips the test.
func mountSmall(t *testing.T, dir string, size int) (unmount func() error) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a small file system needs the right to mount one: %v", err)
	}
	return func() error { return syscall.Unmount(dir, 0) }
}
