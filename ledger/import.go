package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
)

// ImportConfig describes an import.
type ImportConfig struct {
	// Export is the directory of an export, as [export.Write] writes it. Mandatory.
	Export string
	// Newest are tree heads that an operator vouches for as the newest signed tree heads. If
	// there is no anchor, one is mandatory: it alone shows that the export is not too old. The
	// caller has checked the signatures.
	Newest []KnownHead
	// Seen are other signed tree heads. The export must cover them too, but they do not show
	// that no newer tree head was signed.
	Seen []KnownHead
	// Newer is the remedy for an export that lacks a known head. Empty: to import a newer export.
	Newer string
	// Progress is called with the number of copied entries and the total. Nil: no call.
	Progress func(done, total uint64)
}

// KnownHead is a tree head that was signed. By says who knows the head, for errors, as in "this
// machine has accepted a signed tree head".
type KnownHead struct {
	merkle.Head
	By string
}

// ImportReport is the result of an import.
type ImportReport struct {
	Head    merkle.Head `json:"head"`    // of the log that is there now
	Resumed uint64      `json:"resumed"` // entries that an earlier import had copied
	Already bool        `json:"already"` // the database was there, whole, before the import
}

const (
	// importSuffix ends the name of the directory in which a database is rebuilt. A whole
	// database gets its final name, so that a part is never taken for a log.
	importSuffix = ".import"
	// importBundles is the number of entry bundles in a commit. A crash loses one commit.
	importBundles = 16
)

// Import rebuilds the database of a log at dir from an export. It copies the
// entries and computes everything else from them: tiles, which must be those of the
// export, dedup keys, indexes, the fold. The entries count only if they give the
// root of the export's tree head, which one of the keys must have signed.
//
// The head must cover the anchor, and every head in [ImportConfig]: a log that lost
// acknowledged entries would sign others for the same sizes.
//
// Everything is rebuilt beside dir and gets its name at the end, after the anchor. A crash at any
// moment leaves no database, or the whole one; the next Import goes on where it was.
//
// The error is [os.ErrNotExist] if there is no export; [ErrOrigin] or [ErrKeys] if it is of
// another log, or signed by none of the keys; [export.ErrDamaged] if its files are damaged or
// missing; [ErrCorrupt] if what was rebuilt is damaged; [ErrRolledBack] if a newer head was
// signed; [ErrAnchor] if nothing says which head is the newest; [os.ErrExist] if dir holds
// something else; [ErrInUse] while another import runs.
func Import(ctx context.Context, dir string, c *Config, i *ImportConfig) (*ImportReport, error) {
	cfg, err := c.withDefaults(dir)
	if err == nil {
		err = cfg.canWrite()
	}
	if err != nil {
		return nil, err
	}
	x, err := openExport(i.Export, cfg)
	if err != nil {
		return nil, err
	}
	report := &ImportReport{Head: x.Head}
	if report.Already, err = isImported(dir, cfg, x.Head); err != nil {
		return nil, err
	}
	if err := checkKnown(x, cfg, i); err != nil {
		return nil, err
	}
	if report.Already {
		return report, nil
	}
	staging := dir + importSuffix
	m := &importer{cfg: cfg, export: x, progress: i.Progress}
	if report.Resumed, err = m.run(ctx, staging); err != nil {
		return nil, err
	}
	if err := finishImport(staging, cfg, x.Head, len(i.Newest) > 0); err != nil {
		if errors.Is(err, ErrCorrupt) { // the next import begins again
			err = errors.Join(err, cfg.FS.RemoveAll(staging))
		}
		return nil, err
	}
	// A crash before it leaves no database under a new anchor: the log is still not
	// taken for whole, and the next import comes here at once.
	if err := cfg.FS.Rename(staging, dir); err != nil {
		return nil, fmt.Errorf("ledger: import: %w", err)
	}
	return report, wrapImport(disk.SyncDir(cfg.FS, cfg.FS.PathDir(dir)))
}

func wrapImport(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: import: %w", err)
}

// isImported reports whether dir is the database that an import would make. It does not touch
// any other content of dir.
func isImported(dir string, cfg *Config, head merkle.Head) (bool, error) {
	there, err := disk.Exists(cfg.FS, dir)
	if err != nil || !there {
		return false, wrapImport(err)
	}
	names, err := cfg.FS.List(dir)
	if err != nil || len(names) == 0 {
		return false, wrapImport(err)
	}
	if there, err = engine.HasDatabase(cfg.FS, dir); err != nil {
		return false, openError(dir, err)
	}
	if !there {
		return false, fmt.Errorf("ledger: import: %s holds %s and no database: %w: move this file away", dir, names[0], os.ErrExist)
	}
	options := storeOptions(cfg)
	options.ReadOnly = true
	db, err := openEngine(dir, cfg, options)
	if err != nil {
		return false, err
	}
	last, err := readLastBatch(db)
	if err := errors.Join(err, db.Close()); err != nil {
		return false, err
	}
	if last.Head() != head || checkHead(cfg.Origin, cfg.Keys, last) != nil {
		return false, fmt.Errorf("ledger: import: %s holds a database of size %d, the export has %d: %w: arl serve continues it; "+
			"to rebuild the log all the same, move the database away", dir, last.Size, head.Size, os.ErrExist)
	}
	return true, nil
}

// finishImport opens the rebuilt database as a start does: every entry is hashed
// again, the fold is built, the anchor is written anew.
func finishImport(dir string, cfg *Config, head merkle.Head, named bool) error {
	c := *cfg
	c.Used, c.AcceptAnchor = true, named
	log, err := Open(dir, &c)
	if err != nil {
		return err
	}
	if found := log.Head().Head; found != head {
		return errors.Join(fmt.Errorf("%w: %s has size %d, want %d", ErrCorrupt, dir, found.Size, head.Size), log.Close())
	}
	ended, end := context.WithCancel(context.Background())
	end() // it takes nothing, but leaves a snapshot, so that the first start is a fast one
	return errors.Join(log.Run(ended), log.Close())
}

// importer is one run of Import.
type importer struct {
	cfg      *Config
	export   *export.Dir
	progress func(done, total uint64)

	db     *pebble.DB
	tree   *merkle.TileBuilder
	batch  *pebble.Batch
	tagged tags.Postings
	next   uint64 // index of the next entry
	at     int64  // registered_at of the one before
}

// run copies the entries that the database in dir lacks, and returns the number that it had.
func (m *importer) run(ctx context.Context, dir string) (resumed uint64, err error) {
	done, err := m.open(dir)
	if err != nil {
		return 0, err
	}
	resumed = m.next
	if !done {
		err = m.copy(ctx)
	}
	return resumed, errors.Join(err, m.db.Close())
}

// open opens the database that is being rebuilt, or makes it. It makes the database anew if the
// database is damaged, or does not begin as the export does, for example after an import of an
// older export. done reports that nothing is left to copy.
func (m *importer) open(dir string) (done bool, err error) {
	c := *m.cfg
	c.Anchor, c.Used = dir+".anchor", false // there is none: the anchor is the log's, once it is whole
	for range 2 {
		if m.db, err = openStore(dir, &c); err == nil {
			if done, err = m.resume(); err == nil {
				return done, nil
			}
			err = errors.Join(err, m.db.Close())
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, errOtherPart) {
			return false, err
		}
		if err := c.FS.RemoveAll(dir); err != nil {
			return false, wrapImport(err)
		}
		m.next, m.at = 0, 0
	}
	return false, err
}

// errOtherPart reports a part of a log that is not the beginning of the export.
var errOtherPart = errors.New("ledger: import: not a part of the export")

// resume finds out how far an earlier import came. A part consists of whole tiles. The part
// fits if it is the beginning of the export.
func (m *importer) resume() (done bool, err error) {
	if m.next, err = countEntries(m.db); err != nil {
		return false, err
	}
	_, err = get(m.db, []byte{keyBatch})
	whole := err == nil
	if whole {
		last, err := readLastBatch(m.db)
		if err == nil && last.Head() == m.export.Head && m.next == last.Size {
			return true, nil
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return false, err
	}
	if whole || m.next%merkle.TileWidth != 0 || m.next > m.export.Head.Size {
		return false, errOtherPart
	}
	if m.next == 0 {
		return false, nil
	}
	if m.at, err = registeredAt(m.db, m.next-1); err != nil {
		return false, err
	}
	frontier, err := merkle.NewFrontier(m.next, storedNodes(m.db))
	if err != nil {
		return false, err
	}
	here, err := frontier.Head()
	if err != nil {
		return false, err
	}
	there, err := m.export.HeadAt(m.next)
	if err == nil && here != there {
		err = errOtherPart
	}
	return false, err
}

// countEntries returns the number of entries in a database that is being rebuilt. A commit
// holds all of its entries, in their order.
func countEntries(db *pebble.DB) (n uint64, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyEntry}, UpperBound: []byte{keyEntry + 1}})
	if err != nil {
		return 0, engine.Classed(err)
	}
	if it.Last() {
		n = entryOf(it.Key()) + 1
	}
	return n, engine.Classed(it.Close())
}

func registeredAt(db *pebble.DB, index uint64) (int64, error) {
	record, err := get(db, entryKey(index))
	if err != nil {
		return 0, err
	}
	_, at, err := entry.DecodeStored(record)
	if err != nil {
		err = fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	return at, err
}

// storedNodes reads the nodes of a tree of whole tiles from the nodes of the lowest level.
func storedNodes(db *pebble.DB) merkle.NodeReader {
	return func(level uint, index uint64) (merkle.Hash, error) {
		roots := make([]merkle.Hash, 1<<(level-merkle.TileHeight)) // a whole tile has one at that height
		for i := range roots {
			t, err := readTile(db, merkle.Tile{Index: index*uint64(len(roots)) + uint64(i), Width: merkle.TileWidth})
			if err != nil {
				return merkle.Hash{}, err
			}
			roots[i] = t.Root()
		}
		for ; len(roots) > 1; roots = roots[:len(roots)/2] {
			for i := range len(roots) / 2 {
				roots[i] = merkle.HashChildren(roots[2*i], roots[2*i+1])
			}
		}
		return roots[0], nil
	}
}

// copy copies the entries from the next one on, and ends with the tree head.
func (m *importer) copy(ctx context.Context) (err error) {
	if m.tree, err = merkle.NewTileBuilder(m.next, m.export.Hashes, m.putTile); err != nil {
		return err
	}
	for size := m.export.Head.Size; ; {
		m.batch, m.tagged = m.db.NewBatch(), tags.Postings{}
		for range importBundles {
			if m.next == size {
				break
			}
			if err := m.copyBundle(ctx); err != nil {
				return errors.Join(err, m.batch.Close())
			}
		}
		if err := m.commit(); err != nil {
			return err
		}
		if m.progress != nil {
			m.progress(m.next, size)
		}
		if m.next == size {
			return nil
		}
	}
}

func (m *importer) copyBundle(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := merkle.Tile{Entries: true, Index: m.next / merkle.TileWidth, Width: int(min(merkle.TileWidth, m.export.Head.Size-m.next))}
	leaves, err := m.export.Leaves(t)
	if err != nil {
		return err
	}
	for _, leaf := range leaves {
		if err := m.put(leaf); err != nil {
			return fmt.Errorf("%w: %s: entry %d: %v", export.ErrDamaged, m.export.Path(t), m.next, err)
		}
		if err := m.tree.Append(merkle.HashLeaf(leaf)); err != nil {
			return err
		}
		m.next++
	}
	return nil
}

// put writes an entry, and notes its places in the indexes.
func (m *importer) put(leaf []byte) error {
	e, at, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return err
	}
	record := e.AppendStored(nil, at)
	if again, err := entry.AppendStoredLeaf(nil, record); err != nil || !bytes.Equal(again, leaf) {
		return errors.Join(errors.New("it is not in the form that it is written in"), err)
	}
	if at < m.at {
		return fmt.Errorf("registered at %d, before the entry in front of it (%d)", at, m.at)
	}
	m.at = at
	own := dedup.Key(e)
	for _, tag := range e.Tags(m.next) {
		m.tagged.Add(tag, m.next)
	}
	return errors.Join(m.batch.Set(entryKey(m.next), record, nil),
		m.batch.Set(own[:], binary.BigEndian.AppendUint64(nil, m.next), nil))
}

// putTile writes a full tile, which must be that of the export.
func (m *importer) putTile(t merkle.Tile, hashes []byte) error {
	if err := m.compare(t, hashes); err != nil {
		return err
	}
	return m.batch.Set(tileKey(t), hashes, nil)
}

// compare compares a tile computed from the entries with the tile of the export.
func (m *importer) compare(t merkle.Tile, hashes []byte) error {
	exported, err := m.export.Hashes(t)
	if err != nil {
		return err
	}
	for i := 0; i < len(hashes); i += merkle.HashSize {
		if bytes.Equal(hashes[i:i+merkle.HashSize], exported[i:i+merkle.HashSize]) {
			continue
		}
		what := fmt.Sprintf("hash %d is not that of the tiles below it", i/merkle.HashSize)
		if t.Level == 0 {
			what = fmt.Sprintf("its hash %d is not that of entry %d", i/merkle.HashSize, t.Index*merkle.TileWidth+uint64(i/merkle.HashSize))
		}
		return fmt.Errorf("%w: %s: %s: one of the two was changed", export.ErrDamaged, m.export.Path(t), what)
	}
	return nil
}

// commit makes the copied entries durable. The last commit carries the tree head.
func (m *importer) commit() error {
	keys := make([]indexKey, 0, len(m.tagged))
	for tag, in := range m.tagged {
		keys = append(keys, indexKey{tags.Key(tag, in.First), in.Gaps})
	}
	slices.SortFunc(keys, func(a, b indexKey) int { return bytes.Compare(a.key, b.key) })
	var err error
	for _, k := range keys {
		err = errors.Join(err, m.batch.Set(k.key, k.value, nil))
	}
	if m.next == m.export.Head.Size && err == nil {
		err = m.putHead()
	}
	if err == nil {
		err = m.batch.Commit(pebble.Sync)
	}
	return errors.Join(err, m.batch.Close())
}

// putHead writes the tree head, if the entries give it. In which batches they were
// committed the export does not say: they stand as one, under the largest number
// that it can have had, so that no anchor of the past is beyond it.
func (m *importer) putHead() error {
	for t, hashes := range m.tree.Partial() {
		if err := m.compare(t, hashes); err != nil {
			return err
		}
	}
	head, err := m.tree.Head()
	if err != nil {
		return err
	}
	if head != m.export.Head {
		return fmt.Errorf("%w: the entries of %s give root %s for size %d, signed is %s", export.ErrDamaged, m.export.Name(), head.Root, head.Size, m.export.Head.Root)
	}
	last := &Batch{Seq: head.Size, PreviousRoot: merkle.EmptyHead().Root, Size: head.Size, Root: head.Root, At: m.at, Note: m.export.Note}
	value, err := last.seal()
	if err != nil {
		return err
	}
	return m.batch.Set([]byte{keyBatch}, value, nil)
}
