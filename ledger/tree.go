package ledger

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// tileID names a hash tile.
type tileID struct {
	level uint
	index uint64
}

// tile is a hash tile with the nodes inside it: at height h (0 to 7) the perfect
// subtrees of 2^h hashes of the tile's level. Nodes are written once, from left
// to right, by the order goroutine; readers look only at those that their view's
// size covers.
type tile struct {
	nodes [2*merkle.TileWidth - 2]merkle.Hash
}

// at returns the node at height h and position i from the left.
func (t *tile) at(h uint, i uint64) *merkle.Hash {
	return &t.nodes[2*merkle.TileWidth-(2*merkle.TileWidth>>h)+int(i)]
}

// expand computes the inner nodes from the first width hashes.
func (t *tile) expand(width int) {
	for h := uint(1); h < merkle.TileHeight; h++ {
		for i := range uint64(width >> h) {
			*t.at(h, i) = merkle.HashChildren(*t.at(h-1, 2*i), *t.at(h-1, 2*i+1))
		}
	}
}

// root returns the hash of a full tile.
func (t *tile) root() merkle.Hash { return merkle.HashChildren(*t.at(7, 0), *t.at(7, 1)) }

// bytes returns the first width hashes, as a tile is stored and served.
func (t *tile) bytes(width int) []byte {
	out := make([]byte, 0, width*merkle.HashSize)
	for i := range width {
		out = append(out, t.nodes[i][:]...)
	}
	return out
}

// edgeTile is the tile at the right edge of its level.
type edgeTile struct {
	index uint64
	*tile
}

// view is a picture of the log after a commit. Only what it remembers of its
// tree, ragged, is added to.
type view struct {
	head merkle.Head
	note string     // signed by the Ed25519 keys in force
	keys []Key      // these
	at   int64      // registered_at of the last entry
	edge []edgeTile // the tile at the right edge, by tile level

	ragged merkle.Edge   // what inclusion proofs in this tree share
	grown  chan struct{} // closed when a newer view is there
}

// locate returns the tile that holds a node and the place in it.
func locate(level uint, index uint64) (id tileID, h uint, i uint64) {
	h = level % merkle.TileHeight
	span := merkle.TileHeight - h
	return tileID{level / merkle.TileHeight, index >> span}, h, index & (1<<span - 1)
}

// nodes reads the nodes of the tree that v pictures. The reader remembers the last
// tile, in which half of a path lies, and is for one goroutine.
func (l *Log) nodes(v *view) merkle.NodeReader {
	var last tileID
	var t *tile
	return func(level uint, index uint64) (merkle.Hash, error) {
		id, h, i := locate(level, index)
		if t == nil || id != last {
			var err error
			if t, err = l.tile(v, id); err != nil {
				return merkle.Hash{}, err
			}
			last = id
		}
		return *t.at(h, i), nil
	}
}

// tile returns a tile that v covers at least in part.
func (l *Log) tile(v *view, id tileID) (*tile, error) {
	if id.level < uint(len(v.edge)) && v.edge[id.level].index == id.index {
		return v.edge[id.level].tile, nil
	}
	if t, ok := l.tiles.Get(id); ok {
		return t, nil
	}
	t, err := readTile(l.db, id)
	if err != nil {
		return nil, err
	}
	l.tiles.Add(id, t)
	return t, nil
}

// readTile reads a full tile from the store.
func readTile(r pebble.Reader, id tileID) (*tile, error) {
	value, closer, err := r.Get(tileKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("%w: tile %d/%d is missing", ErrCorrupt, id.level, id.index)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read tile %d/%d: %w", id.level, id.index, classed(err))
	}
	t, err := parseTile(value)
	if err == nil && len(value) != merkle.TileWidth*merkle.HashSize {
		err = fmt.Errorf("%w: %d bytes", ErrCorrupt, len(value))
	}
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, fmt.Errorf("ledger: read tile %d/%d: %w", id.level, id.index, err)
	}
	return t, nil
}

// parseTile returns the tile of the given hashes, which may be partial.
func parseTile(hashes []byte) (*tile, error) {
	width := len(hashes) / merkle.HashSize
	if len(hashes)%merkle.HashSize != 0 || width > merkle.TileWidth {
		return nil, fmt.Errorf("%w: a tile of %d bytes", ErrCorrupt, len(hashes))
	}
	t := new(tile)
	for i := range width {
		t.nodes[i] = merkle.Hash(hashes[i*merkle.HashSize:])
	}
	t.expand(width)
	return t, nil
}

// loadEdge rebuilds the right edge of the tree of head: at every level from the
// full tiles below it, at the lowest from the leaves. The root that follows must
// be the signed one.
func (l *Log) loadEdge(head merkle.Head) (*view, error) {
	v := &view{head: head, grown: make(chan struct{})}
	for level := uint(0); merkle.TileSpan(level, head.Size) > 0; level++ {
		span := merkle.TileSpan(level, head.Size)
		edge := edgeTile{span / merkle.TileWidth, new(tile)}
		width := int(span % merkle.TileWidth)
		for i := range width {
			h, err := l.edgeHash(level, edge.index*merkle.TileWidth+uint64(i))
			if err != nil {
				return nil, err
			}
			edge.nodes[i] = h
		}
		edge.expand(width)
		v.edge = append(v.edge, edge)
	}
	frontier, err := merkle.NewFrontier(head.Size, l.nodes(v))
	if err != nil {
		return nil, fmt.Errorf("ledger: read tree: %w", err)
	}
	if stored, err := frontier.Head(); err != nil || stored != head {
		return nil, fmt.Errorf("%w: leaves and tiles give root %s for size %d, signed is %s",
			ErrCorrupt, stored.Root, head.Size, head.Root)
	}
	return v, nil
}

// edgeHash computes a hash of a tile level from what lies below it.
func (l *Log) edgeHash(level uint, index uint64) (merkle.Hash, error) {
	if level > 0 {
		t, err := readTile(l.db, tileID{level - 1, index})
		if err != nil {
			return merkle.Hash{}, err
		}
		return t.root(), nil
	}
	leaf, err := readLeaf(l.db, index)
	if err != nil {
		return merkle.Hash{}, err
	}
	return merkle.HashLeaf(leaf), nil
}

// readLeaf returns the leaf at index, which must be below the size.
func readLeaf(r pebble.Reader, index uint64) ([]byte, error) {
	value, closer, err := r.Get(entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("%w: entry %d is missing", ErrCorrupt, index)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read entry %d: %w", index, classed(err))
	}
	leaf, err := entry.AppendRecordLeaf(make([]byte, 0, len(value)*4/3+256), value)
	if err != nil {
		err = fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	return leaf, errors.Join(err, closer.Close())
}

// fullTiles returns how many full tiles a tree has at a tile level.
func fullTiles(level uint, size uint64) uint64 {
	return merkle.TileSpan(level, size) / merkle.TileWidth
}
