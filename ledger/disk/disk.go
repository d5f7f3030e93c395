// Package disk is what a log needs of a file system beside its storage engine: a guard
// that lets no failed write go unnoticed, a watch over the free space, and the sync of
// a directory. It works on the file systems of the engine, so that tests can take the
// power away, or fail an operation, below it.
//
// Package durable does the like for single files on the real disk alone.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Memory returns an empty disk in memory. What a ledger writes there ends with the process.
func Memory() vfs.FS { return vfs.NewMem() }

// SyncDir makes the names in a directory of fs durable: files that were made, moved
// there or removed.
func SyncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Exists reports whether fs has a file or a directory of that name.
func Exists(fs vfs.FS, name string) (bool, error) {
	_, err := fs.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReadFile returns the content of a file of fs.
func ReadFile(fs vfs.FS, name string) ([]byte, error) {
	file, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}

// Absent reports whether an error says that a file is not there. The file is missing, or a
// directory is in its place, or a file is in the place of its directory.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}
