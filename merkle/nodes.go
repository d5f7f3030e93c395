package merkle

import "fmt"

// TileNodes is a hash tile with the nodes inside it: at height h (0 to 7) the roots of
// the perfect subtrees over 2^h hashes of the tile. A zero TileNodes is a tile without
// hashes. A node that is set never changes, so one goroutine may add nodes on the right
// while others read nodes on the left.
type TileNodes struct {
	nodes [2*TileWidth - 2]Hash
}

// ParseTileNodes reads a hash tile, which may be partial, and computes the nodes
// inside it. The error is [ErrMalformed].
func ParseTileNodes(hashes []byte) (*TileNodes, error) {
	width := len(hashes) / HashSize
	if len(hashes)%HashSize != 0 || width > TileWidth {
		return nil, fmt.Errorf("%w: a hash tile of %d bytes: want at most %d hashes of %d bytes", ErrMalformed, len(hashes), TileWidth, HashSize)
	}
	t := new(TileNodes)
	for i := range width {
		t.nodes[i] = Hash(hashes[i*HashSize:])
	}
	t.Expand(width)
	return t, nil
}

// At returns the node at height h and position i from the left, to be read or set.
func (t *TileNodes) At(h uint, i uint64) *Hash {
	return &t.nodes[2*TileWidth-(2*TileWidth>>h)+int(i)]
}

// Expand computes the inner nodes from the first width hashes.
func (t *TileNodes) Expand(width int) {
	for h := uint(1); h < TileHeight; h++ {
		for i := range uint64(width >> h) {
			*t.At(h, i) = HashChildren(*t.At(h-1, 2*i), *t.At(h-1, 2*i+1))
		}
	}
}

// Root returns the root of a full tile: a hash of the tile level above.
func (t *TileNodes) Root() Hash {
	const top = TileHeight - 1
	return HashChildren(*t.At(top, 0), *t.At(top, 1))
}

// Bytes returns the first width hashes, as a tile is stored and served.
func (t *TileNodes) Bytes(width int) []byte {
	out := make([]byte, 0, width*HashSize)
	for i := range width {
		out = append(out, t.nodes[i][:]...)
	}
	return out
}

// TileReader returns the nodes of the tree of size leaves from its hash tiles, which it reads
// through read and trusts: only a known root shows that they are right. A tile of another width
// than asked for is [ErrMalformed].
func TileReader(size uint64, read func(Tile) ([]byte, error)) NodeReader {
	return func(level uint, index uint64) (Hash, error) {
		height := level % TileHeight
		t := Tile{Level: level / TileHeight, Index: index << height / TileWidth}
		t.Width = int(min(TileSpan(t.Level, size)-t.Index*TileWidth, TileWidth))
		data, err := read(t)
		if err == nil && len(data) != t.Width*HashSize {
			err = fmt.Errorf("%w: %s has %d bytes, want %d hashes", ErrMalformed, t.Path(), len(data), t.Width)
		}
		if err != nil {
			return Hash{}, err
		}
		first := index << height % TileWidth
		hashes := make([]Hash, 1<<height)
		for i := range hashes {
			copy(hashes[i][:], data[(first+uint64(i))*HashSize:])
		}
		for ; len(hashes) > 1; hashes = hashes[:len(hashes)/2] {
			for i := range len(hashes) / 2 {
				hashes[i] = HashChildren(hashes[2*i], hashes[2*i+1])
			}
		}
		return hashes[0], nil
	}
}
