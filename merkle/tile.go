package merkle

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// TileHeight is the number of tree levels a tile spans.
	TileHeight = 8
	// TileWidth is the number of hashes, or of entries, in a full tile.
	TileWidth = 1 << TileHeight
	// maxTileLevel bounds the level in a path (c2sp.org/tlog-tiles: 0 to 63).
	maxTileLevel = 63
)

// Tile names a tile: hashes at tree level Level·8, or, if Entries is set, the
// bundle of entries under the level-0 tile of the same index.
type Tile struct {
	Entries bool
	Level   uint
	Index   uint64
	Width   int // 1 to 256; below 256 the tile is partial
}

// Path returns the tile's path below the log's URL prefix, such as
// "tile/0/x001/067.p/12" or "tile/entries/000".
func (t Tile) Path() string {
	var b strings.Builder
	b.WriteString("tile/")
	if t.Entries {
		b.WriteString("entries")
	} else {
		b.WriteString(strconv.FormatUint(uint64(t.Level), 10))
	}
	digits := fmt.Sprintf("%03d", t.Index)
	for len(digits)%3 != 0 {
		digits = "0" + digits
	}
	for len(digits) > 3 {
		b.WriteString("/x" + digits[:3])
		digits = digits[3:]
	}
	b.WriteString("/" + digits)
	if t.Width < TileWidth {
		b.WriteString(".p/" + strconv.Itoa(t.Width))
	}
	return b.String()
}

// ParseTilePath reads a path that [Tile.Path] made. Every other spelling, a
// leading zero or a missing group included, is [ErrMalformed].
func ParseTilePath(path string) (Tile, error) {
	malformed := func(why string) (Tile, error) {
		return Tile{}, fmt.Errorf("%w: tile path %.100q: %s", ErrMalformed, path, why)
	}
	parts := strings.Split(path, "/")
	if len(parts) < 3 || parts[0] != "tile" {
		return malformed("want tile/<level>/<index>[.p/<width>]")
	}
	tile := Tile{Width: TileWidth}
	if parts[1] == "entries" {
		tile.Entries = true
	} else {
		level, err := strconv.ParseUint(parts[1], 10, 8)
		if err != nil || level > maxTileLevel {
			return malformed("level is not a number from 0 to 63")
		}
		tile.Level = uint(level)
	}
	groups := parts[2:]
	if partial := len(groups) - 2; partial >= 0 && strings.HasSuffix(groups[partial], ".p") {
		width, err := strconv.ParseUint(groups[partial+1], 10, 16)
		if err != nil || width == 0 || width >= TileWidth {
			return malformed("width is not a number from 1 to 255")
		}
		tile.Width = int(width)
		groups = append(groups[:partial:partial], strings.TrimSuffix(groups[partial], ".p"))
	}
	for i, group := range groups {
		if i < len(groups)-1 {
			group = strings.TrimPrefix(group, "x")
		}
		value, err := strconv.ParseUint(group, 10, 16)
		if err != nil || len(group) != 3 || tile.Index > (math.MaxUint64-value)/1000 {
			return malformed("index is not made of groups of three digits")
		}
		tile.Index = tile.Index*1000 + value
	}
	if tile.Path() != path {
		return malformed("not the canonical spelling")
	}
	return tile, nil
}

// TileSpan returns how many hashes of the level the tree of size leaves has at
// a tile level: the full tiles there are hashes/256, and the partial one at the
// right edge, if any, holds hashes mod 256.
func TileSpan(level uint, size uint64) (hashes uint64) {
	if level*TileHeight >= 64 {
		return 0
	}
	return size >> (level * TileHeight)
}

// FullTiles returns how many full tiles a tree of size leaves has at a tile level.
func FullTiles(level uint, size uint64) uint64 { return TileSpan(level, size) / TileWidth }

// Locate returns the full tile that holds a node of the tree, and the place of the
// node in [TileNodes.At]. The level is that of a [NodeReader].
func Locate(level uint, index uint64) (t Tile, height uint, i uint64) {
	height = level % TileHeight
	span := TileHeight - height
	return Tile{Level: level / TileHeight, Index: index >> span, Width: TileWidth}, height, index & (1<<span - 1)
}

// MaxLeaf is the number of bytes of the largest leaf that an entry bundle can hold.
const MaxLeaf = math.MaxUint16

// AppendLeaf appends a leaf of at most [MaxLeaf] bytes to an entry bundle: its length
// in two bytes, big-endian, and then the leaf.
func AppendLeaf(bundle, leaf []byte) []byte {
	return append(binary.BigEndian.AppendUint16(bundle, uint16(len(leaf))), leaf...)
}

// CutLeaf cuts the first leaf off an entry bundle and returns the rest of the bundle.
// The error is [ErrMalformed] if the bundle ends before its leaf does.
func CutLeaf(bundle []byte) (leaf, rest []byte, err error) {
	if len(bundle) < 2 || len(bundle)-2 < int(binary.BigEndian.Uint16(bundle)) {
		return nil, nil, fmt.Errorf("%w: an entry bundle ends within a leaf", ErrMalformed)
	}
	end := 2 + int(binary.BigEndian.Uint16(bundle))
	return bundle[2:end], bundle[end:], nil
}
