package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/entry"
)

// snapshotChunk is a piece of a fold snapshot on its way into the store. Chunks
// travel with ordinary commits; the last one carries the SHA-256 of all others
// and makes the snapshot count.
type snapshotChunk struct {
	size  uint64
	chunk uint32
	data  []byte
	last  bool
}

// put writes the chunk; the last one removes the snapshots before, and what a
// longer one of the same size left when it was cut off.
func (c *snapshotChunk) put(b *pebble.Batch) error {
	kind := byte(0)
	if c.last {
		kind = 1
		if err := b.DeleteRange([]byte{keySnapshot}, snapshotKey(c.size, 0), nil); err != nil {
			return err
		}
		if err := b.DeleteRange(snapshotKey(c.size, c.chunk+1), snapshotKey(c.size+1, 0), nil); err != nil {
			return err
		}
	}
	return b.Set(snapshotKey(c.size, c.chunk), append([]byte{kind}, c.data...), nil)
}

// nextSnapshot returns the size at which the snapshot after the one at size is
// due. The distance grows with the log, so that snapshots cost a bounded share
// of what entries cost.
func (l *Log) nextSnapshot(size uint64) uint64 {
	every := max(l.cfg.SnapshotEvery, size/4)
	return size - size%l.cfg.SnapshotEvery + every
}

// follower is the second fold: it stays behind the commits and writes its state
// whenever a snapshot is due. Commits hand their entries over; what it missed
// while it was busy it reads from the store.
type follower struct {
	log  *Log
	fold Fold
	size uint64 // entries in fold
	next uint64 // size at which the next snapshot is due
}

// committed is the entries of a commit as the follower gets them.
type committed struct {
	first   uint64 // index of the first
	at      int64
	entries []*entry.Entry
}

// runSnapshots follows the log until ctx ends.
func (l *Log) runSnapshots(ctx context.Context) error {
	f := &follower{log: l, fold: l.cfg.NewFold()}
	var err error
	if f.size, err = l.restoreSnapshot(f.fold); err != nil {
		return err
	}
	f.next = l.nextSnapshot(f.size)
	if err := l.known.load(ctx, l.db); err != nil && ctx.Err() == nil {
		return err
	}
	for {
		select {
		case c := <-l.fresh:
			if err := f.take(ctx, c); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// take brings the fold behind the entries of a commit.
func (f *follower) take(ctx context.Context, c committed) error {
	for logged, err := range readEntries(ctx, f.log.db, f.size, c.first) {
		if err != nil {
			return err
		}
		if err := f.apply(ctx, logged); err != nil {
			return err
		}
	}
	for i, e := range c.entries {
		if index := c.first + uint64(i); index == f.size {
			if err := f.apply(ctx, &Logged{e, index, c.at}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *follower) apply(ctx context.Context, e *Logged) error {
	f.fold.Apply(e.Entry, e.Index, e.At)
	if f.size++; f.size != f.next {
		return nil
	}
	f.next = f.log.nextSnapshot(f.size)
	return writeSnapshot(f.fold, f.size, func(chunk snapshotChunk) (more bool) {
		if !f.log.space.enough() {
			return false // without its last chunk it does not count
		}
		select {
		case f.log.chunks <- chunk:
			return true
		case <-ctx.Done():
			return false
		}
	})
}

// lastSnapshot writes the state at the end of Run, so that the next start has
// next to nothing to replay.
func (l *Log) lastSnapshot() error {
	o := &l.order
	if !l.space.enough() || o.last.Size-o.snapshot < max(1, l.cfg.SnapshotEvery/8) {
		return nil
	}
	return writeSnapshot(o.fold, o.last.Size, func(chunk snapshotChunk) bool {
		l.commit(nil, &chunk)
		return true
	})
}

// writeSnapshot hands the fold's state over in chunks, as long as more are
// wanted.
func writeSnapshot(fold Fold, size uint64, handOver func(snapshotChunk) (more bool)) error {
	var state bytes.Buffer
	if err := fold.Snapshot(&state); err != nil {
		return fmt.Errorf("ledger: snapshot at %d: %w", size, err)
	}
	sum := sha256.Sum256(state.Bytes())
	chunk := snapshotChunk{size: size}
	for !chunk.last {
		chunk.data = state.Next(chunkSize)
		if len(chunk.data) == 0 {
			chunk.data, chunk.last = sum[:], true
		}
		if !handOver(chunk) {
			return nil
		}
		chunk.chunk++
	}
	return nil
}

// restoreFold brings fold to the state of size entries.
// It returns the size of the snapshot that it began with.
func (l *Log) restoreFold(fold Fold, size uint64) (snapshot uint64, err error) {
	from, err := l.restoreSnapshot(fold)
	if err != nil {
		return 0, err
	}
	if from > size {
		return 0, fmt.Errorf("%w: a snapshot of %d entries in a log of %d", ErrCorrupt, from, size)
	}
	return from, l.replay(context.Background(), fold, from, size)
}

// replay applies the entries from from to below to.
func (l *Log) replay(ctx context.Context, fold Fold, from, to uint64) error {
	for e, err := range readEntries(ctx, l.db, from, to) {
		if err != nil {
			return err
		}
		fold.Apply(e.Entry, e.Index, e.At)
	}
	return nil
}

// restoreSnapshot restores the newest complete snapshot and returns its size; 0
// if there is none, or if it is whole but the fold does not know its form, as
// after a change of version: then the state is built again from the log.
func (l *Log) restoreSnapshot(fold Fold) (size uint64, err error) {
	iter, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keySnapshot}, UpperBound: []byte{keySnapshot + 1}})
	if err != nil {
		return 0, fmt.Errorf("ledger: read snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.Last(); ok; ok = iter.Prev() {
		if value := iter.Value(); len(value) > 0 && value[0] == 1 {
			size = binary.BigEndian.Uint64(iter.Key()[1:])
			unknown, err := restoreChunks(iter, fold, size, [sha256.Size]byte(value[1:]))
			if unknown != nil {
				l.cfg.Logger.Warn("the state is built again from the log", "size", size, "snapshot", unknown.Error())
				return 0, err
			}
			return size, err
		}
	}
	return 0, nil
}

// restoreChunks streams the chunks of the snapshot at size into the fold. If the
// chunks are whole, unknown says why the fold did not take them.
func restoreChunks(iter *pebble.Iterator, fold Fold, size uint64, sum [sha256.Size]byte) (unknown, err error) {
	digest := sha256.New()
	reader := &chunkReader{iter: iter}
	iter.SeekGE(snapshotKey(size, 0))
	source := io.TeeReader(reader, digest)
	unknown = fold.Restore(source)
	if _, err := io.Copy(io.Discard, source); err != nil {
		return nil, fmt.Errorf("ledger: restore snapshot at %d: %w", size, err)
	}
	if string(digest.Sum(nil)) != string(sum[:]) {
		return nil, fmt.Errorf("%w: snapshot at %d does not match its digest", ErrCorrupt, size)
	}
	return unknown, nil
}

// chunkReader reads the chunks from an iterator's position to the last one.
type chunkReader struct {
	iter *pebble.Iterator
	rest []byte
}

// Read implements [io.Reader].
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if !r.iter.Valid() {
			return 0, errors.Join(io.ErrUnexpectedEOF, r.iter.Error())
		}
		value := r.iter.Value()
		if len(value) == 0 || value[0] == 1 {
			return 0, io.EOF
		}
		r.rest = bytes.Clone(value[1:])
		r.iter.Next()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
