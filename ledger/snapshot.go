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

// put writes the chunk; the last one removes the snapshots before.
func (c *snapshotChunk) put(b *pebble.Batch) error {
	kind := byte(0)
	if c.last {
		kind = 1
		if err := b.DeleteRange([]byte{keySnapshot}, snapshotKey(c.size, 0), nil); err != nil {
			return err
		}
	}
	return b.Set(snapshotKey(c.size, c.chunk), append([]byte{kind}, c.data...), nil)
}

// runSnapshots keeps a second fold behind the log and writes its state every
// SnapshotEvery entries, until ctx ends.
func (l *Log) runSnapshots(ctx context.Context) error {
	fold := l.cfg.NewFold()
	size, err := l.restoreSnapshot(fold)
	if err != nil {
		return err
	}
	for {
		next := size - size%l.cfg.SnapshotEvery + l.cfg.SnapshotEvery
		if err := l.Wait(ctx, next); err != nil {
			return nil // the end of Run
		}
		if err := l.replay(ctx, fold, size, next); err != nil {
			return err
		}
		size = next
		if err := l.writeSnapshot(ctx, fold, size); err != nil {
			return err
		}
	}
}

// writeSnapshot hands the fold's state over in chunks.
func (l *Log) writeSnapshot(ctx context.Context, fold Fold, size uint64) error {
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
		select {
		case l.chunks <- chunk:
		case <-ctx.Done():
			return nil
		}
		chunk.chunk++
	}
	return nil
}

// restoreFold brings fold to the state of size entries.
func (l *Log) restoreFold(fold Fold, size uint64) error {
	from, err := l.restoreSnapshot(fold)
	if err != nil {
		return err
	}
	if from > size {
		return fmt.Errorf("%w: a snapshot of %d entries in a log of %d", ErrCorrupt, from, size)
	}
	return l.replay(context.Background(), fold, from, size)
}

// replay applies the entries from from to below to.
func (l *Log) replay(ctx context.Context, fold Fold, from, to uint64) error {
	for e, err := range l.entries(ctx, from, to) {
		if err != nil {
			return err
		}
		fold.Apply(e.Entry, e.Index, e.At)
	}
	return nil
}

// restoreSnapshot restores the newest complete snapshot and returns its size; 0
// if there is none.
func (l *Log) restoreSnapshot(fold Fold) (size uint64, err error) {
	iter, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keySnapshot}, UpperBound: []byte{keySnapshot + 1}})
	if err != nil {
		return 0, fmt.Errorf("ledger: read snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.Last(); ok; ok = iter.Prev() {
		if value := iter.Value(); len(value) > 0 && value[0] == 1 {
			size = binary.BigEndian.Uint64(iter.Key()[1:])
			return size, restoreChunks(iter, fold, size, [sha256.Size]byte(value[1:]))
		}
	}
	return 0, nil
}

// restoreChunks streams the chunks of the snapshot at size into the fold.
func restoreChunks(iter *pebble.Iterator, fold Fold, size uint64, sum [sha256.Size]byte) error {
	digest := sha256.New()
	reader := &chunkReader{iter: iter}
	iter.SeekGE(snapshotKey(size, 0))
	source := io.TeeReader(reader, digest)
	err := fold.Restore(source)
	if _, rest := io.Copy(io.Discard, source); err == nil {
		err = rest
	}
	if string(digest.Sum(nil)) != string(sum[:]) {
		return fmt.Errorf("%w: snapshot at %d does not match its digest", ErrCorrupt, size)
	}
	if err != nil {
		return fmt.Errorf("ledger: restore snapshot at %d: %w", size, err)
	}
	return nil
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
