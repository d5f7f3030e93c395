package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
)

// Convert makes the database of a stopped log in dir that of a node of c.Cluster, of which only the
// incarnation counts, or, without a Cluster, that of a single ledger. It returns the last batch;
// nil if there is no database. A caller that makes a single ledger answers for it that the database
// has everything that the cluster registered, and that no other node goes on.
func Convert(dir string, c *Config) (last *Batch, err error) {
	cfg, err := c.withDefaults(dir)
	if err != nil {
		return nil, err
	}
	if there, err := disk.Exists(cfg.FS, dir); err != nil || !there {
		return nil, err
	}
	db, err := openEngine(dir, cfg, storeOptions(cfg))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found, err := readMeta(db)
	if err != nil {
		return nil, openError(dir, err)
	}
	want := metaOf(cfg)
	if found.Format == storeFormat || found.Format == clusterFormat && want.Format == storeFormat {
		found.Format, found.Incarnation = want.Format, want.Incarnation
	}
	if err := found.check(dir, want); err != nil {
		return nil, err
	}
	if err := writeMeta(db, want); err != nil {
		return nil, openError(dir, err)
	}
	return readLastBatch(db)
}

// Copy writes a copy of the database to dir, which must not exist, while the log is used. The copy
// has every entry that is registered now. Every block of it is read: the error is [ErrCorrupt] if
// one is damaged, so that no damage spreads.
func (l *Log) Copy(dir string) error {
	if err := l.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("ledger: copy the database: %w", err)
	}
	options := storeOptions(l.cfg)
	options.EnsureDefaults()
	if err := engine.CheckTables(context.Background(), l.cfg.FS, dir, options); err != nil {
		return fmt.Errorf("ledger: copy the database: %w", err)
	}
	return nil
}
