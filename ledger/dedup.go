package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/entry"
)

// Two entries are the same if issuer, jti and payload are the same (REG-2). The ledger looks
// for a duplicate in four places. The filter recognizes nearly all new entries. The store has
// the committed entries. recent has the entries committed since the look-up. The commit in the
// making has the rest.

// dedupID is the key of the dedup index: its prefix, and SHA-256 of issuer and jti.
type dedupID [1 + sha256.Size]byte

func dedupKey(e *entry.Entry) (key dedupID) {
	id := binary.BigEndian.AppendUint16(make([]byte, 0, 2+2*entry.MaxName), uint16(len(e.Header.Iss)))
	id = append(append(id, e.Header.Iss...), e.Header.JTI...)
	sum := sha256.Sum256(id)
	key[0] = keyDedup
	copy(key[1:], sum[:])
	return key
}

// lookup finds an entry of the same issuer and jti in the committed log and returns where it
// stands. The result is nil if there is no such entry. The error is id-conflict if that entry
// has other bytes. The store has at most beyond entries more than the view.
func (l *Log) lookup(ctx context.Context, e *entry.Entry, key *dedupID, beyond uint64) (*Registration, error) {
	if l.known.denies(key) {
		return nil, nil
	}
	index, ok, err := findDedup(l.db, key[:])
	if err != nil {
		return nil, fmt.Errorf("ledger: look up %s of %s: %w", e.Header.JTI, e.Header.Iss, err)
	}
	if !ok {
		return nil, nil
	}
	if size := l.view.Load().head.Size; index >= size+beyond {
		return nil, fmt.Errorf("%w: dedup key %x: entry %d, which is not there", ErrCorrupt, *key, index)
	}
	// The store shows a commit before it is durable; the view does not.
	if err := l.Wait(ctx, index+1); err != nil {
		return nil, err
	}
	return l.compare(e, index)
}

// findDedup is a Get that asks the bloom filters of the lowest level too, because nearly all
// keys asked for are not in the store.
func findDedup(r pebble.Reader, key []byte) (index uint64, ok bool, err error) {
	it, err := r.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return 0, false, err
	}
	if ok = it.SeekPrefixGE(key); ok {
		if value := it.Value(); len(value) == 8 {
			index = binary.BigEndian.Uint64(value)
		} else {
			err = fmt.Errorf("%w: dedup key %x: %d bytes instead of an index", ErrCorrupt, key, len(value))
		}
	}
	return index, ok, errors.Join(err, classed(it.Close()))
}

// compare tells a duplicate of the entry at index from a conflict with it.
func (l *Log) compare(e *entry.Entry, index uint64) (*Registration, error) {
	record, err := get(l.db, entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		err = fmt.Errorf("%w: its dedup key is there", ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read entry %d: %w", index, err)
	}
	stored, at, err := entry.DecodeStored(record)
	if err != nil {
		return nil, fmt.Errorf("%w: entry %d: %v", ErrCorrupt, index, err)
	}
	if string(stored.PAE()) != string(e.PAE()) {
		return nil, conflict(e, index)
	}
	return &Registration{Index: index, RegisteredAt: at, Duplicate: true}, nil
}

func conflict(e *entry.Entry, index uint64) *entry.Refusal {
	r := entry.Refuse(entry.IDConflict, "jti", "%s of %s is entry %d, which has other bytes", e.Header.JTI, e.Header.Iss, index).
		WithRemedy("give every new entry a new jti")
	r.Taken = index
	return r
}

// lookupOrdered is [Log.lookup] against every entry before e in the order, the commit in the
// making included.
func (l *Log) lookupOrdered(p *pending, s *submission, e *entry.Entry, key *dedupID) (*Registration, error) {
	index, ok := l.order.recent.find(key)
	switch {
	case ok && index < p.first:
		return l.compare(e, index)
	case ok && string(p.entries[index-p.first].PAE()) != string(e.PAE()):
		return nil, conflict(e, index)
	case ok:
		return &Registration{Index: index, RegisteredAt: p.at, Duplicate: true}, nil
	case s.seen < l.order.recent.since:
		return l.lookup(context.Background(), e, key, 0)
	}
	return nil, nil
}

// recent keeps the dedup keys of the newest entries, the commit in the making included, in two
// generations. With recent, the order does not look in the store again for an entry that was
// looked up before.
type recent struct {
	since    uint64 // every entry at or above it is remembered
	next     uint64 // since of the younger generation
	old, new map[dedupID]uint64
}

func newRecent(size uint64) *recent {
	return &recent{since: size, next: size, new: map[dedupID]uint64{}}
}

func (r *recent) find(key *dedupID) (index uint64, ok bool) {
	if index, ok = r.new[*key]; !ok {
		index, ok = r.old[*key]
	}
	return index, ok
}

func (r *recent) add(key *dedupID, index uint64) { r.new[*key] = index }

// turn starts a new generation when the younger one is full.
func (r *recent) turn(size uint64) {
	if len(r.new) < recentSize {
		return
	}
	r.old, r.since = r.new, r.next
	r.new, r.next = make(map[dedupID]uint64, recentSize), size
}
