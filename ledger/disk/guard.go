package disk

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Guard returns the file system fs as the storage engine is to see it. A write or sync
// that fails ends the process through fatal, which must not return, before the engine
// can try again, panic, or go on with pages that the kernel has dropped. Only a table
// that finds the disk full is tried again, slowly: its content is in the write-ahead
// log.
func Guard(fs vfs.FS, fatal func(error)) vfs.FS { return guard{fs, fatal} }

type guard struct {
	vfs.FS
	fatal func(error)
}

// noSpaceDelay keeps the engine, which tries again at once, from spinning.
const noSpaceDelay = 100 * time.Millisecond

// Create implements [vfs.FS]. A file must be durable before a marker refers to the file. The engine
// leaves that order to the file system.
func (fs guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(fs.PathBase(name), "marker.") {
		if err := SyncDir(fs, fs.PathDir(name)); err != nil {
			return nil, err
		}
	}
	file, err := fs.FS.Create(name, category)
	return fs.wrap(name, file, err)
}

// ReuseForWrite implements [vfs.FS].
func (fs guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := fs.FS.ReuseForWrite(oldname, newname, category)
	return fs.wrap(newname, file, err)
}

// OpenDir implements [vfs.FS].
func (fs guard) OpenDir(name string) (vfs.File, error) {
	file, err := fs.FS.OpenDir(name)
	return fs.wrap(name, file, err)
}

// Unwrap implements [vfs.FS].
func (fs guard) Unwrap() vfs.FS { return fs.FS }

// wrap returns the file with its writes and syncs watched. The engine cannot go
// on without the next write-ahead log.
func (fs guard) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		if strings.HasSuffix(name, ".log") {
			fs.stop("create", name, err)
		}
		return nil, err
	}
	return &guardedFile{file, fs, name}, nil
}

func (fs guard) stop(op, name string, err error) {
	if errors.Is(err, syscall.ENOSPC) && strings.HasSuffix(name, ".sst") {
		time.Sleep(noSpaceDelay)
		return
	}
	fs.fatal(fmt.Errorf("disk: %s %s: %w", op, name, err))
	panic("disk: fatal returned")
}

// guardedFile is a file that must not fail.
type guardedFile struct {
	vfs.File
	fs   guard
	name string
}

// Write implements [vfs.File].
func (f *guardedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check("write", err)
}

// WriteAt implements [vfs.File].
func (f *guardedFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.check("write", err)
}

// Sync implements [vfs.File].
func (f *guardedFile) Sync() error { return f.check("sync", f.File.Sync()) }

// SyncData implements [vfs.File].
func (f *guardedFile) SyncData() error { return f.check("sync", f.File.SyncData()) }

func (f *guardedFile) check(op string, err error) error {
	if err != nil {
		f.fs.stop(op, f.name, err)
	}
	return err
}
