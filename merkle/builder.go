package merkle

import (
	"fmt"
	"iter"
)

// TileBuilder computes the hash tiles of a growing tree from its leaves. It holds
// the unfinished tiles alone. After an error it is of no more use.
type TileBuilder struct {
	frontier *Frontier
	edge     [][]byte // the hashes of the unfinished tile, by tile level
	full     func(t Tile, hashes []byte) error
}

// NewTileBuilder starts behind the first size leaves. It reads their unfinished tiles
// through read, and trusts them: only a head that is known, compared with
// [TileBuilder.Head], shows that they are right. A tile of another width than asked
// for is [ErrMalformed]. full takes every tile, with its hashes, when it is full.
func NewTileBuilder(size uint64, read func(Tile) ([]byte, error), full func(t Tile, hashes []byte) error) (*TileBuilder, error) {
	b := &TileBuilder{full: full}
	for level := uint(0); TileSpan(level, size) > 0; level++ {
		b.edge = append(b.edge, nil)
		t := Tile{Level: level, Index: FullTiles(level, size), Width: int(TileSpan(level, size) % TileWidth)}
		if t.Width == 0 {
			continue
		}
		hashes, err := read(t)
		if err != nil {
			return nil, err
		}
		if len(hashes) != t.Width*HashSize {
			return nil, fmt.Errorf("%w: %s has %d bytes, want %d hashes", ErrMalformed, t.Path(), len(hashes), t.Width)
		}
		b.edge[level] = append(b.edge[level], hashes...)
	}
	var err error
	b.frontier, err = NewFrontier(size, b.node)
	return b, err
}

// node reads a node of the unfinished tiles.
func (b *TileBuilder) node(level uint, index uint64) (Hash, error) {
	t, height, i := Locate(level, index)
	nodes, err := ParseTileNodes(b.edge[t.Level])
	if err != nil {
		return Hash{}, err
	}
	return *nodes.At(height, i), nil
}

// Append adds a leaf by its hash. The error is that of full.
func (b *TileBuilder) Append(leaf Hash) error {
	var failed error
	err := b.frontier.Append(leaf, func(level uint, index uint64, h Hash) {
		if level%TileHeight == 0 && failed == nil {
			failed = b.place(level/TileHeight, index, h)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

func (b *TileBuilder) place(level uint, index uint64, h Hash) error {
	if level == uint(len(b.edge)) {
		b.edge = append(b.edge, nil)
	}
	b.edge[level] = append(b.edge[level], h[:]...)
	if len(b.edge[level]) < TileWidth*HashSize {
		return nil
	}
	hashes := b.edge[level]
	b.edge[level] = nil
	return b.full(Tile{Level: level, Index: index / TileWidth, Width: TileWidth}, hashes)
}

// Head returns the head of the tree. See [Frontier.Head].
func (b *TileBuilder) Head() (Head, error) { return b.frontier.Head() }

// Partial returns the unfinished tiles with their hashes, the lowest level first.
func (b *TileBuilder) Partial() iter.Seq2[Tile, []byte] {
	return func(yield func(Tile, []byte) bool) {
		for level, hashes := range b.edge {
			t := Tile{Level: uint(level), Index: FullTiles(uint(level), b.frontier.Size()), Width: len(hashes) / HashSize}
			if t.Width > 0 && !yield(t, hashes) {
				return
			}
		}
	}
}
