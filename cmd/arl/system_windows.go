package main

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// The errors of the system that the exit codes and remedies know. Those of package
// syscall with the names of Unix are never what a call returns here.
const (
	errRefused   = windows.WSAECONNREFUSED // nobody listens there
	errAddress   = windows.WSAEADDRINUSE
	errFiles     = windows.ERROR_TOO_MANY_OPEN_FILES // of the process
	errAllFiles  = windows.WSAEMFILE
	errFull      = windows.ERROR_DISK_FULL
	errDevice    = windows.ERROR_IO_DEVICE
	errNoFolder  = windows.ERROR_DIRECTORY
	errFullOther = windows.ERROR_HANDLE_DISK_FULL
)

// lockFile locks an open file, or reports that another process has locked it.
func lockFile(f *os.File) (bool, error) {
	var place windows.Overlapped
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// openFiles has no limit here.
func openFiles() int { return math.MaxInt }
