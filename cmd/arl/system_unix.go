//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles returns the number of files that this process may have open.
func openFiles() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt
	}
	return int(min(files.Cur, math.MaxInt))
}
