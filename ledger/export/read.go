package export

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
)

// Dir is an export that is read: files that count for nothing until they are hashed
// into the signed tree head.
type Dir struct {
	// Origin names the log in the tree head.
	Origin string
	// Head is the tree head of the export.
	Head merkle.Head
	// Signed reports whether one of the keys given to [Open] has signed Head. If not,
	// neither Origin nor Head counts for anything.
	Signed bool
	// Note is the signed tree head, with the signatures of these keys alone.
	Note string

	dir string
}

const (
	maxCheckpoint = 1 << 20                                 // bytes of a signed tree head
	maxBundle     = merkle.TileWidth * (2 + merkle.MaxLeaf) // bytes of an entry bundle
	maxHashTile   = merkle.TileWidth * merkle.HashSize      // bytes of a hash tile
)

// Open reads the tree head of the export in dir. keys are the keys of the expected log. The error
// is [os.ErrNotExist] if there is no export, and [ErrDamaged] if its tree head cannot be read, or
// has a false signature of one of the keys.
func Open(dir string, keys ...note.Verifier) (*Dir, error) {
	path := filepath.Join(dir, Checkpoint)
	signed, err := readLimited(path, maxCheckpoint)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("export: %s holds no export, it has no checkpoint: pass a directory that arl log export wrote: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(signed, note.VerifierList(keys...))
	unverified, foreign := errors.AsType[*note.UnverifiedNoteError](err)
	if foreign {
		opened, err = unverified.Note, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrDamaged, path, err)
	}
	var checkpoint log.Checkpoint
	if _, err := checkpoint.Unmarshal([]byte(opened.Text)); err != nil || len(checkpoint.Hash) != merkle.HashSize {
		return nil, fmt.Errorf("%w: %s is no tree head: %v", ErrDamaged, path, err)
	}
	opened.UnverifiedSigs = nil // for example the ML-DSA-44 signature, which a stored head does not carry
	if signed, err = note.Sign(opened); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrDamaged, path, err)
	}
	head := merkle.Head{Size: checkpoint.Size, Root: merkle.Hash(checkpoint.Hash)}
	return &Dir{Origin: checkpoint.Origin, Head: head, Signed: !foreign, Note: string(signed), dir: dir}, nil
}

// Name returns the directory of the export.
func (x *Dir) Name() string { return x.dir }

// HeadAt returns the head over the first size entries. It follows from the tiles of
// the export, and is proven to be of the past of its head. The error is [ErrDamaged]
// if the tiles do not lead to the head.
func (x *Dir) HeadAt(size uint64) (merkle.Head, error) {
	if size == x.Head.Size {
		return x.Head, nil
	}
	frontier, err := merkle.NewFrontier(size, x.node)
	if err != nil {
		return merkle.Head{}, err
	}
	head, err := frontier.Head()
	if err != nil {
		return merkle.Head{}, err
	}
	path, err := merkle.ProveConsistency(size, x.Head.Size, x.node)
	if err != nil {
		return merkle.Head{}, err
	}
	if err := merkle.CheckConsistency(head, x.Head, path); err != nil {
		return merkle.Head{}, fmt.Errorf("%w: the hash tiles of %s do not lead from size %d to the signed root of size %d: some of them were changed",
			ErrDamaged, x.dir, size, x.Head.Size)
	}
	return head, nil
}

func (x *Dir) node(level uint, index uint64) (merkle.Hash, error) {
	t, height, i := merkle.Locate(level, index)
	t.Width = int((i + 1) << height)
	hashes, err := x.Hashes(t)
	if err != nil {
		return merkle.Hash{}, err
	}
	nodes, err := merkle.ParseTileNodes(hashes)
	if err != nil {
		return merkle.Hash{}, err
	}
	return *nodes.At(height, i), nil
}

// Hashes returns the first t.Width hashes of a hash tile. The error is [ErrDamaged] if
// its file is missing or too short.
func (x *Dir) Hashes(t merkle.Tile) ([]byte, error) {
	content, path, err := x.read(t, maxHashTile)
	if err != nil {
		return nil, err
	}
	if want := t.Width * merkle.HashSize; len(content) < want {
		return nil, fmt.Errorf("%w: %s has %d bytes, want %d", ErrDamaged, path, len(content), want)
	}
	return content[:t.Width*merkle.HashSize], nil
}

// Leaves returns the first t.Width leaves of an entry bundle. The error is [ErrDamaged]
// if its file is missing or too short.
func (x *Dir) Leaves(t merkle.Tile) ([][]byte, error) {
	content, path, err := x.read(t, maxBundle)
	if err != nil {
		return nil, err
	}
	leaves, _, err := cutLeaves(content, t.Width)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %v", ErrDamaged, path, err)
	}
	return leaves, nil
}

// cutLeaves cuts n leaves off an entry bundle.
func cutLeaves(bundle []byte, n int) (leaves [][]byte, rest []byte, err error) {
	rest = bundle
	for i := range n {
		var leaf []byte
		if leaf, rest, err = merkle.CutLeaf(rest); err != nil {
			return nil, nil, fmt.Errorf("ends within entry %d", i)
		}
		leaves = append(leaves, leaf)
	}
	return leaves, rest, nil
}

// Path returns the file of a tile as the head has it.
func (x *Dir) Path(t merkle.Tile) string {
	return filepath.Join(x.dir, filepath.FromSlash(x.whole(t).Path()))
}

// whole returns the tile that holds t in the tree of the head: full, or as wide as
// the head has it.
func (x *Dir) whole(t merkle.Tile) merkle.Tile {
	t.Width = merkle.TileWidth
	if span := merkle.TileSpan(t.Level, x.Head.Size); t.Index == span/merkle.TileWidth {
		t.Width = int(span % merkle.TileWidth)
	}
	return t
}

// read reads the file of a tile. In a copy that was made while the export grew, the
// full tile may have taken the place of a partial one.
func (x *Dir) read(t merkle.Tile, limit int64) (content []byte, path string, err error) {
	path = x.Path(t)
	content, err = readLimited(path, limit)
	if t = x.whole(t); errors.Is(err, os.ErrNotExist) && t.Width < merkle.TileWidth {
		t.Width = merkle.TileWidth
		if full, fullErr := readLimited(filepath.Join(x.dir, filepath.FromSlash(t.Path())), limit); fullErr == nil {
			content, err = full, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, path, fmt.Errorf("%w: %s is missing: the export is not whole", ErrDamaged, path)
	}
	return content, path, err
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrDamaged, path, limit)
	}
	return content, nil
}
