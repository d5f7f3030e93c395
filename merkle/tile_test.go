package merkle_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// TestTilePathRoundTrip draws tiles: each has a path, and the path is its own.
func TestTilePathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tile := merkle.Tile{
			Entries: rapid.Bool().Draw(t, "entries"),
			Index:   rapid.OneOf(rapid.Uint64Range(0, 2000), rapid.Uint64(), rapid.Just[uint64](math.MaxUint64)).Draw(t, "index"),
			Width:   rapid.IntRange(1, merkle.TileWidth).Draw(t, "width"),
		}
		if !tile.Entries {
			tile.Level = rapid.UintRange(0, 63).Draw(t, "level")
		}
		got, err := merkle.ParseTilePath(tile.Path())
		if err != nil || got != tile {
			t.Fatalf("%s parses as %+v, error %v; want %+v", tile.Path(), got, err, tile)
		}
		if strings.HasPrefix(tile.Path(), "/") || strings.Contains(tile.Path(), "//") {
			t.Fatalf("path %s", tile.Path())
		}
	})
}

// TestTileSpan compares with a count of the hashes of a level.
func TestTileSpan(t *testing.T) {
	for size := range uint64(70_000) {
		if got, want := merkle.TileSpan(1, size), size/256; got != want {
			t.Fatalf("level 1 of %d: %d hashes, want %d", size, got, want)
		}
	}
	for _, c := range []struct {
		level      uint
		size, want uint64
	}{
		{0, 0, 0}, {0, 256, 256}, {1, 255, 0}, {1, 256, 1}, {2, 65_535, 0}, {2, 70_000, 1}, {3, 70_000, 0},
		{7, math.MaxUint64, 255}, {8, math.MaxUint64, 0}, {63, math.MaxUint64, 0},
	} {
		if got := merkle.TileSpan(c.level, c.size); got != c.want {
			t.Errorf("level %d of %d: %d hashes, want %d", c.level, c.size, got, c.want)
		}
	}
}

// FuzzParseTilePath: what is accepted is the one spelling of its tile.
func FuzzParseTilePath(f *testing.F) {
	for _, seed := range []string{"tile/0/000", "tile/63/x001/067.p/255", "tile/entries/x999/x999/999", "tile/0/.p/1", "tile/0/x00/000",
		"tile/00/000", "tile/0/18446744073709551616", "tile/0/x018/x446/x744/x073/x709/x551/615", "tile/0/x018/x446/x744/x073/x709/x551/616"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := merkle.ParseTilePath(path)
		if err != nil {
			if !errors.Is(err, merkle.ErrMalformed) || tile != (merkle.Tile{}) {
				t.Fatalf("tile %+v, error %v", tile, err)
			}
			return
		}
		if tile.Path() != path || tile.Width < 1 || tile.Width > merkle.TileWidth || tile.Level > 63 {
			t.Fatalf("%q parses as %+v, whose path is %q", path, tile, tile.Path())
		}
	})
}

// FuzzParseHash: what is accepted is the one spelling of its hash.
func FuzzParseHash(f *testing.F) {
	for _, seed := range []string{"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "", strings.Repeat("A", 43) + "=", strings.Repeat("A", 42) + "B=",
		strings.Repeat("A", 44), strings.Repeat("A", 40) + "\n\n\n\n", strings.Repeat("-", 43) + "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := merkle.ParseHash(text)
		if err != nil {
			if !errors.Is(err, merkle.ErrMalformed) || h != (merkle.Hash{}) {
				t.Fatalf("hash %v, error %v", h, err)
			}
			return
		}
		marshaled, err := h.MarshalText()
		var again merkle.Hash
		if err != nil || string(marshaled) != text || h.String() != text || again.UnmarshalText(marshaled) != nil || again != h {
			t.Fatalf("%q parses as %v", text, h)
		}
	})
}

// FuzzCutLeaf: what is cut off is what would have been appended.
func FuzzCutLeaf(f *testing.F) {
	for _, seed := range []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\x01a", "\x00\x01a\x00\x02bc", "\xff\xffa"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, bundle []byte) {
		leaf, rest, err := merkle.CutLeaf(bundle)
		if err != nil {
			if !errors.Is(err, merkle.ErrMalformed) || leaf != nil || rest != nil {
				t.Fatalf("%x, %x, %v", leaf, rest, err)
			}
			return
		}
		if again := append(merkle.AppendLeaf(nil, leaf), rest...); string(again) != string(bundle) {
			t.Fatalf("%x is cut into %x and %x", bundle, leaf, rest)
		}
	})
}

// TestLargestLeaf appends it and cuts it off.
func TestLargestLeaf(t *testing.T) {
	want := strings.Repeat("x", merkle.MaxLeaf)
	leaf, rest, err := merkle.CutLeaf(merkle.AppendLeaf(nil, []byte(want)))
	if err != nil || string(leaf) != want || len(rest) > 0 {
		t.Errorf("%d bytes, %d more, %v", len(leaf), len(rest), err)
	}
}
