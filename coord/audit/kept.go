package audit

import (
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"recoveryledger/coord"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// A kept fold lets the next audit of a log read only the new entries. The file is
//
//	magic · length of the header, 4 bytes · header, JSON · the follower's snapshot
//	SHA-256 of all of it
//
// The digest finds damage. It stops no attacker, because an attacker that can write the file can
// also replace the pinned root beside the file.

const foldMagic = "arl fold 1\n"

const (
	// foldHeaderMax bounds the header of a kept fold, in bytes.
	foldHeaderMax = verify.MaxNote + 1<<12
	// foldMax bounds the file, in bytes, if Place.Max is 0.
	foldMax = 4 << 30
)

// foldHeader names the log of a kept fold. The size and root of its head are in the
// note.
type foldHeader struct {
	Origin  string      `json:"origin"`
	Genesis merkle.Hash `json:"genesis"`
	Program string      `json:"program"` // program that wrote it: see programID
	Note    string      `json:"note"`    // signed head of the log that was folded
	At      int64       `json:"at"`      // when, by this machine's clock, Unix milliseconds
}

// Kept is the fold of a log that was checked against a signed head, or that was begun ([Place]).
type Kept struct {
	Follower *Follower
	Head     verify.SignedHead
	At       int64 // when it was kept, by this machine's clock, Unix milliseconds
}

// Place is the file that keeps the fold of a log.
type Place struct {
	Path string
	Root verify.Root // pinned root; the file counts under no other root
	Max  int64       // bytes of the file; 0: 4 GiB

	// Begun says that the fold is what an interrupted audit left: of fewer entries than the head
	// has. Nothing has compared its leaves with the head, so that the fold is good for one thing:
	// an audit goes on from it, and compares all leaves at its end.
	Begun bool
}

func (p Place) max() int64 { return cmp.Or(p.Max, foldMax) }

// Load returns the kept fold; nil if there is none. A kept fold counts under four conditions. Its
// digest is right. This very program wrote it under this pinned root. The ledger signed the head of
// its log. The leaves in it give that head, unless the fold was only begun. The error says why a
// file does not count. Then the log can be read from its first entry.
func (p Place) Load() (*Kept, error) {
	file, err := os.Open(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := p.read(file)
	_ = file.Close() // it was read only
	return kept, err
}

func (p Place) read(file *os.File) (*Kept, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	body := info.Size() - sha256.Size
	if !info.Mode().IsRegular() || body < 0 || info.Size() > p.max() {
		return nil, fmt.Errorf("it is not a file of %d to %d bytes", sha256.Size, p.max())
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
		return nil, errors.New("it is damaged: its SHA-256 does not match")
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, body), 1<<16)
	header, err := readFoldHeader(r)
	if err != nil {
		return nil, err
	}
	return p.open(header, r)
}

// readFoldHeader reads the header before the snapshot.
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

// open reads the snapshot, and compares it with the head that the ledger signed.
func (p Place) open(header *foldHeader, snapshot io.Reader) (*Kept, error) {
	program, err := programID()
	switch {
	case err != nil:
		return nil, err
	case header.Origin != p.Root.Origin || header.Genesis != p.Root.Genesis:
		return nil, fmt.Errorf("it belongs to the ledger %.140q with the genesis %s; pinned is %q with %s", header.Origin, header.Genesis, p.Root.Origin, p.Root.Genesis)
	case header.Program != program:
		return nil, errors.New("another version of arl wrote it")
	}
	head, err := p.Root.Head([]byte(header.Note))
	if err != nil {
		return nil, fmt.Errorf("its tree head: %w", err)
	}
	kept := &Kept{NewFollower(p.Root.Origin), verify.SignedHead{Head: head, Note: header.Note}, header.At}
	if err := kept.Follower.Restore(snapshot); err != nil {
		return nil, err
	}
	computed, err := HeadAt(kept.Follower.State(), kept.Follower.State().Size())
	if err == nil && computed != head && (!p.Begun || computed.Size >= head.Size) {
		err = fmt.Errorf("size %d has the root %s, its tree head of size %d has %s", computed.Size, computed.Root, head.Size, head.Root)
	}
	return kept, err
}

// HeadAt returns the head that the log of a state had when the log had size entries.
func HeadAt(s *coord.State, size uint64) (merkle.Head, error) {
	frontier, err := merkle.NewFrontier(size, s.Node)
	if err != nil {
		return merkle.Head{}, err
	}
	return frontier.Head()
}

// programID identifies this program, because another program may fold differently. It digests the
// build information. That does not tell all programs apart, so it also digests the size and the
// time of the program's file.
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

// Save keeps a fold in place of the fold before. A crash leaves one of the two whole, and at most
// one unfinished file. The next Save overwrites the unfinished file. While another process writes,
// Save does nothing.
func (p Place) Save(kept *Kept) error {
	if err := os.MkdirAll(filepath.Dir(p.Path), 0o700); err != nil {
		return err
	}
	lock := flock.New(p.Path+".lock", flock.SetPermissions(0o600))
	if locked, err := lock.TryLock(); !locked || err != nil {
		return err
	}
	pending := p.Path + ".pending"
	err := p.write(pending, kept)
	if err == nil {
		err = os.Rename(pending, p.Path)
	}
	if err != nil {
		_ = os.Remove(pending) // it takes up space for nothing
	}
	return cmp.Or(err, lock.Unlock())
}

// Remove removes the kept fold, and the remains of a process that was killed. The lock
// file stays, since another process may hold it.
func (p Place) Remove() error {
	for _, path := range []string{p.Path, p.Path + ".pending"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p Place) write(path string, kept *Kept) error {
	program, err := programID()
	if err != nil {
		return err
	}
	header, err := json.Marshal(foldHeader{p.Root.Origin, p.Root.Genesis, program, kept.Head.Note, kept.At})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := &foldWriter{to: file, sum: sha256.New(), left: p.max() - sha256.Size}
	_, err = w.Write(append(binary.BigEndian.AppendUint32([]byte(foldMagic), uint32(len(header))), header...))
	if err == nil {
		err = kept.Follower.Snapshot(w)
	}
	if err == nil {
		_, err = file.Write(w.sum.Sum(nil))
	}
	if err == nil {
		err = file.Sync()
	}
	return cmp.Or(err, file.Close())
}

// foldWriter digests the bytes that it writes, up to a limit.
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

// PrecededBy returns nil if the log had the head before it had the head of the fold. Else it
// returns a [*verify.ForkError].
func (k *Kept) PrecededBy(head verify.SignedHead) error {
	was, err := HeadAt(k.Follower.State(), head.Size)
	if err == nil && was != head.Head {
		fork := verify.BeganOtherwise(head, k.Head, k.Follower.State().Node)
		if fork == nil {
			fork = &verify.ForkError{First: head.Note, Second: k.Head.Note}
		}
		fork.Detail = fmt.Sprintf("the log of size %d, root %s, was folded before; that of size %d, root %s, is no part of it: its root was %s",
			k.Head.Size, k.Head.Root, head.Size, head.Root, was.Root)
		err = fork
	}
	return err
}
