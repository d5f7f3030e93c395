package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/disk"
)

// HasTables reports whether dir holds tables of the storage engine. A new database has no
// tables before it has its marker.
func HasTables(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			return true, nil
		}
	}
	return false, nil
}

// HasDatabase reports whether dir holds a database of the storage engine. It makes
// nothing, which an attempt to open one would.
func HasDatabase(fs vfs.FS, dir string) (bool, error) {
	there, err := disk.Exists(fs, dir)
	if err != nil || !there {
		return false, err
	}
	found, err := pebble.Peek(dir, fs)
	if err != nil {
		return false, err
	}
	return found.Exists, nil
}

// Discard takes the keys from start to below end, of which one is damaged, out of the store. The
// engine cuts the range off the tables. A delete does not work: a compaction would read the damaged
// block to drop it, and would fail for ever. RenewTables then removes the block itself.
func Discard(ctx context.Context, db *pebble.DB, start, end []byte) error {
	return Classed(db.Excise(ctx, pebble.KeyRange{Start: start, End: end}))
}

// RenewTables rewrites the rest of each table that a range was cut off from, so that no file
// holds the damaged block any more. After a crash, the next start rewrites them. A sound store
// has no such tables.
func RenewTables(ctx context.Context, db *pebble.DB) error {
	levels, err := db.SSTables()
	if err != nil {
		return fmt.Errorf("ledger: list tables: %w", Classed(err))
	}
	for _, tables := range levels {
		for _, table := range tables {
			if !table.Virtual {
				continue
			}
			if err := renew(ctx, db, table.Smallest.UserKey, table.Largest.UserKey); err != nil {
				return fmt.Errorf("ledger: write anew what a damaged table holds besides: %w", Classed(err))
			}
		}
	}
	return nil
}

// renew makes the engine rewrite the table with the keys from first to last. The engine compacts a
// table of its lowest level only if a higher level has a key in the same range. So renew first
// writes, or deletes, the key again.
func renew(ctx context.Context, db *pebble.DB, first, last []byte) error {
	value, closer, err := db.Get(first)
	switch {
	case err == nil:
		err = errors.Join(db.Set(first, value, pebble.Sync), closer.Close())
	case errors.Is(err, pebble.ErrNotFound):
		err = db.Delete(first, pebble.Sync)
	}
	if err != nil {
		return err
	}
	return db.Compact(ctx, first, append(slices.Clip(last), 0), false)
}
