package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
)

// exported is an export that is read: files that count for nothing until they are
// hashed into the signed tree head.
type exported struct {
	dir  string
	head merkle.Head
	note string // the head, with the signatures of the keys that are here
}

const (
	maxLeaf       = 1<<16 - 1                          // bytes of a leaf: its length stands in two bytes
	maxCheckpoint = 1 << 20                            // bytes of a signed tree head
	maxBundle     = merkle.TileWidth * (2 + maxLeaf)   // bytes of an entry bundle
	maxHashTile   = merkle.TileWidth * merkle.HashSize // bytes of a hash tile
)

// openExported reads the tree head of an export: of this log, signed by a key that
// is here.
func openExported(dir string, cfg *Config) (*exported, error) {
	x := &exported{dir: dir}
	path := filepath.Join(dir, "checkpoint")
	signed, err := readLimited(path, maxCheckpoint)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("ledger: import: %s holds no export, it has no checkpoint: pass a directory that arl log export wrote: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, wrapImport(err)
	}
	opened, err := note.Open(signed, note.VerifierList(verifiers(cfg.Keys)...))
	unverified, foreign := errors.AsType[*note.UnverifiedNoteError](err)
	if foreign {
		opened, err = unverified.Note, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, path, err)
	}
	if origin, _, _ := strings.Cut(opened.Text, "\n"); origin != cfg.Origin {
		return nil, fmt.Errorf("%w: %s is an export of %.140q, the keys are those of %s: pass an export of %[4]s, or restore the keys of the other ledger",
			ErrOrigin, dir, origin, cfg.Origin)
	}
	if foreign {
		return nil, fmt.Errorf("%w: %s is signed by none of the %d keys that are here: restore the key that has signed it, or pass the export of this ledger",
			ErrKeys, path, len(cfg.Keys))
	}
	opened.UnverifiedSigs = nil // such as the ML-DSA-44 one, which a stored head does not carry
	signed, err = note.Sign(opened)
	if err != nil {
		return nil, wrapImport(err)
	}
	var checkpoint log.Checkpoint
	if _, err := checkpoint.Unmarshal([]byte(opened.Text)); err != nil || len(checkpoint.Hash) != merkle.HashSize {
		return nil, fmt.Errorf("%w: %s is no tree head: %v", ErrCorrupt, path, err)
	}
	x.head, x.note = merkle.Head{Size: checkpoint.Size, Root: merkle.Hash(checkpoint.Hash)}, string(signed)
	if x.head.Size == 0 {
		return nil, fmt.Errorf("%w: %s is the export of a log without entries", ErrNotFound, dir)
	}
	return x, nil
}

// checkKnown holds the export to what is known to have been signed, before anything
// is made.
func (x *exported) checkKnown(cfg *Config, i *ImportConfig) error {
	known := append(append([]merkle.Head(nil), i.Newest...), i.Seen...)
	there, err := exists(cfg.FS, cfg.Anchor)
	if err != nil {
		return fmt.Errorf("ledger: anchor %s: %w", cfg.Anchor, err)
	}
	if there {
		a, err := readAnchor(cfg.FS, cfg.Anchor, cfg.Origin)
		if err == nil {
			known = append(known, a.head)
		} else if !errors.Is(err, ErrAnchor) || len(i.Newest) == 0 {
			return err
		}
	} else if len(i.Newest) == 0 {
		return fmt.Errorf("%w: %s is missing, so that nothing says whether a newer tree head than that of the export, size %d, was signed: "+
			"restore the anchor, or find the newest tree head with those who saw it (agents, witnesses, mirrors, ARL_HOME/heads) and pass it as --newest",
			ErrAnchor, cfg.Anchor, x.head.Size)
	}
	for _, head := range known {
		if err := x.covers(head); err != nil {
			return err
		}
	}
	return nil
}

// covers holds the export to a head that was signed.
func (x *exported) covers(head merkle.Head) error {
	if head.Size > x.head.Size {
		return fmt.Errorf("%w: the export has %d entries, but a tree head of %d was signed: import a newer export; "+
			"if entries are lost for good, continue under a new origin (arl ledger new-origin)", ErrRolledBack, x.head.Size, head.Size)
	}
	found, err := x.headAt(head.Size)
	if err != nil {
		return err
	}
	if found != head {
		return otherHistory(anchor{head: head}, found)
	}
	return nil
}

// headAt returns the head over the first size entries. It follows from the tiles of
// the export, and is proven to be of the past of its head.
func (x *exported) headAt(size uint64) (merkle.Head, error) {
	if size == x.head.Size {
		return x.head, nil
	}
	frontier, err := merkle.NewFrontier(size, x.node)
	if err != nil {
		return merkle.Head{}, err
	}
	head, err := frontier.Head()
	if err != nil {
		return merkle.Head{}, err
	}
	path, err := merkle.ProveConsistency(size, x.head.Size, x.node)
	if err != nil {
		return merkle.Head{}, err
	}
	if err := merkle.CheckConsistency(head, x.head, path); err != nil {
		return merkle.Head{}, fmt.Errorf("%w: the hash tiles of %s do not lead from %d entries to the signed root of %d: some of them were changed",
			ErrCorrupt, x.dir, size, x.head.Size)
	}
	return head, nil
}

func (x *exported) node(level uint, index uint64) (merkle.Hash, error) {
	id, height, i := locate(level, index)
	hashes, err := x.hashes(merkle.Tile{Level: id.level, Index: id.index, Width: int((i + 1) << height)})
	if err != nil {
		return merkle.Hash{}, err
	}
	t, err := parseTile(hashes)
	if err != nil {
		return merkle.Hash{}, err
	}
	return *t.at(height, i), nil
}

// hashes returns the first t.Width hashes of a hash tile.
func (x *exported) hashes(t merkle.Tile) ([]byte, error) {
	content, path, err := x.read(t, maxHashTile)
	if err != nil {
		return nil, err
	}
	if want := t.Width * merkle.HashSize; len(content) < want {
		return nil, fmt.Errorf("%w: %s has %d bytes, want %d", ErrCorrupt, path, len(content), want)
	}
	return content[:t.Width*merkle.HashSize], nil
}

// leaves returns the first t.Width leaves of an entry bundle.
func (x *exported) leaves(t merkle.Tile) ([][]byte, error) {
	content, path, err := x.read(t, maxBundle)
	if err != nil {
		return nil, err
	}
	leaves, _, err := cutLeaves(content, t.Width)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %v", ErrCorrupt, path, err)
	}
	return leaves, nil
}

// cutLeaves cuts n leaves off an entry bundle: the length of each in two bytes,
// then the leaf.
func cutLeaves(bundle []byte, n int) (leaves [][]byte, rest []byte, err error) {
	rest = bundle
	for i := range n {
		if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
			return nil, nil, fmt.Errorf("ends within entry %d", i)
		}
		leaf := rest[2:][:binary.BigEndian.Uint16(rest)]
		leaves, rest = append(leaves, leaf), rest[2+len(leaf):]
	}
	return leaves, rest, nil
}

// path is the file of a tile as the head has it.
func (x *exported) path(t merkle.Tile) string {
	return filepath.Join(x.dir, filepath.FromSlash(x.whole(t).Path()))
}

// whole returns the tile that holds t in the tree of the head: full, or as wide as
// the head has it.
func (x *exported) whole(t merkle.Tile) merkle.Tile {
	t.Width = merkle.TileWidth
	if span := merkle.TileSpan(t.Level, x.head.Size); t.Index == span/merkle.TileWidth {
		t.Width = int(span % merkle.TileWidth)
	}
	return t
}

// read reads the file of a tile. In a copy that was made while the export grew, the
// full tile may have taken the place of a partial one.
func (x *exported) read(t merkle.Tile, limit int64) (content []byte, path string, err error) {
	path = x.path(t)
	content, err = readLimited(path, limit)
	if t = x.whole(t); errors.Is(err, os.ErrNotExist) && t.Width < merkle.TileWidth {
		t.Width = merkle.TileWidth
		if full, fullErr := readLimited(filepath.Join(x.dir, filepath.FromSlash(t.Path())), limit); fullErr == nil {
			content, err = full, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, path, fmt.Errorf("%w: %s is missing: the export is not whole", ErrCorrupt, path)
	}
	return content, path, wrapImport(err)
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrCorrupt, path, limit)
	}
	return content, nil
}
