package ledger

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

// anchor is the last tree head that is known to have been signed. The ledger keeps it outside
// the database. A database that lost its tail, or was restored from an older copy, does not
// contain the anchored tree, so the ledger refuses that database.
type anchor struct {
	seq  uint64
	head merkle.Head
}

const (
	anchorMagic = "recovery ledger anchor 1"
	anchorSlot  = 512 // bytes; writes alternate between two slots, so one slot is always whole
)

// encode returns a slot. A slot has one line each for magic, origin, seq, size and root, then
// the SHA-256 of these lines, then padding.
func (a anchor) encode(origin string) []byte {
	text := fmt.Sprintf("%s\n%s\n%d\n%d\n%s\n", anchorMagic, origin, a.seq, a.head.Size, a.head.Root)
	sum := sha256.Sum256([]byte(text))
	slot := make([]byte, anchorSlot)
	copy(slot, text+hex.EncodeToString(sum[:])+"\n")
	return slot
}

// decodeAnchor reads a slot.
func decodeAnchor(slot []byte, origin string) (a anchor, ok bool) {
	lines := strings.SplitN(string(slot), "\n", 7)
	if len(lines) != 7 || lines[0] != anchorMagic || lines[1] != origin {
		return a, false
	}
	seq, seqErr := strconv.ParseUint(lines[2], 10, 64)
	size, sizeErr := strconv.ParseUint(lines[3], 10, 64)
	root, rootErr := merkle.ParseHash(lines[4])
	a = anchor{seq, merkle.Head{Size: size, Root: root}}
	return a, errors.Join(seqErr, sizeErr, rootErr) == nil && bytes.Equal(a.encode(origin), slot)
}

// anchorFile writes anchors in a goroutine of its own, at most one batch behind the commits.
// write hands a batch over only when the previous batch is synced.
type anchorFile struct {
	origin string
	fatal  func(error)
	file   vfs.File
	slot   int64
	work   chan anchor
	done   chan struct{}
}

// loadAnchor returns the anchor of the database. last is the last batch of the database. The
// anchor is that batch if the log is new, or where [Config.AcceptAnchor] says so.
func loadAnchor(cfg *Config, last *Batch) (anchor, error) {
	there, err := disk.Exists(cfg.FS, cfg.Anchor)
	if err != nil {
		return anchor{}, fmt.Errorf("ledger: anchor %s: %w", cfg.Anchor, err)
	}
	if !there && last.Size > 0 {
		err = fmt.Errorf("%w: %s is missing, but the log has size %d: restore the anchor, or ask agents, witnesses and mirrors for the newest tree head that they saw, and pass --accept-anchor", ErrAnchor, cfg.Anchor, last.Size)
	}
	found := anchor{last.Seq, last.Head()}
	if there {
		found, err = readAnchor(cfg.FS, cfg.Anchor, cfg.Origin)
	}
	if errors.Is(err, ErrAnchor) && !absent(err) && cfg.AcceptAnchor {
		return anchor{last.Seq, last.Head()}, nil
	}
	return found, err
}

// openAnchor creates a new anchor file from the last batch and opens the file for writing.
func openAnchor(cfg *Config, last *Batch) (*anchorFile, error) {
	f := &anchorFile{origin: cfg.Origin, fatal: cfg.Fatal, work: make(chan anchor), done: make(chan struct{})}
	var err error
	if f.file, err = createAnchor(cfg.FS, cfg.Anchor, anchor{last.Seq, last.Head()}.encode(cfg.Origin)); err != nil {
		return nil, fmt.Errorf("ledger: anchor %s: %w", cfg.Anchor, err)
	}
	go f.run()
	return f, nil
}

// readAnchor returns the newer of the two slots.
func readAnchor(fs vfs.FS, path, origin string) (newest anchor, err error) {
	file, err := fs.Open(path)
	if err != nil {
		return newest, fmt.Errorf("ledger: anchor %s: %w", path, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, 2*anchorSlot))
	if err = errors.Join(err, file.Close()); err != nil {
		if absent(err) {
			return newest, fmt.Errorf("%w: %w: move the directory away and restore the anchor, or ask agents, witnesses and mirrors for the newest tree head that they saw, and pass --accept-anchor", ErrAnchor, err)
		}
		return newest, fmt.Errorf("ledger: anchor %s: %w", path, err)
	}
	found := false
	for slot := 0; slot+anchorSlot <= len(content); slot += anchorSlot {
		if a, ok := decodeAnchor(content[slot:slot+anchorSlot], origin); ok && (!found || a.seq > newest.seq) {
			newest, found = a, true
		}
	}
	if !found {
		return newest, fmt.Errorf("%w: %s holds no anchor of %s: restore the anchor, or ask agents, witnesses and mirrors for the newest tree head that they saw, and pass --accept-anchor", ErrAnchor, path, origin)
	}
	return newest, nil
}

// Anchored returns the newest tree head that the anchor file at path holds for the log of that
// origin. The error is [ErrAnchor], or the error of reading the file.
func Anchored(path, origin string) (merkle.Head, error) {
	a, err := readAnchor(vfs.Default, path, origin)
	return a.head, err
}

// checkAnchor refuses a database that does not contain the anchored tree.
func (l *Log) checkAnchor(last *Batch) error {
	a, err := loadAnchor(l.cfg, last)
	if err != nil {
		return err
	}
	if err := checkRolledBack(a, last); err != nil {
		return err
	}
	frontier, err := merkle.NewFrontier(a.head.Size, l.nodes(l.view.Load()))
	if err != nil {
		return fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if stored, err := frontier.Head(); err != nil || stored != a.head {
		return otherHistory(a, stored)
	}
	return nil
}

func checkRolledBack(a anchor, last *Batch) error {
	if last.Size < a.head.Size || last.Seq < a.seq {
		return fmt.Errorf("%w: it has size %d, but a tree head of %d was signed: %s",
			ErrRolledBack, last.Size, a.head.Size, LostRemedy)
	}
	return nil
}

func otherHistory(a anchor, found merkle.Head) error {
	return fmt.Errorf("%w: the root of size %d is %s, but the signed root is %s: this is another history",
		ErrRolledBack, a.head.Size, found.Root, a.head.Root)
}

// createAnchor creates the anchor file with the given content in both slots. The new file is
// whole before it replaces an older file.
func createAnchor(fs vfs.FS, path string, slot []byte) (file vfs.File, err error) {
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

// write takes the head of a committed batch. It waits until the previous head is synced.
func (f *anchorFile) write(b *Batch) { f.work <- anchor{b.Seq, b.Head()} }

func (f *anchorFile) run() {
	defer close(f.done)
	for a := range f.work {
		slot := a.encode(f.origin)
		_, err := f.file.WriteAt(slot, f.slot*anchorSlot)
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

// close returns when the last anchor is on disk.
func (f *anchorFile) close() error {
	close(f.work)
	<-f.done
	return f.file.Close()
}
