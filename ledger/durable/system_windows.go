package durable

import (
	"os"

	"golang.org/x/sys/windows"
)

// SyncDir does nothing: Windows has no sync of a directory. [Write], [Create] and
// [Rename] do not need one here.
func SyncDir(string) error { return nil }

func move(from, to string) error { return moveFile(from, to, windows.MOVEFILE_REPLACE_EXISTING) }

// moveNew does not replace an existing file.
func moveNew(from, to string) error { return moveFile(from, to, 0) }

func moveFile(from, to string, flags uint32) error {
	source, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	target, err := windows.UTF16PtrFromString(to)
	if err == nil {
		err = windows.MoveFileEx(source, target, flags|windows.MOVEFILE_WRITE_THROUGH)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
