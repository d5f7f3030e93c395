package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
)

// openError says why the database does not open. An error that is neither "in use" nor an error
// of the system is damage, because the engine has no class for most kinds of damage.
func openError(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
		return fmt.Errorf("%w: %s: stop the process that has the ledger open, or ask that process", ErrInUse, dir)
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	if ofSystem(err) {
		return fmt.Errorf("ledger: open %s: %w", dir, err)
	}
	return fmt.Errorf("%w: open %s: %s", ErrCorrupt, dir, engine.FirstLine(err))
}

// ofSystem reports whether an error is about the machine. After such an error, another read of
// the same bytes may succeed. A file that is missing, or is a directory, is not such an error.
func ofSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok && !disk.Absent(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, context.Canceled)
}

// classed adds the class [ErrCorrupt] to an error of the storage engine that means damage.
func classed(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !disk.Absent(err) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, engine.FirstLine(err))
}

// hasTables reports whether dir holds tables of the storage engine. A new database has no
// tables before it has its marker.
func hasTables(fs vfs.FS, dir string) (bool, error) {
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

// checkOptions reads the engine's list of its own options, as opening the database does. The
// ledger needs nothing in the list, so it removes a damaged list, unless the database is open
// for reading only.
func checkOptions(dir string, cfg *Config, options *pebble.Options) error {
	options.EnsureDefaults() // the list is compared with them
	names, err := cfg.FS.List(dir)
	if err != nil {
		return openError(dir, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		path := cfg.FS.PathJoin(dir, name)
		text, err := disk.ReadFile(cfg.FS, path)
		if err != nil {
			return openError(dir, err)
		}
		if err = options.CheckCompatibility(dir, string(text)); err == nil {
			err = engine.CheckOptionsEnd(string(text), options.String())
		}
		if err == nil {
			continue
		}
		if options.ReadOnly {
			return &DamageError{Name: path, What: engine.FirstLine(err), Spare: true}
		}
		cfg.Logger.Warn("a damaged options file of the storage engine is removed: the ledger does not need it", "path", path, "error", engine.FirstLine(err))
		if err := cfg.FS.Remove(path); err != nil {
			return openError(dir, err)
		}
	}
	return nil
}

// discardSnapshots takes the damaged snapshot out of the store. The engine cuts the range off
// the tables. A delete does not work: a compaction would read the damaged block to drop it, and
// would fail for ever.
func (l *Log) discardSnapshots(ctx context.Context) error {
	span := pebble.KeyRange{Start: []byte{keySnapshot}, End: []byte{keySnapshot + 1}}
	if err := l.db.Excise(ctx, span); err != nil {
		return fmt.Errorf("ledger: discard the damaged snapshot: %w", classed(err))
	}
	return nil
}

// renewTables rewrites the rest of each table that a range was cut off from, so that no file
// holds the damaged block any more. After a crash, the next start rewrites them. A sound store
// has no such tables.
func (l *Log) renewTables(ctx context.Context) error {
	levels, err := l.db.SSTables()
	if err != nil {
		return fmt.Errorf("ledger: list tables: %w", classed(err))
	}
	for _, tables := range levels {
		for _, table := range tables {
			if !table.Virtual {
				continue
			}
			if err := l.renew(ctx, table.Smallest.UserKey, table.Largest.UserKey); err != nil {
				return fmt.Errorf("ledger: write anew what a damaged table holds besides: %w", classed(err))
			}
		}
	}
	return nil
}

// renew makes the engine rewrite the table with the keys from first to last. The engine compacts a
// table of its lowest level only if a higher level has a key in the same range. So renew first
// writes, or deletes, the key again.
func (l *Log) renew(ctx context.Context, first, last []byte) error {
	value, err := get(l.db, first)
	switch {
	case err == nil:
		err = l.db.Set(first, value, pebble.Sync)
	case errors.Is(err, pebble.ErrNotFound):
		err = l.db.Delete(first, pebble.Sync)
	}
	if err != nil {
		return err
	}
	return l.db.Compact(ctx, first, append(slices.Clip(last), 0), false)
}
