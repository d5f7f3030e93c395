package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
)

// CheckReport lists the parts of a log that [Check] computed again and found correct.
type CheckReport struct {
	Head      merkle.Head `json:"head"`   // signed, and covers everything below
	Anchor    merkle.Head `json:"anchor"` // the head that the anchor holds; a prefix of Head
	Files     uint64      `json:"files"`  // tables of the storage engine
	Entries   uint64      `json:"entries"`
	Tiles     uint64      `json:"tiles"`     // full ones, of all levels
	Dedup     uint64      `json:"dedup"`     // keys that find duplicates
	Tags      uint64      `json:"tags"`      // entries in the secondary indexes
	Snapshots uint64      `json:"snapshots"` // complete ones of the fold
}

// DamageError is the first damage that [Check] found. It is [ErrCorrupt].
type DamageError struct {
	// Key is the bad key, or the key of the bad value, as it is stored. A foreign key may have
	// any length. For a missing key, Key is the key that should be there. For an entry missing
	// in an index, Key is the key of a posting that begins with the entry. Key is nil if a file
	// is bad or cannot be read.
	Key []byte
	// Name names the damaged item, such as "entry 17", "tile 0/3" or a path.
	Name string
	// What describes the damage of the item.
	What string
	// Spare is set if no entry and no proof needs the damaged item. The next [Open] that
	// writes removes the item.
	Spare bool
}

// Error implements error.
func (e *DamageError) Error() string {
	if e.Key == nil {
		return fmt.Sprintf("ledger: check: %s: %s", e.Name, e.What)
	}
	return fmt.Sprintf("ledger: check: %s (key %x): %s", e.Name, e.Key, e.What)
}

// Unwrap returns the class of the error.
func (e *DamageError) Unwrap() error { return ErrCorrupt }

func damaged(key []byte, name, format string, args ...any) error {
	return &DamageError{Key: append([]byte(nil), key...), Name: name, What: fmt.Sprintf(format, args...)}
}

// Check computes everything in the log at dir again from its entries and compares files, head,
// anchor, entries, tiles, dedup and index keys, and fold snapshots. Nothing may be missing, and
// nothing else may be there. Check changes nothing and needs no Signer. The first difference is
// a [*DamageError]. The error is [ErrInUse] if the log is open elsewhere. It is [ErrAnchor] or
// [ErrRolledBack] if the anchor is missing or newer than the log.
//
// Check calls progress, if not nil, with the number of steps done and the total number of steps.
// A file is one step, and an entry is two.
func Check(ctx context.Context, dir string, c *Config, progress func(done, total uint64)) (*CheckReport, error) {
	cfg, err := c.withDefaults(dir)
	if err != nil {
		return nil, err
	}
	cfg.Fatal = func(err error) { panic(err) } // for writers; there are none
	options := storeOptions(cfg)
	options.ReadOnly = true
	options.EnsureDefaults()
	db, err := openEngine(dir, cfg, options)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(uint64, uint64) {}
	}
	k := &checker{cfg: cfg, dir: dir, db: db, options: options, progress: progress}
	err = k.run(ctx)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return &k.report, nil
}

// checker is one run of Check.
type checker struct {
	cfg     *Config
	dir     string
	db      *pebble.DB
	options *pebble.Options

	last      *Batch
	anchor    anchor.Anchor
	snapshots []storedSnapshot
	tree      *merkle.TileBuilder
	anchored  merkle.Head   // over as many entries as the anchor covers
	previous  merkle.Head   // over the entries before the last batch
	at        int64         // registered_at of the newest entry read
	keys      []expectedKey // of the newest entries read, not looked up yet
	report    CheckReport

	progress    func(done, total uint64)
	done, total uint64
}

func (k *checker) step() {
	k.done++
	k.progress(k.done, k.total)
}

func (k *checker) run(ctx context.Context) error {
	for _, check := range []func(context.Context) error{
		k.checkMeta, k.checkBatch, k.checkAnchor, k.checkFiles, k.readSnapshots,
		k.checkEntries, k.checkTree, k.checkTiles, k.checkCounts, k.checkRest, k.checkFold,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// failed gives an error of the storage engine its class.
func failed(what string, err error) error {
	if err = engine.Classed(err); !errors.Is(err, ErrCorrupt) {
		return wrap(what, err)
	}
	return damaged(nil, what, "%v", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: check %s: %w", what, err)
}

func (k *checker) checkMeta(context.Context) error {
	key := []byte{keyMeta}
	found, err := readMeta(k.db)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return damaged(key, "format and origin", "missing")
	case err != nil:
		return damaged(key, "format and origin", "%v", err)
	case found != meta{Format: storeFormat, Origin: k.cfg.Origin} && (found.Format != clusterFormat || found.Origin != k.cfg.Origin || found.Incarnation == ""):
		return damaged(key, "format and origin", "format %d and origin %q, want %d and %q", found.Format, found.Origin, storeFormat, k.cfg.Origin)
	}
	return nil
}

// checkBatch reads the last batch and checks that its signed tree head says the same.
func (k *checker) checkBatch(context.Context) error {
	last, err := readLastBatch(k.db)
	if err == nil {
		err = checkHead(k.cfg.Origin, k.cfg.Keys, last)
	}
	if err != nil {
		return damaged([]byte{keyBatch}, "last batch", "%v", err)
	}
	if last.Seq > 0 && last.Size <= last.PreviousSize || last.Seq > last.Size {
		return damaged([]byte{keyBatch}, "last batch", "number %d leads from size %d to %d", last.Seq, last.PreviousSize, last.Size)
	}
	k.last, k.report.Head = last, last.Head()
	return nil
}

// checkAnchor reads the anchor; checkTree compares its root.
func (k *checker) checkAnchor(context.Context) (err error) {
	k.anchor, err = loadAnchor(k.cfg, k.last)
	if err == nil {
		err = checkRolledBack(k.anchor, k.last)
	}
	k.report.Anchor = k.anchor.Head
	return err
}

// checkFiles reads every block of every table, the filters included. No other check is sure to
// read every block.
func (k *checker) checkFiles(ctx context.Context) error {
	levels, err := k.db.SSTables()
	if err != nil {
		return failed("tables", err)
	}
	k.total = 2 * k.last.Size
	for _, tables := range levels {
		k.total += uint64(len(tables))
	}
	for _, tables := range levels {
		for _, table := range tables {
			path := k.cfg.FS.PathJoin(k.dir, table.BackingSSTNum.String()+".sst")
			if err := engine.CheckTable(ctx, k.cfg.FS, path, k.options); err != nil {
				return damaged(nil, path, "%s", engine.FirstLine(err))
			}
			k.report.Files++
			k.step()
		}
	}
	return ctx.Err()
}

// checkEntries reads every entry and builds the tree over the entries. It compares the tiles and
// keys that follow from the entries with the stored ones.
func (k *checker) checkEntries(ctx context.Context) (err error) {
	if k.tree, err = merkle.NewTileBuilder(0, nil, k.checkTile); err != nil {
		return err
	}
	if err := k.notePrefix(0); err != nil {
		return err
	}
	it, err := k.scan(ctx, keyEntry)
	if err != nil {
		return err
	}
	next := uint64(0)
	for ok := it.First(); ok && err == nil && ctx.Err() == nil; ok = it.Next() {
		if err = k.checkEntryKey(it.Key(), next); err == nil {
			err = k.checkEntry(it.Key(), it.Value(), next)
		}
		next++
		k.step()
	}
	if err := errors.Join(err, failed("entries", it.Close()), ctx.Err()); err != nil {
		return err
	}
	if next < k.last.Size {
		return damaged(entryKey(next), name("entry", next), "missing")
	}
	return k.checkKeys(ctx)
}

func name(what string, index uint64) string { return fmt.Sprintf("%s %d", what, index) }

func (k *checker) checkEntryKey(key []byte, next uint64) error {
	if len(key) != 9 {
		return damaged(key, "key of an entry", "%d bytes, want 9", len(key))
	}
	index := tags.IndexOf(key)
	if index != next {
		return damaged(entryKey(next), name("entry", next), "missing")
	}
	if index >= k.last.Size {
		return damaged(key, name("entry", index), "not covered by the tree head of size %d", k.last.Size)
	}
	return nil
}

func (k *checker) checkEntry(key, record []byte, index uint64) error {
	leaf, err := entry.AppendStoredLeaf(nil, record)
	if err != nil {
		return damaged(key, name("entry", index), "%v", err)
	}
	e, at, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return damaged(key, name("entry", index), "its leaf: %v", err)
	}
	if string(e.AppendStored(nil, at)) != string(record) {
		return damaged(key, name("entry", index), "not in the form it is written in")
	}
	if at < k.at {
		return damaged(key, name("entry", index), "registered at %d, before the entry in front of it (%d)", at, k.at)
	}
	k.at = at
	if err := k.tree.Append(merkle.HashLeaf(leaf)); err != nil {
		return err
	}
	if err := k.notePrefix(index + 1); err != nil {
		return err
	}
	return k.expect(e, index)
}

// notePrefix keeps the head of the first size entries if checkTree needs it.
func (k *checker) notePrefix(size uint64) (err error) {
	if size == k.anchor.Head.Size {
		k.anchored, err = k.tree.Head()
	}
	if size == k.last.PreviousSize && err == nil {
		k.previous, err = k.tree.Head()
	}
	return err
}

// checkTile compares a tile computed from the entries with the stored tile.
func (k *checker) checkTile(t merkle.Tile, hashes []byte) error {
	key, name := tileKey(t), fmt.Sprintf("tile %d/%d", t.Level, t.Index)
	stored, err := get(k.db, key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return damaged(key, name, "missing")
	case err != nil:
		return failed(name, err)
	case len(stored) != len(hashes):
		return damaged(key, name, "%d bytes, want %d", len(stored), len(hashes))
	}
	for i := 0; i < len(hashes); i += merkle.HashSize {
		want, found := merkle.Hash(hashes[i:]), merkle.Hash(stored[i:])
		if found != want {
			return damaged(key, name, "hash %d is %s, entries give %s", i/merkle.HashSize, found, want)
		}
	}
	k.report.Tiles++
	return nil
}

// checkTree compares three roots with the signed roots: over all entries, over the entries that
// the anchor covers, and over the entries before the last batch.
func (k *checker) checkTree(context.Context) error {
	head, err := k.tree.Head()
	if err != nil {
		return err
	}
	if head != k.last.Head() {
		return damaged([]byte{keyBatch}, "last batch", "signed root %s of size %d, entries give %s", k.last.Root, k.last.Size, head.Root)
	}
	if k.previous.Root != k.last.PreviousRoot {
		return damaged([]byte{keyBatch}, "last batch", "follows root %s of size %d, entries give %s", k.last.PreviousRoot, k.last.PreviousSize, k.previous.Root)
	}
	if k.anchored != k.anchor.Head {
		return otherHistory(k.anchor, k.anchored)
	}
	if k.at != k.last.At {
		return damaged([]byte{keyBatch}, "last batch", "registered at %d, its last entry at %d", k.last.At, k.at)
	}
	k.report.Entries = head.Size
	return nil
}
