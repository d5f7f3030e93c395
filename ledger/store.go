package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
)

// Keys begin with one byte that says what they are; numbers are big-endian, so
// that keys of one sort stand in order.
//
//	b                                 the last batch as JSON, sealed
//	d ‖ SHA-256 of issuer and jti     index of the entry (dedup)
//	e ‖ index                         record of the entry
//	m                                 format and origin of the database
//	s ‖ size ‖ chunk                  snapshot of the fold at size, each chunk sealed; the last one is a signed note of its digest
//	t ‖ tile level ‖ tile index       a full tile, 256 hashes
//	x ‖ index name ‖ value ‖ 0 ‖ index   secondary index: the first entry of a posting; the gaps to the others
//
// A sealed value has the SHA-256 of its key and itself in front. What no entry and
// no tree head tells from another value is sealed.
const (
	keyBatch    = 'b'
	keyEntry    = 'e'
	keyMeta     = 'm'
	keySnapshot = 's'
	keyTile     = 't'
)

// storeFormat is the format of the database of a single ledger, and clusterFormat that of a node
// of a cluster, which names its incarnation. The ledger refuses a database of another format: a
// single ledger that went on with the database of a node would fork the log of the cluster.
const (
	storeFormat   = 5
	clusterFormat = 6
)

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyEntry}, index)
}

// entryOf returns the index in the key of a record; for another key, one that no entry has.
func entryOf(key []byte) uint64 {
	if len(key) != 1+8 {
		return math.MaxUint64
	}
	return tags.IndexOf(key)
}

func tileKey(t merkle.Tile) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyTile, byte(t.Level)}, t.Index)
}

func snapshotKey(size uint64, chunk uint32) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keySnapshot}, size)
	return binary.BigEndian.AppendUint32(key, chunk)
}

// meta identifies a database.
type meta struct {
	Format int    `json:"format"`
	Origin string `json:"origin"`
	// Incarnation is that of the cluster, in hexadecimal digits; empty for a single ledger.
	Incarnation string `json:"incarnation,omitempty"`
}

// metaOf returns what identifies a database that cfg makes.
func metaOf(cfg *Config) meta {
	m := meta{Format: storeFormat, Origin: cfg.Origin, Incarnation: cfg.Cluster.incarnation()}
	if cfg.Cluster != nil {
		m.Format = clusterFormat
	}
	return m
}

// Batch is the result of one commit: the unit of order. It is appended only to the batch before it,
// so that another engine can replace the embedded append by comparing Seq.
type Batch struct {
	Seq          uint64      `json:"seq"`
	PreviousSize uint64      `json:"previous_size"`
	PreviousRoot merkle.Hash `json:"previous_root"`
	Size         uint64      `json:"size"`
	Root         merkle.Hash `json:"root"`
	At           int64       `json:"at"`   // registered_at of its entries
	Note         string      `json:"note"` // signed tree head of Size and Root
}

// Head returns the tree head that the batch leads to.
func (b *Batch) Head() merkle.Head { return merkle.Head{Size: b.Size, Root: b.Root} }

// openStore opens the database, or makes a new one.
func openStore(dir string, cfg *Config) (*pebble.DB, error) {
	db, err := openEngine(dir, cfg, storeOptions(cfg))
	if err != nil {
		return nil, err
	}
	found, err := readMeta(db)
	if errors.Is(err, pebble.ErrNotFound) && (!cfg.Used || cfg.Cluster != nil) {
		if err = writeMeta(db, metaOf(cfg)); err == nil {
			found, err = readMeta(db)
		}
	}
	if err != nil {
		err = openError(dir, err)
	} else {
		err = found.check(dir, metaOf(cfg))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// LostRemedy is the remedy for a log that is gone, or that has lost its newest entries.
const LostRemedy = "restore the newest copy, or rebuild the database from an export (arl log import); if entries are lost for good, continue under a new origin (arl ledger new-origin)"

// openEngine opens the storage engine. Where there is an anchor, or keys that were
// used, there was a database: a lost one is not replaced by an empty one.
func openEngine(dir string, cfg *Config, options *pebble.Options) (*pebble.DB, error) {
	anchored, failed := disk.Exists(cfg.FS, cfg.Anchor)
	made, err := disk.Exists(cfg.FS, dir)
	if err = errors.Join(failed, err); err != nil {
		return nil, openError(dir, err)
	}
	tables := false
	if made {
		if tables, err = engine.HasTables(cfg.FS, dir); err != nil {
			return nil, openError(dir, err)
		}
		if err := engine.CheckFormat(cfg.FS, dir); err != nil {
			return nil, fmt.Errorf("%w: %s has %w", ErrFormat, dir, err)
		}
		if err := checkOptions(dir, cfg, options); err != nil {
			return nil, err
		}
	}
	options.ErrorIfNotExists = anchored || tables || options.ReadOnly || cfg.Used && cfg.Cluster == nil
	there := true
	if options.ErrorIfNotExists {
		if there, err = engine.HasDatabase(cfg.FS, dir); err != nil {
			return nil, openError(dir, err)
		}
	}
	var db *pebble.DB
	if err = pebble.ErrDBDoesNotExist; there {
		db, err = pebble.Open(dir, options)
	}
	switch {
	case errors.Is(err, pebble.ErrDBDoesNotExist) && tables:
		return nil, fmt.Errorf("%w: open %s: there are tables, but no file marker.manifest.* that says which list of them counts", ErrCorrupt, dir)
	case errors.Is(err, pebble.ErrDBNotPristine):
		return nil, fmt.Errorf("%w: open %s: the file marker.format-version.* is missing", ErrCorrupt, dir)
	case errors.Is(err, pebble.ErrDBDoesNotExist) && anchored:
		return nil, fmt.Errorf("%w: %s has no database, but there is an anchor, %s: %s", ErrRolledBack, dir, cfg.Anchor, LostRemedy)
	case errors.Is(err, pebble.ErrDBDoesNotExist) && cfg.Used:
		return nil, fmt.Errorf("%w: %s has no database, but its keys have signed tree heads: %s", ErrLost, dir, LostRemedy)
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return nil, fmt.Errorf("%w: %s has no database: restore the newest copy", ErrNotFound, dir)
	case err != nil:
		return nil, openError(dir, err)
	}
	return db, nil
}

// check refuses a database that this program, or this ledger, did not make.
func (m meta) check(dir string, want meta) error {
	switch {
	case m.Incarnation != "" && want.Format == storeFormat:
		return fmt.Errorf("%w: %s is the database of a node of a cluster, incarnation %s: open it as a node of that cluster, since the other nodes go on without it", ErrFormat, dir, m.Incarnation)
	case m.Format == storeFormat && want.Format == clusterFormat:
		return fmt.Errorf("%w: %s is the database of a single ledger, and not of a node of the cluster %s", ErrFormat, dir, want.Incarnation)
	case m.Format != want.Format:
		return fmt.Errorf("%w: %s has format %d, want %d: open the ledger with the version of arl that made it", ErrFormat, dir, m.Format, want.Format)
	case m.Origin != want.Origin:
		return fmt.Errorf("%w: %s is the log of %s, the keys are those of %s: restore the keys of %[3]s", ErrOrigin, dir, m.Origin, want.Origin)
	case m.Incarnation != want.Incarnation:
		return fmt.Errorf("%w: %s is of incarnation %s of the cluster, and this node is to be of %s: what stands in another incarnation may be "+
			"another history", ErrFormat, dir, m.Incarnation, want.Incarnation)
	}
	return nil
}

func storeOptions(cfg *Config) *pebble.Options {
	logger := &engine.Logger{To: cfg.Logger, Ends: cfg.Fatal}
	options := &pebble.Options{
		FS:                          disk.Guard(cfg.FS, cfg.Fatal),
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      logger,
		CacheSize:                   blockCache,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 3,
		L0StopWritesThreshold:       64,
	}
	if cfg.Cluster != nil {
		options.CacheSize = nodeCache
	}
	// Entries never change, but dedup keys are spread over the whole range, so that
	// a compaction of recent files rewrites much: they are half as frequent as by
	// default. The filter in front of the dedup index pays for the additional files.
	options.L0CompactionThreshold = 8
	options.EventListener = &pebble.EventListener{DataCorruption: logger.Corruption, BackgroundError: logger.Background}
	// Processor time bounds the rate of entries, and not space.
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		options.Levels[i].BlockSize = blockSize
	}
	return options
}

func readMeta(db *pebble.DB) (m meta, err error) {
	value, err := get(db, []byte{keyMeta})
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return m, fmt.Errorf("%w: key %q: %v", ErrCorrupt, keyMeta, err)
	}
	return m, nil
}

// writeMeta makes the database a log's. The flush begins the second write-ahead log, before
// anything is acknowledged: only from that one on does the format detect flipped bits.
func writeMeta(db *pebble.DB, m meta) error {
	value, err := json.Marshal(m)
	if err == nil {
		err = db.Set([]byte{keyMeta}, value, pebble.Sync)
	}
	if err != nil {
		return err
	}
	return db.Flush()
}

// readLastBatch returns the last batch, or the empty one before the first.
func readLastBatch(r pebble.Reader) (*Batch, error) {
	value, err := get(r, []byte{keyBatch})
	if errors.Is(err, pebble.ErrNotFound) {
		if err := hasNoEntry(r); err != nil {
			return nil, err
		}
		empty := merkle.EmptyHead()
		return &Batch{PreviousRoot: empty.Root, Root: empty.Root}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read last batch: %w", err)
	}
	last := new(Batch)
	if err := last.open(value); err != nil {
		return nil, fmt.Errorf("%w: key %q: %v", ErrCorrupt, keyBatch, err)
	}
	return last, nil
}

// hasNoEntry returns an error unless there is no entry, and no entry was lost. Without a batch,
// nothing may be signed over the entries that are there.
func hasNoEntry(r pebble.Reader) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{keyEntry}, UpperBound: []byte{keyEntry + 1}})
	if err != nil {
		return fmt.Errorf("ledger: read last batch: %w", engine.Classed(err))
	}
	found := it.First()
	if err := engine.Classed(it.Close()); err != nil {
		return fmt.Errorf("ledger: read last batch: %w", err)
	}
	if found {
		return fmt.Errorf("%w: key %q: it is missing, but there are entries", ErrCorrupt, keyBatch)
	}
	return nil
}

// seal returns the stored form.
func (b *Batch) seal() ([]byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return engine.Seal([]byte{keyBatch}, text), nil
}

func (b *Batch) open(value []byte) error {
	text, ok := engine.Unseal([]byte{keyBatch}, value)
	if !ok {
		return errors.New("it does not match its digest")
	}
	return json.Unmarshal(text, b)
}

// get returns a copy of the value of key.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if err != nil {
		return nil, engine.Classed(err)
	}
	out := append([]byte(nil), value...)
	return out, closer.Close()
}

// NotInUse is [ErrInUse] if a process has the database in dir open.
func NotInUse(dir string) error {
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return openError(dir, err)
	}
	return lock.Close()
}
