package ledger

import (
	"recoveryledger/merkle"
)

// builder computes the hash tiles of a tree from its leaves, without a store:
// what check and export compare with.
type builder struct {
	frontier *merkle.Frontier
	// edge holds the hashes of the unfinished tile, by tile level.
	edge [][]byte
	// full takes every tile when its last hash is there.
	full func(id tileID, hashes []byte) error
}

// newBuilder starts behind the first size leaves, a multiple of 256, whose tiles
// are read through read; they count only when the head turns out to be right.
func newBuilder(size uint64, read func(t merkle.Tile) ([]byte, error), full func(tileID, []byte) error) (*builder, error) {
	b := &builder{full: full}
	for level := uint(0); merkle.TileSpan(level, size) > 0; level++ {
		span := merkle.TileSpan(level, size)
		b.edge = append(b.edge, nil)
		if width := int(span % merkle.TileWidth); width > 0 {
			hashes, err := read(merkle.Tile{Level: level, Index: span / merkle.TileWidth, Width: width})
			if err != nil {
				return nil, err
			}
			b.edge[level] = hashes
		}
	}
	var err error
	b.frontier, err = merkle.NewFrontier(size, b.node)
	return b, err
}

// node reads a node of the unfinished tiles.
func (b *builder) node(level uint, index uint64) (merkle.Hash, error) {
	id, height, i := locate(level, index)
	t, err := parseTile(b.edge[id.level])
	if err != nil {
		return merkle.Hash{}, err
	}
	return *t.at(height, i), nil
}

// append adds a leaf by its hash.
func (b *builder) append(leaf merkle.Hash) error {
	var failed error
	err := b.frontier.Append(leaf, func(level uint, index uint64, h merkle.Hash) {
		if level%merkle.TileHeight != 0 || failed != nil {
			return
		}
		failed = b.place(level/merkle.TileHeight, index, h)
	})
	if err != nil {
		return err
	}
	return failed
}

func (b *builder) place(level uint, index uint64, h merkle.Hash) error {
	if level == uint(len(b.edge)) {
		b.edge = append(b.edge, nil)
	}
	b.edge[level] = append(b.edge[level], h[:]...)
	if len(b.edge[level]) < merkle.TileWidth*merkle.HashSize {
		return nil
	}
	hashes := b.edge[level]
	b.edge[level] = nil
	return b.full(tileID{level, index / merkle.TileWidth}, hashes)
}
