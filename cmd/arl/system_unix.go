//go:build unix

package main

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// The errors of the system that the exit codes and remedies know.
const (
	errRefused   = syscall.ECONNREFUSED // nobody listens there
	errAddress   = syscall.EADDRINUSE
	errFiles     = syscall.EMFILE // of the process
	errAllFiles  = syscall.ENFILE // of the machine
	errFull      = syscall.ENOSPC
	errDevice    = syscall.EIO
	errNoFolder  = syscall.ENOTDIR
	errFullOther = syscall.EDQUOT
)

// lockFile locks an open file, or reports that another process has locked it. The
// lock ends when all that has inherited the file has closed it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// openFiles is how many files this process may have open.
func openFiles() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt
	}
	return int(min(files.Cur, math.MaxInt))
}
