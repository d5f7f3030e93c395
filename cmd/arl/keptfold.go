package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"recoveryledger/coord"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Kept is, beside the tree head that was accepted last, the fold of each log
// that was verified here, so that the next command reads what is new and no
// more. The file in ARL_HOME/folds is
//
//	magic · length of the header, 4 bytes · header, JSON · the follower's snapshot
//	SHA-256 of all of it
//
// The digest is there for damage, not for an attacker: who may write to
// ARL_HOME may replace the pinned root, the keys and this program's
// configuration as well, and a secret that lies there too would stop nobody.
// What is kept counts only if the digest is right, if this very program wrote
// it under this pinned root, if the ledger signed the head of the log that it
// follows from, and if the leaves in it give that head. Else the log is read
// from its first entry: what is kept can always be derived again.

const foldMagic = "arl fold 1\n"

const (
	// foldHeaderMax bounds the header of a kept fold, in bytes.
	foldHeaderMax = verify.MaxNote + 1<<12
	// foldMax bounds the file, in bytes; a larger fold is not kept.
	foldMax = 4 << 30
	// foldGrowth is by which part of itself a log must have grown for its fold to
	// be written again: entries are cheaper to fold again than all of it to write.
	foldGrowth = 256
)

// foldHeader says what a kept fold is of. The head's size and root are in its
// note.
type foldHeader struct {
	Origin  string      `json:"origin"`
	Genesis merkle.Hash `json:"genesis"`
	Program string      `json:"program"` // that wrote it: see programID
	Note    string      `json:"note"`    // signed head of the log that was folded
	At      int64       `json:"at"`      // when, by this machine's clock, Unix milliseconds
}

// keptFold is a fold that was kept.
type keptFold struct {
	follower *coord.Follower
	head     verify.SignedHead
	at       int64
}

// keptIn is where the fold of a log is kept.
type keptIn struct {
	path string
	root verify.Root
	max  int64 // bytes
}

func (a *app) keptIn(root verify.Root) (keptIn, error) {
	home, err := a.homeDir()
	return keptIn{filepath.Join(home, "folds", profileName(root.Origin)+".fold"), root, foldMax}, err
}

// load returns the fold that is kept; nil if there is none. An error says why
// what is there does not count.
func (k keptIn) load() (*keptFold, error) {
	file, err := os.Open(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := k.read(file)
	_ = file.Close() // it was read only
	return kept, err
}

func (k keptIn) read(file *os.File) (*keptFold, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	body := info.Size() - sha256.Size
	if !info.Mode().IsRegular() || body < 0 || info.Size() > k.max {
		return nil, fmt.Errorf("it is no file of %d to %d bytes", sha256.Size, k.max)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, body)); err != nil {
		return nil, err
	}
	var digest [sha256.Size]byte
	if _, err := file.ReadAt(digest[:], body); err != nil {
		return nil, err
	}
	if !bytes.Equal(sum.Sum(nil), digest[:]) {
		return nil, errors.New("it is damaged: its SHA-256 is another")
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, body), 1<<16)
	header, err := readFoldHeader(r)
	if err != nil {
		return nil, err
	}
	return k.open(header, r)
}

// readFoldHeader reads what stands before the snapshot.
func readFoldHeader(r *bufio.Reader) (*foldHeader, error) {
	var start [len(foldMagic) + 4]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:len(foldMagic)]) != foldMagic {
		return nil, fmt.Errorf("it does not begin with %q", foldMagic)
	}
	length := binary.BigEndian.Uint32(start[len(foldMagic):])
	if length > foldHeaderMax {
		return nil, fmt.Errorf("its header has %d bytes, the limit is %d", length, foldHeaderMax)
	}
	content := make([]byte, length)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	header := new(foldHeader)
	if err := json.Unmarshal(content, header, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	return header, nil
}

// open reads the snapshot, and holds it to the head that the ledger signed.
func (k keptIn) open(header *foldHeader, snapshot io.Reader) (*keptFold, error) {
	program, err := programID()
	switch {
	case err != nil:
		return nil, err
	case header.Origin != k.root.Origin || header.Genesis != k.root.Genesis:
		return nil, fmt.Errorf("it is of %.140q with the genesis %s, pinned is %q with %s", header.Origin, header.Genesis, k.root.Origin, k.root.Genesis)
	case header.Program != program:
		return nil, errors.New("another version of arl wrote it")
	}
	head, err := k.root.Head([]byte(header.Note))
	if err != nil {
		return nil, fmt.Errorf("its tree head: %w", err)
	}
	kept := &keptFold{coord.NewFollower(k.root.Origin), verify.SignedHead{Head: head, Note: header.Note}, header.At}
	if err := kept.follower.Restore(snapshot); err != nil {
		return nil, err
	}
	computed, err := treeHead(kept.follower.State(), kept.follower.State().Size())
	if err == nil && computed != head {
		err = fmt.Errorf("its %d entries have the root %s, its tree head of size %d has %s", computed.Size, computed.Root, head.Size, head.Root)
	}
	return kept, err
}

// treeHead returns the head of the log of a state when it had so many entries.
func treeHead(s *coord.State, size uint64) (merkle.Head, error) {
	frontier, err := merkle.NewFrontier(size, s.Node)
	if err != nil {
		return merkle.Head{}, err
	}
	return frontier.Head()
}

// programID tells programs apart that may fold alike or not: how this one was
// built, and, since that does not always say it, size and time of its file.
func programID() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	file, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.String()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d\n", built, file.Size(), file.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:]), nil
}

// save keeps the fold of the log under a head, in the place of what was kept. A
// crash leaves one or the other whole, and at most one file that is not
// finished, which the next one overwrites. While another command writes, this
// one leaves it at that.
func (k keptIn) save(kept *keptFold) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	lock := flock.New(k.path+".lock", flock.SetPermissions(0o600))
	if locked, err := lock.TryLock(); !locked || err != nil {
		return err
	}
	pending := k.path + ".pending"
	err := k.write(pending, kept)
	if err == nil {
		err = os.Rename(pending, k.path)
	}
	if err != nil {
		_ = os.Remove(pending) // it takes up space for nothing
	}
	return cmp.Or(err, lock.Unlock())
}

// remove removes what is kept, and what a command that was killed left of it. The
// lock file stays, since another command may hold it.
func (k keptIn) remove() error {
	for _, path := range []string{k.path, k.path + ".pending"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (k keptIn) write(path string, kept *keptFold) error {
	program, err := programID()
	if err != nil {
		return err
	}
	header, err := json.Marshal(foldHeader{k.root.Origin, k.root.Genesis, program, kept.head.Note, kept.at})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := &foldWriter{to: file, sum: sha256.New(), left: k.max - sha256.Size}
	_, err = w.Write(append(binary.BigEndian.AppendUint32([]byte(foldMagic), uint32(len(header))), header...))
	if err == nil {
		err = kept.follower.Snapshot(w)
	}
	if err == nil {
		_, err = file.Write(w.sum.Sum(nil))
	}
	if err == nil {
		err = file.Sync()
	}
	return cmp.Or(err, file.Close())
}

// foldWriter digests what it writes, up to a limit.
type foldWriter struct {
	to   io.Writer
	sum  hash.Hash
	left int64
}

// Write implements [io.Writer].
func (w *foldWriter) Write(b []byte) (int, error) {
	if w.left -= int64(len(b)); w.left < 0 {
		return 0, errors.New("it would be larger than a kept fold may be")
	}
	_, _ = w.sum.Write(b) // a hash has no errors
	return w.to.Write(b)
}

// resume begins a fold with what is kept, if the log under the head continues
// it. A log that contradicts what is kept is a fork.
func (a *app) resume(ctx context.Context, l *openLog, f *folded) error {
	place, err := a.keptIn(l.root)
	if err != nil {
		return err
	}
	kept, err := place.load()
	if err == nil && kept != nil && kept.head.Size < f.head.Size {
		err = l.consistent(ctx, kept.head, f.head)
		if _, proven := errors.AsType[*verify.StepError](err); err != nil && !proven {
			return err
		}
	}
	if err != nil {
		a.warn("the fold in %s is not used, and the log is read from its first entry: %v", place.path, err)
		return nil
	}
	if kept == nil {
		return nil
	}
	if kept.head.Size >= f.head.Size {
		err = kept.precededBy(f.head)
	}
	if f.passing = kept.head.Size > f.head.Size; !f.passing {
		f.before, f.follower = kept, kept.follower
	}
	return err
}

// precededBy returns nil if the log had the head before it had that of the fold.
func (k *keptFold) precededBy(head verify.SignedHead) error {
	was, err := treeHead(k.follower.State(), head.Size)
	if err == nil && was != head.Head {
		err = &verify.ForkError{First: k.head.Note, Second: head.Note,
			Detail: fmt.Sprintf("the log of %d entries, root %s, was folded before; that of %d, root %s, is no part of it: its root was %s",
				k.head.Size, k.head.Root, head.Size, head.Root, was.Root)}
	}
	return err
}

// keep keeps a fold that was verified, if it is by enough more than what is
// kept. That it cannot be kept costs time, no answer.
func (a *app) keep(l *openLog, f *folded) {
	if f.passing || f.Size == 0 || f.before != nil && f.Size-f.before.head.Size <= f.before.head.Size/foldGrowth {
		return
	}
	place, err := a.keptIn(l.root)
	if err == nil {
		err = place.save(&keptFold{f.follower, f.head, time.Now().UnixMilli()})
	}
	if err != nil {
		a.warn("the fold is not kept, so that the next command reads the log again: %v", err)
	}
}
