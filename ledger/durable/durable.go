// Package durable writes, renames and removes files so that a crash of the machine
// leaves the state before or the state after, and so that the state after is on stable
// storage when a function has returned.
//
// A file is written under another name beside its place, synced, and moved to its
// place; then the directory is synced. The other name begins with a dot: a crash may
// leave such a file behind.
//
// Windows has no sync of a directory. There a move asks the system to return only
// when the move is on the disk, and the removal of a file may be undone by a crash of
// the machine.
//
//	err := durable.Write("root.json", content, 0o644)
package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes the file at path, or replaces the file that is there. Nobody ever reads
// half of the content. A new file gets the mode, less the umask of the process; a file
// that is replaced hands its permissions on. The error names path.
func Write(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, (*File).Commit)
}

// Create is Write for a new file. The error is [fs.ErrExist] if a file is at path, which Create
// does not change.
func Create(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, (*File).commitNew)
}

func write(path string, content []byte, mode fs.FileMode, commit func(*File) error) error {
	f, err := Begin("", path, mode)
	if err != nil {
		return err
	}
	defer f.Discard() //nolint:errcheck // after a failure only
	if _, err := f.Write(content); err != nil {
		return err
	}
	return commit(f)
}

// File is a file that is being written and has not got its name yet.
type File struct {
	file *os.File
	path string // its place
	over bool   // in its place, or removed
}

// Begin begins a file with the place path. The file is written in dir, which lies on the same file
// system; empty: in the directory of path. The mode is that of [Write].
func Begin(dir, path string, mode fs.FileMode) (*File, error) {
	there, err := os.Lstat(path)
	switch {
	case err == nil && there.Mode().IsRegular():
		mode = there.Mode().Perm()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, named(path, err)
	}
	if dir == "" {
		dir = filepath.Dir(path)
	}
	const randomLength = 13 // of the 26 letters, enough that two never meet
	name := filepath.Join(dir, "."+filepath.Base(path)+"."+rand.Text()[:randomLength])
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, named(path, err)
	}
	f := &File{file: file, path: path}
	if there != nil && there.Mode().IsRegular() {
		if err := file.Chmod(mode); err != nil { // what the umask took away
			return nil, errors.Join(named(path, err), f.Discard())
		}
	}
	return f, nil
}

// Write implements [io.Writer].
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	return n, named(f.path, err)
}

// Commit syncs the file, moves it to its place and syncs the directory there.
func (f *File) Commit() error {
	if err := f.Place(); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// Place is Commit without the sync of the directory. A caller that places many files syncs their
// directories once, with [SyncDir].
func (f *File) Place() error { return f.place(move) }

func (f *File) commitNew() error {
	if err := f.place(moveNew); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

func (f *File) place(move func(from, to string) error) error {
	if err := f.file.Sync(); err != nil {
		return named(f.path, err)
	}
	if err := f.file.Close(); err != nil {
		return named(f.path, err)
	}
	if err := move(f.file.Name(), f.path); err != nil {
		return named(f.path, err)
	}
	f.over = true
	return nil
}

// Discard removes a file that has not got its name. After Commit or Place it does
// nothing.
func (f *File) Discard() error {
	if f.over {
		return nil
	}
	f.over = true
	_ = f.file.Close() // its content does not matter any more
	return named(f.path, os.Remove(f.file.Name()))
}

// Rename moves a file or a directory, and replaces a file at to. The caller syncs a directory
// before it moves the directory. A crash may leave the entry in both directories, and never in
// none.
func Rename(from, to string) error {
	if err := move(from, to); err != nil {
		return named(from, err)
	}
	if err := SyncDir(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return SyncDir(filepath.Dir(from))
}

// Remove removes a file or an empty directory. The error is [fs.ErrNotExist] if there
// is none.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// named is an error about path, whatever name the file had while it was written.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: link.Op, Path: path, Err: link.Err}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	return &fs.PathError{Op: "write", Path: path, Err: err}
}
