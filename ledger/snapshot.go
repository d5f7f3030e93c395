package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// snapshotChunk is a piece of a fold snapshot on its way into the store. Chunks
// travel with ordinary commits; the last one carries the SHA-256 of all others in
// a note that the ledger's key signed, and makes the snapshot count.
type snapshotChunk struct {
	size  uint64
	chunk uint32
	data  []byte
	last  bool
}

// parseChunk reads a stored chunk. Its data is that of value. ok is false if the chunk differs from
// the written chunk.
func parseChunk(key, value []byte) (c snapshotChunk, ok bool) {
	text, whole := engine.Unseal(key, value)
	if !whole || len(key) != 1+8+4 || len(text) == 0 || text[0] > 1 {
		return c, false
	}
	return snapshotChunk{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:]), text[1:], text[0] == 1}, true
}

// put writes the chunk. The first chunk removes the chunks of the same size that are cut off or of
// another version, because chunks of two snapshots make no snapshot. The last chunk removes the
// snapshots before.
func (c *snapshotChunk) put(b *pebble.Batch) error {
	kind := byte(0)
	if c.chunk == 0 {
		if err := b.DeleteRange(snapshotKey(c.size, 0), snapshotKey(c.size+1, 0), nil); err != nil {
			return err
		}
	}
	if c.last {
		kind = 1
		if err := b.DeleteRange([]byte{keySnapshot}, snapshotKey(c.size, 0), nil); err != nil {
			return err
		}
	}
	key := snapshotKey(c.size, c.chunk)
	return b.Set(key, engine.Seal(key, []byte{kind}, c.data), nil)
}

// nextSnapshot returns the size at which the snapshot after the one at size is due. The distance
// grows with the log, so that snapshots cost a bounded share of what entries cost.
func (l *Log) nextSnapshot(size uint64) uint64 {
	every := max(l.cfg.SnapshotEvery, size/4)
	return size - size%l.cfg.SnapshotEvery + every
}

// runSnapshots writes a snapshot of the committed state whenever one is due, until ctx ends. The
// previous snapshot was at size.
func (l *Log) runSnapshots(ctx context.Context, size uint64) error {
	for l.cfg.Frozen != nil && ctx.Err() == nil {
		v := l.view.Load()
		if v.head.Size < l.nextSnapshot(size) {
			select {
			case <-v.grown:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		fold, frozen := l.cfg.Frozen()
		err := l.writeSnapshot(fold, frozen, func(c snapshotChunk) error { return l.handOver(ctx, c) })
		if err != nil && !errors.Is(err, errCutOff) {
			return err
		}
		size = frozen
	}
	return nil
}

// errCutOff ends a snapshot that is not to be finished: without its last chunk it does not count.
var errCutOff = errors.New("cut off")

// handOver lets a chunk travel with the next commit, while there is room.
func (l *Log) handOver(ctx context.Context, c snapshotChunk) error {
	if !l.space.Enough() {
		return errCutOff
	}
	select {
	case l.chunks <- c:
		return nil
	case <-ctx.Done():
		return errCutOff
	}
}

// lastSnapshot writes the state at the end of Run, so that the next start replays hardly any entry.
func (l *Log) lastSnapshot() error {
	o := &l.order
	if !l.space.Enough() || o.last.Size-o.snapshot < max(1, l.cfg.SnapshotEvery/8) {
		return nil
	}
	err := l.writeSnapshot(o.fold, o.last.Size, func(c snapshotChunk) error {
		l.commit(nil, &c)
		return nil
	})
	if errors.Is(err, errCutOff) {
		return nil
	}
	return err
}

// writeSnapshot gives the fold's state to put, chunk by chunk, because a state may be large. The
// fold must not change meanwhile.
func (l *Log) writeSnapshot(fold Fold, size uint64, put func(snapshotChunk) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ledger: snapshot at %d: %w", size, err)
		}
	}()
	state := cutter{sum: sha256.New(), next: snapshotChunk{size: size}, put: put}
	told := fold.Snapshot(&state)
	if err := cmp.Or(state.err, told); err != nil {
		return err
	}
	if len(state.next.data) > 0 {
		if err := state.cut(); err != nil {
			return err
		}
	}
	state.next.last = true
	if state.next.data, err = signSnapshot(l.cfg.Origin, l.view.Load().keys, size, [sha256.Size]byte(state.sum.Sum(nil))); err != nil {
		return errCutOff // a key is away, which the next commit tells
	}
	return state.cut()
}

// cutter digests the written bytes and cuts them into chunks of chunkSize.
type cutter struct {
	sum  hash.Hash
	next snapshotChunk
	put  func(snapshotChunk) error
	err  error // of put, which stays: a snapshot with a gap is none, whatever the fold makes of the error
}

// Write implements [io.Writer].
func (c *cutter) Write(p []byte) (int, error) {
	c.sum.Write(p)
	for rest := p; len(rest) > 0; {
		if c.next.data == nil {
			c.next.data = make([]byte, 0, chunkSize)
		}
		n := min(len(rest), chunkSize-len(c.next.data))
		c.next.data = append(c.next.data, rest[:n]...)
		rest = rest[n:]
		if len(c.next.data) == chunkSize {
			if err := c.cut(); err != nil {
				return len(p) - len(rest), err
			}
		}
	}
	return len(p), nil
}

// cut hands over the bytes that were written since the last chunk.
func (c *cutter) cut() error {
	if c.err == nil {
		c.err = c.put(c.next)
	}
	c.next.chunk++
	c.next.data = nil
	return c.err
}

// snapshotText is the text that the ledger's key signs about a snapshot. Its first line is not an
// origin, so the text is no tree head.
func snapshotText(origin string, size uint64, sum [sha256.Size]byte) string {
	return fmt.Sprintf("snapshot of the fold of %s\n%d\n%x\n", origin, size, sum)
}

func signSnapshot(origin string, keys []Key, size uint64, sum [sha256.Size]byte) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: snapshotText(origin, size, sum)}, classic(keys)...)
	if err != nil {
		return nil, fmt.Errorf("sign it: %w", err)
	}
	return signed, nil
}

// checkSnapshotNote compares the note of a snapshot with the digest of its chunks. Only a snapshot
// that this ledger has written becomes its state again.
func checkSnapshotNote(cfg *Config, signed []byte, size uint64, sum [sha256.Size]byte) error {
	opened, err := note.Open(signed, note.VerifierList(verifiers(cfg.Keys)...))
	if _, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return fmt.Errorf("%w: snapshot at %d: not signed by a key that is here (the file of a retired key stays)", ErrCorrupt, size)
	}
	if err != nil {
		return fmt.Errorf("%w: snapshot at %d: %v", ErrCorrupt, size, err)
	}
	if opened.Text != snapshotText(cfg.Origin, size, sum) {
		return fmt.Errorf("%w: snapshot at %d does not match its digest", ErrCorrupt, size)
	}
	return nil
}

// restoreFold brings fold to the state of the view v. It returns the size of the snapshot that it
// began with, and the frontier of the tree.
func (l *Log) restoreFold(fold Fold, v *view) (snapshot uint64, frontier *merkle.Frontier, err error) {
	if snapshot, err = l.restoreSnapshot(fold, v.head.Size); err != nil {
		return 0, nil, err
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	tell := func(done, total uint64) {
		if err := l.cfg.Rebuild(done, total); err != nil {
			stop(err)
		}
	}
	frontier, err = l.replay(ctx, v, &rebuilt{fold, tell, v.head.Size}, snapshot, v.head.Size)
	return snapshot, frontier, cmp.Or(context.Cause(ctx), err)
}

// rebuilt is a fold that tells how much of the log has been applied to it.
type rebuilt struct {
	Fold
	tell  func(done, total uint64)
	total uint64
}

// Apply implements [Fold].
func (r *rebuilt) Apply(e *entry.Entry, index uint64, at int64) {
	r.Fold.Apply(e, index, at)
	r.tell(index+1, r.total)
}

// replay applies the entries from from to below to, and returns the frontier of the tree of size
// to. The entries must be the entries of the tree: a changed entry in the store becomes no state.
func (l *Log) replay(ctx context.Context, v *view, fold Fold, from, to uint64) (*merkle.Frontier, error) {
	frontier, err := merkle.NewFrontier(from, l.nodes(v))
	if err != nil {
		return nil, fmt.Errorf("ledger: read tree: %w", err)
	}
	for e, err := range bulkEntries(ctx, l.db, from, to) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if err := takeUp(fold, e); err != nil {
			return nil, err
		}
		if err := frontier.Append(e.LeafHash(), nil); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
		}
	}
	tree, err := merkle.NewFrontier(to, l.nodes(v))
	if err != nil {
		return nil, fmt.Errorf("ledger: read tree: %w", err)
	}
	want, err := tree.Head()
	if got, other := frontier.Head(); err != nil || other != nil || got != want {
		return nil, fmt.Errorf("%w: entries %d to %d are not those of the tree", ErrCorrupt, from, to)
	}
	return frontier, nil
}

// takeUp applies an entry of the store. A fold may panic at one that never was admitted: no state
// follows from such a log, which is no reason to go down without a word.
func takeUp(fold Fold, e *entry.Registered) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: no state follows from entry %d, which an audit of the log will name: %v", ErrCorrupt, e.Index, v)
		}
	}()
	fold.Apply(e.Entry, e.Index, e.RegisteredAt)
	return nil
}

// restoreSnapshot restores the newest complete snapshot, and returns its size; 0
// if there is none, or none that counts: one that is damaged, or whole but in a
// form that the fold does not know, as after a change of version. The log holds
// all that a snapshot says, so that the state is built again from there.
func (l *Log) restoreSnapshot(fold Fold, most uint64) (size uint64, err error) {
	iter, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keySnapshot}, UpperBound: []byte{keySnapshot + 1}})
	if err != nil {
		return 0, fmt.Errorf("ledger: read snapshot: %w", engine.Classed(err))
	}
	var unknown error
	if size, err = findSnapshot(iter, most); size > 0 && err == nil {
		unknown, err = restoreChunks(l.cfg, iter, fold, size)
	}
	err = cmp.Or(err, engine.Classed(iter.Close()))
	switch {
	case errors.Is(err, ErrCorrupt):
		l.damage = err
		l.cfg.Logger.Warn("a stored snapshot of the state is damaged: the ledger builds the state again from the log", "error", err.Error())
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("ledger: read snapshot: %w", err)
	case unknown != nil:
		l.cfg.Logger.Warn("the ledger builds the state again from the log", "size", size, "snapshot", unknown.Error())
		return 0, nil
	}
	return size, nil
}

// findSnapshot returns the size of the newest complete snapshot, 0 if there is
// none, in a log of at most so many entries.
func findSnapshot(iter *pebble.Iterator, most uint64) (size uint64, err error) {
	for ok := iter.Last(); ok; ok = iter.Prev() {
		c, whole := parseChunk(iter.Key(), iter.Value())
		switch {
		case !whole:
			return 0, fmt.Errorf("%w: key %x is not the chunk of a snapshot that was written", ErrCorrupt, iter.Key())
		case c.size > most:
			return 0, fmt.Errorf("%w: a snapshot of size %d in a log of size %d", ErrCorrupt, c.size, most)
		case c.last:
			return c.size, nil
		}
	}
	return 0, engine.Classed(iter.Error())
}

// restoreChunks streams the chunks of the snapshot at size into the fold. It reads and digests the
// chunks ahead of the fold. The fold reaches their end only if the ledger has signed all bytes
// read. Otherwise err says why, and the fold is unchanged. If the chunks are sound, unknown says
// why the fold did not take them.
func restoreChunks(cfg *Config, iter *pebble.Iterator, fold Fold, size uint64) (unknown, err error) {
	source, sink := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		err = copyChunks(cfg, sink, iter, size)
		sink.CloseWithError(err)
	})
	unknown = fold.Restore(source)
	_, _ = io.Copy(io.Discard, source) // its error is err
	reading.Wait()
	if err != nil && unknown == nil {
		return nil, fmt.Errorf("ledger: the fold takes a snapshot without reading it to its end, which says: %v", err)
	}
	return unknown, err
}

// copyChunks writes the state in the chunks of the snapshot at size. They are
// there from the first to the last, and the last is the ledger's word for them.
func copyChunks(cfg *Config, w io.Writer, iter *pebble.Iterator, size uint64) error {
	digest := sha256.New()
	next := uint32(0)
	for ok := iter.SeekGE(snapshotKey(size, 0)); ok; ok = iter.Next() {
		c, whole := parseChunk(iter.Key(), iter.Value())
		if !whole || c.size != size || c.chunk != next {
			return fmt.Errorf("%w: chunk %d of the snapshot at %d is damaged or missing", ErrCorrupt, next, size)
		}
		if c.last {
			return checkSnapshotNote(cfg, c.data, size, [sha256.Size]byte(digest.Sum(nil)))
		}
		digest.Write(c.data)
		if _, err := w.Write(c.data); err != nil {
			return err
		}
		next++
	}
	return cmp.Or(engine.Classed(iter.Error()), fmt.Errorf("%w: the snapshot at %d has no end", ErrCorrupt, size))
}
