package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks an open file, or reports that another process has locked it.
func Lock(f *os.File) (bool, error) {
	var place windows.Overlapped
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
