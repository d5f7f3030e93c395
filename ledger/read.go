package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Wait returns when the log has at least size entries and [Config.Committed] has returned for
// them, or with the error of ctx. A caller that waited therefore sees a state of that size.
func (l *Log) Wait(ctx context.Context, size uint64) error {
	v := l.view.Load()
	for v.head.Size < size {
		select {
		case <-v.grown:
			v = l.view.Load()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-v.shown: // also where ctx is over
		return nil
	default:
	}
	select {
	case <-v.shown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Size returns the number of committed entries.
func (l *Log) Size() uint64 { return l.view.Load().head.Size }

// Entry returns the entry at index. At or above the size the error is [ErrNotFound].
func (l *Log) Entry(index uint64) (*entry.Registered, error) {
	size := l.view.Load().head.Size
	if index >= size {
		return nil, fmt.Errorf("%w: the log of size %d has no entry %d", ErrNotFound, size, index)
	}
	record, err := get(l.db, entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, missing(size, index)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read entry %d: %w", index, err)
	}
	return decodeLogged(index, record)
}

func decodeLogged(index uint64, record []byte) (*entry.Registered, error) {
	e, at, err := entry.DecodeStored(record)
	if err != nil {
		return nil, fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	return &entry.Registered{Entry: e, Index: index, RegisteredAt: at}, nil
}

// Entries returns the entries from index from to below to, or to the size if that is smaller.
func (l *Log) Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return readEntries(ctx, l.db, from, min(to, l.view.Load().head.Size))
}

func readEntries(ctx context.Context, r pebble.Reader, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		if from >= to {
			return
		}
		it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: entryKey(from), UpperBound: entryKey(to)})
		if err != nil {
			yield(nil, fmt.Errorf("ledger: read entries from %d: %w", from, err))
			return
		}
		next := from
		for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
			var logged *entry.Registered
			if err = missing(entryOf(it.Key()), next); err == nil {
				logged, err = decodeLogged(next, it.Value())
			}
			if next++; !yield(logged, err) || err != nil {
				_ = it.Close() // the consumer has its entries, or the error
				return
			}
		}
		if err = cmp.Or(errors.Join(engine.Classed(it.Close()), ctx.Err()), missing(to, next)); err != nil {
			yield(nil, err)
		}
	}
}

func missing(found, want uint64) error {
	if found != want {
		return fmt.Errorf("%w: entry %d", ErrMissing, want)
	}
	return nil
}

// Query asks a secondary index for entries.
type Query = tags.Query

// Find returns the indexes of the entries that a query matches, in order.
func (l *Log) Find(q Query) (found []uint64, err error) {
	return q.Find(l.db, l.view.Load().head.Size)
}

// Receipt returns the receipt of the entry at index under the newest tree head.
// It is checked before it leaves.
func (l *Log) Receipt(index uint64) (*verify.Receipt, error) {
	return l.receipt(l.view.Load(), index)
}

// Receipt returns the receipt of a registered entry under the answer's head.
func (a *Answer) Receipt(index uint64) (*verify.Receipt, error) { return a.log.receipt(a.view, index) }

// Proof returns the inclusion proof of a registered entry under the answer's head.
func (a *Answer) Proof(index uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusion(index, a.view.head.Size, a.log.nodes(a.view), &a.view.ragged)
}

func (l *Log) receipt(v *view, index uint64) (*verify.Receipt, error) {
	if index >= v.head.Size {
		return nil, fmt.Errorf("%w: the log of size %d has no entry %d", ErrNotFound, v.head.Size, index)
	}
	leaf, err := readLeaf(l.db, index)
	if err != nil {
		return nil, err
	}
	proof, err := merkle.ProveInclusion(index, v.head.Size, l.nodes(v), &v.ragged)
	if err != nil {
		return nil, err
	}
	if err := merkle.CheckInclusion(index, merkle.HashLeaf(leaf), v.head, proof); err != nil {
		return nil, fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	return &verify.Receipt{Leaf: leaf, Index: index, Proof: proof, Head: v.note}, nil
}

// Consistency returns the proof that the tree of older entries is a prefix of
// that of newer ones. The error is [ErrNotFound] if the log is smaller.
func (l *Log) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	v := l.view.Load()
	if older > newer || newer > v.head.Size {
		return nil, fmt.Errorf("%w: the log of size %d has no consistency proof of sizes %d and %d", ErrNotFound, v.head.Size, older, newer)
	}
	return merkle.ProveConsistency(older, newer, l.nodes(v))
}

// Tile returns the bytes of a tile as c2sp.org/tlog-tiles has them. A partial
// tile is there as soon as the log has reached it, and stays. The error is
// [ErrNotFound] for everything that the log has not reached.
func (l *Log) Tile(t merkle.Tile) ([]byte, error) {
	v := l.view.Load()
	level := t.Level
	if t.Entries {
		level = 0
	}
	reached := merkle.TileSpan(level, v.head.Size)
	if t.Width < 1 || t.Width > merkle.TileWidth || t.Index > reached/merkle.TileWidth || t.Index*merkle.TileWidth+uint64(t.Width) > reached {
		return nil, fmt.Errorf("%w: the log of size %d has no %s", ErrNotFound, v.head.Size, t.Path())
	}
	if t.Entries {
		return l.bundle(t)
	}
	found, err := l.tile(v, merkle.Tile{Level: t.Level, Index: t.Index, Width: merkle.TileWidth})
	if err != nil {
		return nil, err
	}
	return found.Bytes(t.Width), nil
}

// bundle returns leaves, each with its length before it.
func (l *Log) bundle(t merkle.Tile) ([]byte, error) {
	var out []byte
	first := t.Index * merkle.TileWidth
	for index := first; index < first+uint64(t.Width); index++ {
		leaf, err := readLeaf(l.db, index)
		if err != nil {
			return nil, err
		}
		out = merkle.AppendLeaf(out, leaf)
	}
	return out, nil
}

// FirstAt returns the index of the first entry registered at or after the instant (Unix
// milliseconds), or the size. registered_at never falls, so the log is its own index by time.
func (l *Log) FirstAt(at int64) (uint64, error) {
	size := l.view.Load().head.Size
	var failed error
	index := sort.Search(int(size), func(i int) bool {
		logged, err := l.Entry(uint64(i))
		if err != nil {
			failed = err
			return true
		}
		return logged.RegisteredAt >= at
	})
	return uint64(index), failed
}
