package ledger_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// tree is a reference for everything that a log publishes, computed from its
// leaves alone.
type tree struct {
	leaves [][]byte
	hashes []merkle.Hash
}

// grow reads the leaves that the log has got since.
func (tr *tree) grow(r *running) {
	r.t.Helper()
	for e, err := range r.Entries(r.t.Context(), uint64(len(tr.leaves)), r.Head().Size) {
		must(r.t, err)
		leaf := e.AppendLeaf(nil)
		tr.leaves = append(tr.leaves, leaf)
		tr.hashes = append(tr.hashes, merkle.HashLeaf(leaf))
	}
}

// tile is c2sp.org/tlog-tiles word for word: hash i of tile n at level l is
// MTH(D[(n·256+i)·256^l : (n·256+i+1)·256^l]).
func (tr *tree) tile(t merkle.Tile) (out []byte) {
	if t.Entries {
		for _, leaf := range tr.leaves[256*t.Index:][:t.Width] {
			out = append(binary.BigEndian.AppendUint16(out, uint16(len(leaf))), leaf...)
		}
		return out
	}
	span := uint64(1)
	for range t.Level {
		span *= 256
	}
	for i := range uint64(t.Width) {
		h := referenceRoot(tr.hashes[(256*t.Index+i)*span:][:span])
		out = append(out, h[:]...)
	}
	return out
}

// tilesOf lists the tiles of a tree of size leaves that one of smaller leaves
// does not have.
func tilesOf(smaller, size uint64) (tiles []merkle.Tile) {
	for level := uint(0); size>>(8*level) > 0; level++ {
		hashes := size >> (8 * level)
		for index := smaller >> (8*level + 8); index*256 < hashes; index++ {
			t := merkle.Tile{Level: level, Index: index, Width: int(min(256, hashes-index*256))}
			tiles = append(tiles, t)
			if level == 0 {
				t.Entries = true
				tiles = append(tiles, t)
			}
		}
	}
	return tiles
}

// bulk submits n entries in large batches. They are not signed: it is the fold
// that checks signatures.
func (r *running) bulk(n int) {
	r.t.Helper()
	for n > 0 {
		batch := make([]*entry.Entry, min(n, ledger.MaxBatch))
		for i := range batch {
			batch[i] = newUnsigned(r.t)
		}
		answer, err := r.Submit(r.t.Context(), batch...)
		must(r.t, err)
		if len(answer.Registered) != len(batch) {
			r.t.Fatalf("answer %+v", answer.Refused)
		}
		n -= len(batch)
	}
}

// TestTilesByteForByte grows a log across the borders of tiles and compares
// every tile that it serves, and exports, with the reference; partial ones of
// sizes before are still there, and nothing is there that the log has not
// reached.
func TestTilesByteForByte(t *testing.T) {
	cfg := atOnce(config(t, vfs.NewMem()))
	cfg.SnapshotEvery = 20_000
	r := start(t, "log", cfg)
	target := newTarget(t)
	tr := new(tree)
	sizes := []uint64{1, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537}
	sizes = sizes[:budget.Budget{Short: 7, Usual: len(sizes)}.Now()]
	largest := sizes[len(sizes)-1]
	for i, size := range sizes {
		r.bulk(int(size - r.Head().Size))
		tr.grow(r)
		if root := referenceRoot(tr.hashes); root != r.Head().Root {
			t.Fatalf("size %d: root %s, reference %s", size, r.Head().Root, root)
		}
		smaller := uint64(0)
		if i > 0 {
			smaller = sizes[i-1]
		}
		for _, tile := range slices.Concat(tilesOf(smaller, size), tilesOf(max(smaller, 256)-256, smaller)) {
			got, err := r.Tile(tile)
			must(t, err)
			if string(got) != string(tr.tile(tile)) {
				t.Fatalf("size %d: %s differs from the reference", size, tile.Path())
			}
		}
		target.export(r.Log)
		target.check(tr, smaller, size)
	}
	target.check(tr, 0, largest)
	r.stop()
	r = start(t, "log", cfg) // tiles out of the store, not out of memory
	for _, tile := range tilesOf(0, largest) {
		got, err := r.Tile(tile)
		must(t, err)
		if string(got) != string(tr.tile(tile)) {
			t.Fatalf("after a restart: %s differs from the reference", tile.Path())
		}
	}
}

func TestTilesThatAreNotThere(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	if _, err := r.Tile(merkle.Tile{Width: 1}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("tile of an empty log: %v", err)
	}
	r.bulk(300)
	for _, tile := range []merkle.Tile{
		{Width: 0}, {Width: -1}, {Width: 257}, {Entries: true, Width: 257},
		{Index: 1, Width: 45}, {Index: 2, Width: 1}, {Level: 1, Width: 2}, {Level: 2, Width: 1}, {Level: 63, Width: 1}, {Level: 1 << 20, Width: 1},
		{Entries: true, Index: 1, Width: 45}, {Entries: true, Index: 2, Width: 1}, {Index: 1 << 56, Width: 1}, {Entries: true, Index: 1<<64 - 1, Width: 1},
	} {
		if got, err := r.Tile(tile); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%+v: %d bytes, %v", tile, len(got), err)
		}
	}
}
