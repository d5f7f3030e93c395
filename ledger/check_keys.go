package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
)

// expectedKey is a key that the store must hold because of an entry.
type expectedKey struct {
	key   []byte
	index uint64 // of the entry
}

// checkBatchKeys is the number of keys that are looked up together. The keys are sorted, so each
// block of the store is read once for all of them.
const checkBatchKeys = 1 << 18

// scan iterates over all keys of one sort.
func (k *checker) scan(ctx context.Context, sort byte) (*pebble.Iterator, error) {
	it, err := k.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{sort}, UpperBound: []byte{sort + 1}})
	if err != nil {
		return nil, failed("keys", err)
	}
	return it, nil
}

// expect notes the dedup key and the index keys of an entry.
func (k *checker) expect(e *entry.Entry, index uint64) error {
	own := dedup.Key(e)
	k.keys = append(k.keys, expectedKey{own[:], index})
	for _, tag := range e.Tags(index) {
		k.keys = append(k.keys, expectedKey{tags.Key(tag, index), index})
	}
	if len(k.keys) < checkBatchKeys {
		return nil
	}
	return k.checkKeys(context.Background())
}

// checkKeys looks up the noted keys.
func (k *checker) checkKeys(ctx context.Context) error {
	slices.SortFunc(k.keys, func(a, b expectedKey) int { return bytes.Compare(a.key, b.key) })
	it, err := k.db.NewIterWithContext(ctx, &pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return failed("keys", err)
	}
	var read openPosting
	for _, want := range k.keys {
		if want.key[0] == tags.KeyPrefix {
			err = k.checkTag(it, &read, want)
		} else {
			err = k.checkDedup(it, want)
		}
		if err != nil {
			break
		}
	}
	k.keys = k.keys[:0]
	if closeErr := it.Close(); err == nil {
		err = failed("keys", closeErr)
	}
	return err
}

func (k *checker) checkDedup(it *pebble.Iterator, want expectedKey) error {
	found := it.SeekPrefixGE(want.key)
	if err := it.Error(); err != nil {
		return failed(nameOf(want), err)
	}
	if !found {
		return damaged(want.key, nameOf(want), "missing")
	}
	k.report.Dedup++
	if len(it.Value()) != 8 || tags.IndexOf(it.Value()) != want.index {
		return damaged(want.key, nameOf(want), "says %x", it.Value())
	}
	return nil
}

// openPosting is the last posting read.
type openPosting struct {
	key     []byte
	entries []uint64
}

// checkTag finds the entry in the posting that may hold it. That is the last posting of the tag
// that does not begin after the entry. The store does not record which entries were committed
// together, so the postings of a tag are checked against all entries of the tag together.
func (k *checker) checkTag(it *pebble.Iterator, read *openPosting, want expectedKey) error {
	if n := len(read.entries); n == 0 || !tags.Same(read.key, want.key) || read.entries[n-1] < want.index {
		found := it.SeekLT(append(slices.Clip(want.key), 0))
		if err := it.Error(); err != nil {
			return failed(nameOf(want), err)
		}
		if !found || !tags.Same(it.Key(), want.key) {
			return damaged(want.key, nameOf(want), "missing")
		}
		entries, err := tags.Parse(it.Key(), it.Value())
		if err != nil {
			return damaged(it.Key(), nameOf(want), "%v", err)
		}
		*read = openPosting{bytes.Clone(it.Key()), entries}
	}
	switch at, found := slices.BinarySearch(read.entries, want.index); {
	case !found && at == len(read.entries):
		return damaged(want.key, nameOf(want), "missing")
	case !found:
		return damaged(read.key, nameOf(want), "passes over the entry")
	}
	k.report.Tags++
	return nil
}

func nameOf(k expectedKey) string {
	if k.key[0] == tags.KeyPrefix {
		return fmt.Sprintf("index key %s of entry %d", k.key[1:len(k.key)-9], k.index)
	}
	return name("dedup key of entry", k.index)
}

// checkTiles finds stored tiles that the tree does not have.
func (k *checker) checkTiles(ctx context.Context) error {
	it, err := k.scan(ctx, keyTile)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		key := it.Key()
		if len(key) != 10 || tags.IndexOf(key) >= merkle.FullTiles(uint(key[1]), k.last.Size) {
			err = damaged(key, "tile", "not in a tree of size %d", k.last.Size)
		}
	}
	return errors.Join(err, failed("tiles", it.Close()))
}

// checkCounts finds dedup keys and postings that belong to no entry. Every entry has its own
// keys, so such a key exists only if the store holds more keys than the entries need.
func (k *checker) checkCounts(ctx context.Context) error {
	for _, sort := range []struct {
		prefix byte
		want   uint64
		count  func(it *pebble.Iterator) (uint64, error)
	}{{dedup.KeyPrefix, k.report.Dedup, countOne}, {tags.KeyPrefix, k.report.Tags, new(postingCounter).count}} {
		it, err := k.scan(ctx, sort.prefix)
		if err != nil {
			return err
		}
		all := uint64(0)
		for ok := it.First(); ok && err == nil && ctx.Err() == nil; ok = it.Next() {
			var n uint64
			n, err = sort.count(it)
			all += n
		}
		if all != sort.want {
			for ok := it.First(); ok && err == nil && ctx.Err() == nil; ok = it.Next() {
				err = k.checkOwners(it.Key(), it.Value())
			}
		}
		if err := errors.Join(err, failed("keys", it.Close()), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func countOne(*pebble.Iterator) (uint64, error) { return 1, nil }

// postingCounter counts the entries of postings. It checks that the postings of a tag follow
// each other, so that no entry occurs twice.
type postingCounter struct {
	key  []byte // of the previous posting
	last uint64 // its last entry
}

func (c *postingCounter) count(it *pebble.Iterator) (uint64, error) {
	entries, err := tags.Parse(it.Key(), it.Value())
	if err != nil {
		return 0, damaged(it.Key(), "index key", "%v", err)
	}
	if tags.Same(c.key, it.Key()) && entries[0] <= c.last {
		return 0, damaged(it.Key(), "index key", "begins at entry %d, but the one before ends at %d", entries[0], c.last)
	}
	c.key, c.last = append(c.key[:0], it.Key()...), entries[len(entries)-1]
	return uint64(len(entries)), nil
}

// checkOwners finds the entries that own a dedup key or a posting.
func (k *checker) checkOwners(key, value []byte) error {
	if key[0] == dedup.KeyPrefix {
		if len(value) != 8 {
			return damaged(key, "dedup key", "belongs to no entry")
		}
		return k.checkOwner(key, "dedup key", tags.IndexOf(value), func(e *entry.Entry) bool {
			own := dedup.Key(e)
			return bytes.Equal(key, own[:])
		})
	}
	entries, err := tags.Parse(key, value)
	if err != nil {
		return damaged(key, "index key", "%v", err)
	}
	for _, index := range entries {
		err := k.checkOwner(key, "index key", index, func(e *entry.Entry) bool {
			return slices.ContainsFunc(e.Tags(index), func(tag entry.Tag) bool { return tags.Same(key, tags.Key(tag, index)) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) checkOwner(key []byte, what string, index uint64, owns func(*entry.Entry) bool) error {
	if index >= k.last.Size {
		return damaged(key, what, "belongs to no entry")
	}
	record, err := get(k.db, entryKey(index))
	if err != nil {
		return failed(what, err)
	}
	e, _, err := entry.DecodeStored(record)
	if err != nil {
		return failed(what, err)
	}
	if !owns(e) {
		return damaged(key, what, "does not belong to entry %d", index)
	}
	return nil
}

// checkRest finds keys of no known sort.
func (k *checker) checkRest(ctx context.Context) error {
	it, err := k.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return failed("keys", err)
	}
	for ok := it.First(); ok && err == nil; {
		switch key := it.Key(); {
		case len(key) == 1 && (key[0] == keyBatch || key[0] == keyMeta):
			ok = it.Next()
		case len(key) > 1 && bytes.IndexByte([]byte{dedup.KeyPrefix, keyEntry, keySnapshot, keyTile, tags.KeyPrefix}, key[0]) >= 0:
			ok = it.SeekGE([]byte{key[0] + 1})
		default:
			err = damaged(key, "unknown key", "nothing writes it")
		}
	}
	return errors.Join(err, failed("keys", it.Close()))
}

// storedSnapshot is the content of the keys of a snapshot.
type storedSnapshot struct {
	size     uint64
	chunks   uint32
	complete bool
}

// readSnapshots checks the keys of the snapshots. The chunks must be in sequence, and the first
// snapshot, if any, must be complete. Incomplete snapshots may follow the first. Nothing reads
// them, and the next snapshot removes them.
func (k *checker) readSnapshots(ctx context.Context) error {
	it, err := k.scan(ctx, keySnapshot)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = k.readChunk(it.Key(), it.Value())
	}
	return errors.Join(err, failed("snapshots", it.Close()))
}

func (k *checker) readChunk(key, value []byte) error {
	c, ok := parseChunk(key, value)
	if !ok {
		return damaged(key, "snapshot", "not a chunk that was written: it does not match its digest")
	}
	size, chunk := c.size, c.chunk
	what := fmt.Sprintf("chunk %d of the snapshot at %d", chunk, size)
	n := len(k.snapshots)
	if n == 0 || k.snapshots[n-1].size != size {
		if size == 0 || size > k.last.Size {
			return damaged(key, what, "in a log of size %d", k.last.Size)
		}
		k.snapshots = append(k.snapshots, storedSnapshot{size: size})
		n++
	}
	s := &k.snapshots[n-1]
	if chunk != s.chunks || s.complete {
		return damaged(key, what, "out of sequence")
	}
	s.chunks++
	if !c.last {
		return nil
	}
	if s.complete = true; n > 1 {
		return damaged(key, what, "completes a snapshot, but should not")
	}
	k.report.Snapshots++
	return nil
}

// checkFold replays the entries and compares the state with the snapshot. The earlier checks
// have found the entries good.
func (k *checker) checkFold(ctx context.Context) error {
	fold := k.cfg.NewFold()
	for e, err := range bulkEntries(ctx, k.db, 0, k.last.Size) {
		if err != nil {
			return wrap("fold", err)
		}
		fold.Apply(e.Entry, e.Index, e.RegisteredAt)
		if len(k.snapshots) > 0 && k.snapshots[0].complete && k.snapshots[0].size == e.Index+1 {
			if err := k.checkSnapshot(ctx, fold); err != nil {
				return err
			}
		}
		k.step()
	}
	return nil
}

// checkSnapshot compares the state of the fold with its snapshot.
func (k *checker) checkSnapshot(ctx context.Context, fold Fold) error {
	s := k.snapshots[0]
	it, err := k.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: snapshotKey(s.size, 0), UpperBound: snapshotKey(s.size, s.chunks)})
	if err != nil {
		return failed("snapshot", err)
	}
	w := &snapshotComparer{it: it, sum: sha256.New(), size: s.size, cfg: k.cfg, name: name("snapshot at", s.size)}
	w.read(it.First())
	if err = fold.Snapshot(w); err == nil {
		err = w.end()
	}
	if err != nil && k.isOtherVersion(it, s.size) {
		err = nil
	}
	return errors.Join(err, failed(w.name, it.Close()))
}

// isOtherVersion reports whether a snapshot is whole but in a form that the fold does not know.
// The ledger restores nothing from such a snapshot, and the next snapshot replaces it.
func (k *checker) isOtherVersion(it *pebble.Iterator, size uint64) bool {
	unknown, err := restoreChunks(k.cfg, it, k.cfg.NewFold(), size)
	return unknown != nil && err == nil
}

// snapshotComparer compares the written bytes with the chunks of a snapshot.
type snapshotComparer struct {
	it    *pebble.Iterator
	chunk snapshotChunk // the current chunk; its data is the part not compared yet
	valid bool          // there is a current chunk
	sum   hash.Hash
	size  uint64
	cfg   *Config
	name  string
}

// read makes the chunk at the iterator the current chunk, if the iterator is at a chunk.
func (w *snapshotComparer) read(ok bool) {
	if w.valid = ok; ok {
		w.chunk, w.valid = parseChunk(w.it.Key(), w.it.Value())
	}
}

// Write implements [io.Writer].
func (w *snapshotComparer) Write(p []byte) (int, error) {
	w.sum.Write(p)
	for rest := p; len(rest) > 0; {
		if !w.valid || w.chunk.last {
			return 0, damaged(w.it.Key(), w.name, "ends before the state")
		}
		n := min(len(w.chunk.data), len(rest))
		if !bytes.Equal(w.chunk.data[:n], rest[:n]) {
			return 0, damaged(w.it.Key(), w.name, "is not the state that the entries give")
		}
		rest, w.chunk.data = rest[n:], w.chunk.data[n:]
		if len(w.chunk.data) == 0 {
			w.read(w.it.Next())
		}
	}
	return len(p), nil
}

// end ends the comparison. The caller has written the whole state.
func (w *snapshotComparer) end() error {
	switch {
	case !w.valid:
		return damaged(nil, w.name, "ends early")
	case !w.chunk.last:
		return damaged(w.it.Key(), w.name, "goes on behind the state")
	}
	if err := checkSnapshotNote(w.cfg, w.chunk.data, w.size, [sha256.Size]byte(w.sum.Sum(nil))); err != nil {
		return damaged(w.it.Key(), w.name, "has another digest than the state, or is not signed by the ledger: %v", err)
	}
	return nil
}
