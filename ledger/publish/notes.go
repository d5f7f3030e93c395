package publish

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/merkle"
)

// notesName is the object with what a publisher has to remember.
const notesName = ".arl-publish"

// notes is what a publisher has to remember. It is no part of the log, and no reader needs it. Lost
// notes cost work and leave partial tiles behind.
type notes struct {
	// Full is the log up to which all full tiles are there, though no tree head says so yet.
	Full merkle.Head `json:"full"`
	// Partial has the directories of partial tiles.
	Partial []partial `json:"partial"`
}

// partial is a directory of partial tiles.
type partial struct {
	Dir    string `json:"dir"`
	Widths []int  `json:"widths"`
	Until  int64  `json:"until,omitzero"` // Unix milliseconds; 0: the tile is not full yet
}

// readNotes reads the notes of a target. Notes that cannot be read are as good as none.
func readNotes(ctx context.Context, t Target) (*notes, error) {
	n := &notes{Full: merkle.EmptyHead()}
	data, _, err := t.Get(ctx, notesName)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil && json.Unmarshal(data, n) != nil {
		n = &notes{Full: merkle.EmptyHead()}
	}
	return n, err
}

func (n *notes) write(ctx context.Context, t Target) error {
	data, err := json.Marshal(n)
	if err == nil {
		_, err = t.Put(ctx, notesName, data, PutOptions{ContentType: "application/json", CacheControl: "no-store"})
	}
	return err
}

// add notes the partial tiles of a tree. It reports whether there is anything new.
func (n *notes) add(size uint64) (added bool) {
	for _, t := range partialTiles(size) {
		dir := path.Dir(t.Path())
		at := slices.IndexFunc(n.Partial, func(p partial) bool { return p.Dir == dir })
		if at < 0 {
			at, n.Partial = len(n.Partial), append(n.Partial, partial{Dir: dir})
		}
		if p := &n.Partial[at]; !slices.Contains(p.Widths, t.Width) {
			p.Widths, added = append(p.Widths, t.Width), true
		}
	}
	return added
}

// expire sets the end of partial tiles that are full in the tree of a published head, and returns
// the names of those whose end has come.
func (n *notes) expire(size uint64, now time.Time, keep time.Duration) (names []string, changed bool) {
	open := map[string]bool{}
	for _, t := range partialTiles(size) {
		open[path.Dir(t.Path())] = true
	}
	n.Partial = slices.DeleteFunc(n.Partial, func(p partial) bool {
		if p.Until == 0 || now.UnixMilli() < p.Until {
			return false
		}
		for _, width := range p.Widths {
			names = append(names, path.Join(p.Dir, strconv.Itoa(width)))
		}
		return true
	})
	for i := range n.Partial {
		if p := &n.Partial[i]; p.Until == 0 && !open[p.Dir] {
			p.Until, changed = now.Add(keep).UnixMilli(), true
		}
	}
	return names, changed || len(names) > 0
}

// partialTiles returns the partial tiles of a tree.
func partialTiles(size uint64) (tiles []merkle.Tile) {
	for level := uint(0); merkle.TileSpan(level, size) > 0; level++ {
		t := merkle.Tile{Level: level, Index: merkle.FullTiles(level, size), Width: int(merkle.TileSpan(level, size) % merkle.TileWidth)}
		if t.Width == 0 {
			continue
		}
		if tiles = append(tiles, t); level == 0 {
			tiles = append(tiles, merkle.Tile{Entries: true, Index: t.Index, Width: t.Width})
		}
	}
	return tiles
}
