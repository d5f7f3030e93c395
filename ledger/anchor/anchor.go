// Package anchor keeps the newest signed tree head of a log in a file of its own, outside the
// database of the log. A database that lost its tail, or was restored from an older copy, does not
// contain the anchored tree, so the ledger refuses that database.
//
// The file has two slots of 512 bytes. Writes alternate between them, so that one slot is whole
// after a crash at any moment. A slot has one line each for magic, origin, number of the batch,
// size and root, then the SHA-256 of these lines, then padding.
package anchor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/disk"
	"recoveryledger/merkle"
)

// ErrUnusable reports an anchor that is missing or unreadable.
var ErrUnusable = errors.New("ledger: no usable anchor")

// Anchor is the last tree head that is known to have been signed.
type Anchor struct {
	Seq  uint64 // number of the batch that the head follows
	Head merkle.Head
}

const (
	magic    = "recovery ledger anchor 1"
	slotSize = 512 // bytes
)

// Encode returns the slot of the anchor of a log.
func (a Anchor) Encode(origin string) []byte {
	text := fmt.Sprintf("%s\n%s\n%d\n%d\n%s\n", magic, origin, a.Seq, a.Head.Size, a.Head.Root)
	sum := sha256.Sum256([]byte(text))
	slot := make([]byte, slotSize)
	copy(slot, text+hex.EncodeToString(sum[:])+"\n")
	return slot
}

// Decode reads a slot of the log of that origin. ok is false for every other content.
func Decode(slot []byte, origin string) (a Anchor, ok bool) {
	lines := strings.SplitN(string(slot), "\n", 7)
	if len(lines) != 7 || lines[0] != magic || lines[1] != origin {
		return a, false
	}
	seq, seqErr := strconv.ParseUint(lines[2], 10, 64)
	size, sizeErr := strconv.ParseUint(lines[3], 10, 64)
	root, rootErr := merkle.ParseHash(lines[4])
	a = Anchor{seq, merkle.Head{Size: size, Root: root}}
	return a, errors.Join(seqErr, sizeErr, rootErr) == nil && bytes.Equal(a.Encode(origin), slot)
}

// Read returns the newer of the two slots of the file at path. The error is [ErrUnusable] if
// neither slot is an anchor of the log, or the error of reading the file.
func Read(fs vfs.FS, path, origin string) (newest Anchor, err error) {
	file, err := fs.Open(path)
	if err != nil {
		return newest, fmt.Errorf("ledger: anchor %s: %w", path, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, 2*slotSize))
	if err = errors.Join(err, file.Close()); err != nil {
		if disk.Absent(err) {
			return newest, fmt.Errorf("%w: %w: move the directory away and restore the anchor, or ask agents, witnesses and mirrors for the newest "+
				"tree head that they saw, and pass --accept-anchor", ErrUnusable, err)
		}
		return newest, fmt.Errorf("ledger: anchor %s: %w", path, err)
	}
	found := false
	for slot := 0; slot+slotSize <= len(content); slot += slotSize {
		if a, ok := Decode(content[slot:slot+slotSize], origin); ok && (!found || a.Seq > newest.Seq) {
			newest, found = a, true
		}
	}
	if !found {
		return newest, fmt.Errorf("%w: %s holds no anchor of %s: restore the anchor, or ask agents, witnesses and mirrors for the newest tree head "+
			"that they saw, and pass --accept-anchor", ErrUnusable, path, origin)
	}
	return newest, nil
}

// File writes anchors in a goroutine of its own, at most one batch behind the commits. [File.Write]
// hands an anchor over only when the previous anchor is synced.
type File struct {
	origin string
	fatal  func(error)
	file   vfs.File
	slot   int64
	work   chan Anchor
	done   chan struct{}
}

// Create makes a new file at path with the anchor a of the log, and opens the file for writing.
// fatal ends the process on a failed write; it must not return.
func Create(fs vfs.FS, path, origin string, a Anchor, fatal func(error)) (*File, error) {
	f := &File{origin: origin, fatal: fatal, work: make(chan Anchor), done: make(chan struct{})}
	var err error
	if f.file, err = create(fs, path, a.Encode(origin)); err != nil {
		return nil, fmt.Errorf("ledger: anchor %s: %w", path, err)
	}
	go f.run()
	return f, nil
}

// create creates the anchor file with the given content in both slots. The new file is
// whole before it replaces an older file.
func create(fs vfs.FS, path string, slot []byte) (file vfs.File, err error) {
	if file, err = fs.Create(path+".new", vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if _, err := file.WriteAt(append(slot, slot...), 0); err != nil {
		return file, err
	}
	if err := file.Sync(); err != nil {
		return file, err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return file, err
	}
	return file, disk.SyncDir(fs, fs.PathDir(path))
}

// Write takes the next anchor. It waits until the previous anchor is synced.
func (f *File) Write(a Anchor) { f.work <- a }

func (f *File) run() {
	defer close(f.done)
	for a := range f.work {
		slot := a.Encode(f.origin)
		_, err := f.file.WriteAt(slot, f.slot*slotSize)
		if err == nil { // the size stays: beside the data, only times have changed
			err = f.file.SyncData()
		}
		if err != nil {
			f.fatal(fmt.Errorf("ledger: write anchor: %w", err))
			return
		}
		f.slot = 1 - f.slot
	}
}

// Close returns when the last anchor is on disk.
func (f *File) Close() error {
	close(f.work)
	<-f.done
	return f.file.Close()
}
