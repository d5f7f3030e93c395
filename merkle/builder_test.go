package merkle_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// tile is c2sp.org/tlog-tiles word for word: hash i of tile n at level l is
// MTH(D[(n·256+i)·256^l : (n·256+i+1)·256^l]).
func (r *reference) tile(t merkle.Tile) (hashes []byte) {
	span := 1
	for range t.Level {
		span *= 256
	}
	first := 256 * int(t.Index)
	for i := first; i < first+t.Width; i++ {
		h := r.mth(i*span, (i+1)*span)
		hashes = append(hashes, h[:]...)
	}
	return hashes
}

// TestTileBuilder draws a size, begins there with the unfinished tiles of the
// reference, and grows on: every tile that fills comes once, and is that of the
// reference, as are the head and the tiles that are left unfinished.
func TestTileBuilder(t *testing.T) {
	const most = 1100
	ref := decimals(most)
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(0, most).Draw(r, "size")
		end := rapid.IntRange(size, most).Draw(r, "end")
		full := map[merkle.Tile]bool{}
		b, err := merkle.NewTileBuilder(uint64(size), func(t merkle.Tile) ([]byte, error) {
			return ref.tile(t), nil
		}, func(t merkle.Tile, hashes []byte) error {
			if full[t] || !bytes.Equal(hashes, ref.tile(t)) {
				r.Fatalf("%s comes twice, or is another one", t.Path())
			}
			full[t] = true
			return nil
		})
		must(r, err)
		for i := size; i < end; i++ {
			must(r, b.Append(merkle.HashLeaf(ref.leaves[i])))
		}
		if head, err := b.Head(); err != nil || head != ref.head(end) {
			r.Fatalf("head %v, %v", head, err)
		}
		partial := map[merkle.Tile]bool{}
		for t, hashes := range b.Partial() {
			if partial[t] = true; !bytes.Equal(hashes, ref.tile(t)) {
				r.Fatalf("%s is another one", t.Path())
			}
		}
		for level := range uint(3) {
			for index := merkle.FullTiles(level, uint64(size)); index < merkle.FullTiles(level, uint64(end)); index++ {
				if tile := (merkle.Tile{Level: level, Index: index, Width: merkle.TileWidth}); !full[tile] {
					r.Fatalf("%s does not come", tile.Path())
				}
				delete(full, merkle.Tile{Level: level, Index: index, Width: merkle.TileWidth})
			}
			left := merkle.Tile{Level: level, Index: merkle.FullTiles(level, uint64(end)), Width: int(merkle.TileSpan(level, uint64(end)) % merkle.TileWidth)}
			if left.Width > 0 && !partial[left] {
				r.Fatalf("%s is not left", left.Path())
			}
			delete(partial, left)
		}
		if len(full)+len(partial) > 0 {
			r.Fatalf("tiles that the tree does not have: %v %v", full, partial)
		}
	})
}

// TestTileBuilderRefuses: a tile of another width than the size has, and what the
// functions that it calls fail with.
func TestTileBuilderRefuses(t *testing.T) {
	ref, gone := decimals(600), errors.New("gone")
	for name, test := range map[string]struct {
		change func(hashes []byte) []byte
		err    error
		want   error
	}{
		"a tile is cut":            {func(h []byte) []byte { return h[:len(h)-1] }, nil, merkle.ErrMalformed},
		"a tile has a byte more":   {func(h []byte) []byte { return append(h, 0) }, nil, merkle.ErrMalformed},
		"a tile has a hash less":   {func(h []byte) []byte { return h[merkle.HashSize:] }, nil, merkle.ErrMalformed},
		"a tile has a hash more":   {func(h []byte) []byte { return append(h, h[:merkle.HashSize]...) }, nil, merkle.ErrMalformed},
		"a tile is empty":          {func([]byte) []byte { return nil }, nil, merkle.ErrMalformed},
		"a tile is larger than is": {func([]byte) []byte { return make([]byte, 300*merkle.HashSize) }, nil, merkle.ErrMalformed},
		"a tile cannot be read":    {func(h []byte) []byte { return h }, gone, gone},
	} {
		_, err := merkle.NewTileBuilder(600, func(t merkle.Tile) ([]byte, error) { return test.change(ref.tile(t)), test.err }, nil)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	b, err := merkle.NewTileBuilder(0, nil, func(merkle.Tile, []byte) error { return gone })
	must(t, err)
	for i := range 256 {
		if err = b.Append(merkle.HashLeaf(ref.leaves[i])); (err != nil) != (i == 255) {
			t.Fatalf("leaf %d: %v", i, err)
		}
	}
	if !errors.Is(err, gone) {
		t.Errorf("a tile that nobody takes: %v", err)
	}
}

// TestTileNodes reads tiles of every width: what they hold inside are the nodes of
// the tree at the place that Locate names.
func TestTileNodes(t *testing.T) {
	ref := decimals(600)
	for width := 1; width <= merkle.TileWidth; width++ {
		tile := merkle.Tile{Index: 1, Width: width}
		nodes, err := merkle.ParseTileNodes(ref.tile(tile))
		must(t, err)
		if !bytes.Equal(nodes.Bytes(width), ref.tile(tile)) {
			t.Fatalf("width %d: other hashes", width)
		}
		for level := range uint(merkle.TileHeight) {
			for index := uint64(256) >> level; (index+1)<<level <= uint64(256+width); index++ {
				at, height, i := merkle.Locate(level, index)
				if at != (merkle.Tile{Index: 1, Width: merkle.TileWidth}) || *nodes.At(height, i) != ref.mth(int(index<<level), int((index+1)<<level)) {
					t.Fatalf("width %d: node %d/%d is at %+v %d/%d", width, level, index, at, height, i)
				}
			}
		}
		if width == merkle.TileWidth && nodes.Root() != ref.mth(256, 512) {
			t.Error("the root is another one")
		}
	}
	if at, height, i := merkle.Locate(21, 1000); at != (merkle.Tile{Level: 2, Index: 125, Width: 256}) || height != 5 || i != 0 {
		t.Errorf("node 21/1000 is at %+v %d/%d", at, height, i)
	}
}

// FuzzParseTileNodes: what is accepted is whole hashes, at most a tile of them.
func FuzzParseTileNodes(f *testing.F) {
	for _, size := range []int{0, 31, 32, 33, 256 * 32, 257 * 32} {
		f.Add(make([]byte, size))
	}
	f.Fuzz(func(t *testing.T, hashes []byte) {
		nodes, err := merkle.ParseTileNodes(hashes)
		if err != nil {
			if !errors.Is(err, merkle.ErrMalformed) || nodes != nil {
				t.Fatalf("%v, %v", nodes, err)
			}
			return
		}
		if !bytes.Equal(nodes.Bytes(len(hashes)/merkle.HashSize), hashes) {
			t.Fatal("other hashes")
		}
	})
}
