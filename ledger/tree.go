package ledger

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// edgeTile is the tile at the right edge of its level. The order goroutine writes its nodes once,
// from left to right. Readers look only at the nodes that their view's size covers.
type edgeTile struct {
	index uint64
	*merkle.TileNodes
}

// view is the log after a commit. Only its memory of the ragged tree grows.
type view struct {
	head merkle.Head
	note string     // signed by the Ed25519 keys in force
	keys []Key      // these
	at   int64      // registered_at of the last entry
	edge []edgeTile // the tile at the right edge, by tile level

	ragged merkle.Edge   // the hashes that inclusion proofs in this tree share
	shown  chan struct{} // closed when Config.Committed has this view
	grown  chan struct{} // closed when Config.Committed has a newer view
}

// nodes reads the nodes of the tree of v. The reader keeps the last tile, because half of a path
// lies in one tile. Only one goroutine may use a reader.
func (l *Log) nodes(v *view) merkle.NodeReader {
	var last merkle.Tile
	var t *merkle.TileNodes
	return func(level uint, index uint64) (merkle.Hash, error) {
		id, h, i := merkle.Locate(level, index)
		if t == nil || id != last {
			var err error
			if t, err = l.tile(v, id); err != nil {
				return merkle.Hash{}, err
			}
			last = id
		}
		return *t.At(h, i), nil
	}
}

// tile returns the nodes of a tile, named as a full one, that v covers at least in part.
func (l *Log) tile(v *view, id merkle.Tile) (*merkle.TileNodes, error) {
	if id.Level < uint(len(v.edge)) && v.edge[id.Level].index == id.Index {
		return v.edge[id.Level].TileNodes, nil
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
func readTile(r pebble.Reader, id merkle.Tile) (*merkle.TileNodes, error) {
	value, closer, err := r.Get(tileKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("%w: tile %d/%d is missing", ErrCorrupt, id.Level, id.Index)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read tile %d/%d: %w", id.Level, id.Index, engine.Classed(err))
	}
	t, err := merkle.ParseTileNodes(value)
	if err != nil || len(value) != merkle.TileWidth*merkle.HashSize {
		err = fmt.Errorf("%w: %d bytes", ErrCorrupt, len(value))
	}
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, fmt.Errorf("ledger: read tile %d/%d: %w", id.Level, id.Index, err)
	}
	return t, nil
}

// loadEdge rebuilds the right edge of the tree of head: at every level from the full tiles below
// it, at the lowest from the leaves. The root that follows must be the signed one.
func (l *Log) loadEdge(head merkle.Head) (*view, error) {
	shown := make(chan struct{})
	close(shown) // nobody waits before Committed is called for the opened log
	v := &view{head: head, shown: shown, grown: make(chan struct{})}
	for level := uint(0); merkle.TileSpan(level, head.Size) > 0; level++ {
		span := merkle.TileSpan(level, head.Size)
		edge := edgeTile{span / merkle.TileWidth, new(merkle.TileNodes)}
		width := int(span % merkle.TileWidth)
		for i := range width {
			h, err := l.edgeHash(level, edge.index*merkle.TileWidth+uint64(i))
			if err != nil {
				return nil, err
			}
			*edge.At(0, uint64(i)) = h
		}
		edge.Expand(width)
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

// edgeHash computes a hash of a tile level from the level below it.
func (l *Log) edgeHash(level uint, index uint64) (merkle.Hash, error) {
	if level > 0 {
		t, err := readTile(l.db, merkle.Tile{Level: level - 1, Index: index, Width: merkle.TileWidth})
		if err != nil {
			return merkle.Hash{}, err
		}
		return t.Root(), nil
	}
	leaf, err := readLeaf(l.db, index)
	return merkle.HashLeaf(leaf), err
}

// readLeaf returns the leaf at index, which must be below the size.
func readLeaf(r pebble.Reader, index uint64) ([]byte, error) {
	value, closer, err := r.Get(entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("%w: entry %d", ErrMissing, index)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read entry %d: %w", index, engine.Classed(err))
	}
	leaf, err := entry.AppendStoredLeaf(make([]byte, 0, len(value)*4/3+256), value)
	if err != nil {
		err = fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	return leaf, errors.Join(err, closer.Close())
}
