//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncDir makes the names in a directory durable: files that were made, moved there or removed. It
// does not sync the content of the files.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func move(from, to string) error { return os.Rename(from, to) }

// moveNew does not replace an existing file. A rename would.
func moveNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
