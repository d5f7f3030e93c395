package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Source is a log as it is published.
type Source interface {
	// Published returns the newest signed tree head.
	Published() (verify.SignedHead, error)
	// Tile returns a tile that this head covers.
	Tile(t merkle.Tile) ([]byte, error)
}

// Fixed is the log under one head.
type Fixed struct {
	Head  verify.SignedHead
	Tiles func(merkle.Tile) ([]byte, error)
}

// Published implements [Source].
func (f *Fixed) Published() (verify.SignedHead, error) { return f.Head, nil }

// Tile implements [Source].
func (f *Fixed) Tile(t merkle.Tile) ([]byte, error) { return f.Tiles(t) }

// Config describes an export. All members but Progress are mandatory.
type Config struct {
	Source Source
	// Open opens a signed tree head of the log, for example verify.Root.Head. An Open that accepts
	// heads of other logs exports them.
	Open func(signed []byte) (merkle.Head, error)
	// Progress is told how many of how many new entries are exported.
	Progress func(done, total uint64)
}

// Report is the result of an export.
type Report struct {
	Older, Newer merkle.Head // of the export, before and after
	Files        int         // written
	Kept         int         // written by an export that was interrupted, and not again
}

const (
	// lockName keeps a second export out of the directory; names with a dot in
	// front are not part of the log.
	lockName = ".lock"
	// incomingName is the directory of unfinished files. The next export removes the files that a
	// crash leaves there.
	incomingName = ".arl-incoming"
	// maxWrites is how many files are synced at the same time: file systems
	// sync many for little more than one.
	maxWrites = 16
)

// Write brings the static copy of a log in dir up to the published tree head:
// `checkpoint`, `tile/…` and `tile/entries/…` of c2sp.org/tlog-tiles, for any
// web server. It copies entries, and computes the tiles from them: they are
// published only if they give the root of the signed tree head, and if their
// beginning gives that of the head exported before.
//
// Every file is complete before it gets its name, and the tree head comes last: a
// crash leaves the older export or the newer one, with files that nothing refers
// to; the next export takes away those that were half written, and does not write again
// the full tiles that are whole and right. A partial tile is removed when there is a
// published head with the full one.
// The error is [ErrInconsistent] if dir holds something else under a tree head, with a
// [verify.ForkError] if the ledger's key has signed two histories,
// [ErrDamaged] if what the source serves is not what was signed, [os.ErrExist] if dir
// holds other files, [ErrInUse] while another export runs.
func Write(ctx context.Context, dir string, c *Config) (*Report, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockName))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: another export to %s is running", ErrInUse, dir)
	}
	dir = filepath.Clean(dir)
	x := &writer{dir: dir, source: c.Source, progress: c.Progress, touched: map[string]bool{filepath.Dir(dir): true}}
	if x.progress == nil {
		x.progress = func(uint64, uint64) {}
	}
	x.writes.SetLimit(maxWrites)
	report, err := x.run(ctx, c.Open)
	if err := errors.Join(err, lock.Close()); err != nil {
		return nil, err
	}
	return report, nil
}

// writer is one run of Write.
type writer struct {
	dir      string
	source   Source
	progress func(done, total uint64)

	exported, published verify.SignedHead
	older, newer        merkle.Head // of exported and published
	tree                *merkle.TileBuilder
	writes              errgroup.Group  // under way
	touched             map[string]bool // directories with entries that are not durable yet
	files, kept         int
}

func (x *writer) run(ctx context.Context, open func([]byte) (merkle.Head, error)) (report *Report, err error) {
	if err := x.readCheckpoint(open); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(x.incoming()), os.Mkdir(x.incoming(), 0o755)); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, x.writes.Wait(), os.RemoveAll(x.incoming())) }()
	if x.published, err = x.source.Published(); err != nil {
		return nil, fmt.Errorf("export: published tree head: %w", err)
	}
	if x.newer, err = open([]byte(x.published.Note)); err != nil {
		return nil, fmt.Errorf("export: published tree head: %w", err)
	}
	x.published.Head = x.newer
	if x.older.Size > x.newer.Size {
		return nil, fmt.Errorf("%w: it has size %d, the log %d", ErrInconsistent, x.older.Size, x.newer.Size)
	}
	if x.older.Size == x.newer.Size && x.older != x.newer {
		return nil, Contradicted(x.exported, x.published, x.newer, x.source.Tile)
	}
	if x.exported.Note == "" || x.older != x.newer {
		if err := x.copy(ctx); err != nil {
			return nil, err
		}
	}
	if x.exported.Note != x.published.Note {
		// From here on the new export is served.
		if err := x.write(Checkpoint, []byte(x.published.Note)); err != nil {
			return nil, err
		}
		if err := x.sync(); err != nil {
			return nil, err
		}
	}
	return &Report{Older: x.older, Newer: x.newer, Files: x.files, Kept: x.kept}, x.removePartial()
}

// readCheckpoint reads the tree head of the export, if there is one.
func (x *writer) readCheckpoint(open func([]byte) (merkle.Head, error)) error {
	x.older = merkle.EmptyHead()
	signed, err := os.ReadFile(filepath.Join(x.dir, Checkpoint))
	if errors.Is(err, os.ErrNotExist) {
		return x.refuseStrange()
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if x.older, err = open(signed); err != nil {
		return fmt.Errorf("%w: %s is no tree head of this log: %v", ErrInconsistent, filepath.Join(x.dir, Checkpoint), err)
	}
	x.exported = verify.SignedHead{Head: x.older, Note: string(signed)}
	return nil
}

// refuseStrange refuses a directory with other files. The files of an export that was cut off
// before its first tree head are allowed.
func (x *writer) refuseStrange() error {
	files, err := os.ReadDir(x.dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, f := range files {
		if name := f.Name(); name != "tile" && !strings.HasPrefix(name, ".") {
			return fmt.Errorf("export: %s holds %s and no checkpoint: %w: export to an empty directory, or to one that was exported to",
				x.dir, name, os.ErrExist)
		}
	}
	return nil
}

// copy writes the tiles of the entries that the export lacks, and of the entries that share a tile
// with them.
func (x *writer) copy(ctx context.Context) (err error) {
	size := x.older.Size - x.older.Size%merkle.TileWidth
	x.tree, err = merkle.NewTileBuilder(size, x.source.Tile, x.writeTile)
	if errors.Is(err, merkle.ErrMalformed) {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := x.checkRoot(size); err != nil {
		return err
	}
	for size < x.newer.Size {
		if err := ctx.Err(); err != nil {
			return err
		}
		width := min(merkle.TileWidth, x.newer.Size-size)
		if err := x.copyBundle(merkle.Tile{Entries: true, Index: size / merkle.TileWidth, Width: int(width)}); err != nil {
			return err
		}
		size += width
		x.progress(size-min(size, x.older.Size), x.newer.Size-x.older.Size)
	}
	if err := x.checkRoot(size); err != nil {
		return err
	}
	for t, hashes := range x.tree.Partial() {
		if err := x.writeTile(t, hashes); err != nil {
			return err
		}
	}
	return x.sync()
}

// copyBundle copies the entries of one tile and appends them to the tree.
func (x *writer) copyBundle(t merkle.Tile) error {
	bundle, kept, err := x.bundle(t)
	if err != nil {
		return fmt.Errorf("export %s: %w", t.Path(), err)
	}
	leaves, rest, err := cutLeaves(bundle, t.Width)
	if err != nil {
		return fmt.Errorf("%w: %s %v", ErrDamaged, t.Path(), err)
	}
	for i, leaf := range leaves {
		if err := x.tree.Append(merkle.HashLeaf(leaf)); err != nil {
			return err
		}
		if err := x.checkRoot(t.Index*merkle.TileWidth + uint64(i) + 1); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %s has %d bytes behind its entries", ErrDamaged, t.Path(), len(rest))
	}
	if kept {
		x.keep(t)
		return nil
	}
	return x.write(t.Path(), bundle)
}

// bundle returns the entries of a tile. kept says that an interrupted export has left them: the
// file of a full tile counts if its entries have the hashes of the source's hash tile, which is
// small. The source is believed as far as for entries: [writer.checkRoot] tells.
func (x *writer) bundle(t merkle.Tile) (content []byte, kept bool, err error) {
	if t.Width == merkle.TileWidth {
		if left, err := readLimited(x.path(t), maxBundle); err == nil {
			hashes, err := x.source.Tile(merkle.Tile{Index: t.Index, Width: t.Width})
			if err != nil || haveHashes(left, hashes, t.Width) {
				return left, true, err
			}
		}
	}
	content, err = x.source.Tile(t)
	return content, false, err
}

// haveHashes reports whether a bundle consists of n entries with these hashes.
func haveHashes(bundle, hashes []byte, n int) bool {
	leaves, rest, err := cutLeaves(bundle, n)
	if err != nil || len(rest) > 0 || len(hashes) != n*merkle.HashSize {
		return false
	}
	for i, leaf := range leaves {
		if merkle.HashLeaf(leaf) != merkle.Hash(hashes[i*merkle.HashSize:]) {
			return false
		}
	}
	return true
}

// checkRoot compares the tree over size entries with the head that is known for
// that size.
func (x *writer) checkRoot(size uint64) error {
	if size != x.older.Size && size != x.newer.Size {
		return nil
	}
	head, err := x.tree.Head()
	switch {
	case err != nil:
		return err
	case size == x.older.Size && head != x.older:
		return Contradicted(x.exported, x.published, head, x.source.Tile)
	case size == x.newer.Size && head != x.newer:
		return fmt.Errorf("%w: size %d gives root %s, signed is %s", ErrDamaged, size, head.Root, x.newer.Root)
	}
	return nil
}

// writeTile writes a hash tile, unless an interrupted export has left it.
func (x *writer) writeTile(t merkle.Tile, hashes []byte) error {
	if t.Width == merkle.TileWidth {
		if left, err := readLimited(x.path(t), maxHashTile); err == nil && bytes.Equal(left, hashes) {
			x.keep(t)
			return nil
		}
	}
	return x.write(t.Path(), hashes)
}

// keep counts a file that an interrupted export has left. The file was synced before it got its
// name; that name may not be durable yet.
func (x *writer) keep(t merkle.Tile) {
	x.touch(x.path(t))
	x.kept++
}

func (x *writer) path(t merkle.Tile) string {
	return filepath.Join(x.dir, filepath.FromSlash(t.Path()))
}

// touch notes the directories of a file, up to that of the export.
func (x *writer) touch(path string) {
	for dir := filepath.Dir(path); !x.touched[dir] && len(dir) >= len(x.dir); dir = filepath.Dir(dir) {
		x.touched[dir] = true
	}
}

// write writes a file under another name, syncs it and renames it, in the
// background until sync.
func (x *writer) write(name string, content []byte) error {
	path := filepath.Join(x.dir, filepath.FromSlash(name))
	x.touch(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	x.files++
	x.writes.Go(func() error {
		f, err := durable.Begin(x.incoming(), path, 0o644)
		if err != nil {
			return err
		}
		if _, err = f.Write(content); err == nil {
			err = f.Place()
		}
		return errors.Join(err, f.Discard())
	})
	return nil
}

func (x *writer) incoming() string { return filepath.Join(x.dir, incomingName) }

// sync makes the written files and their names durable.
func (x *writer) sync() error {
	if err := x.writes.Wait(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for dir := range x.touched {
		if err := durable.SyncDir(dir); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	clear(x.touched)
	return nil
}

// removePartial removes the partial tiles of the older head that are full now.
func (x *writer) removePartial() error {
	for level := uint(0); merkle.TileSpan(level, x.older.Size) > 0; level++ {
		index := merkle.FullTiles(level, x.older.Size)
		if index == merkle.FullTiles(level, x.newer.Size) {
			continue // still partial
		}
		tiles := []merkle.Tile{{Level: level, Index: index, Width: 1}}
		if level == 0 {
			tiles = append(tiles, merkle.Tile{Entries: true, Index: index, Width: 1})
		}
		for _, t := range tiles {
			if err := os.RemoveAll(filepath.Dir(x.path(t))); err != nil {
				return fmt.Errorf("export: %w", err)
			}
		}
	}
	return nil
}
