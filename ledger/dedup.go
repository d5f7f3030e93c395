package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/entry"
)

// Two entries are the same if issuer, jti and payload are the same (REG-2). The ledger looks
// for a duplicate in four places. The filter recognizes nearly all new entries. The store has
// the committed entries. recent has the entries committed since the look-up. The commit in the
// making has the rest.

// lookup finds an entry of the same issuer and jti in the committed log and returns where it
// stands. The result is nil if there is no such entry. The error is id-conflict if that entry
// has other bytes. The store has at most beyond entries more than the view.
func (l *Log) lookup(ctx context.Context, e *entry.Entry, key *dedup.ID, beyond uint64) (*Registration, error) {
	index, ok, err := l.known.Find(l.db, key)
	if err != nil || !ok {
		return nil, err
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

// Has reports whether the store has an entry with the issuer and the jti of a header.
func (l *Log) Has(h *entry.Header) (known bool, err error) {
	_, known, err = l.known.Find(l.db, new(dedup.Key(&entry.Entry{Header: h})))
	return known, err
}

// compare tells a duplicate of the entry at index from a conflict with it.
func (l *Log) compare(e *entry.Entry, index uint64) (*Registration, error) {
	record, err := get(l.db, entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		err = fmt.Errorf("%w: its dedup key is there", ErrMissing)
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
	r.Against = index
	return r
}

// lookupOrdered is [Log.lookup] against every entry before e in the order, the commit in the
// making included.
func (l *Log) lookupOrdered(p *pending, s *submission, e *entry.Entry, key *dedup.ID) (*Registration, error) {
	index, ok := l.order.recent.Find(key)
	switch {
	case ok && index < p.first:
		return l.compare(e, index)
	case ok && string(p.entries[index-p.first].PAE()) != string(e.PAE()):
		return nil, conflict(e, index)
	case ok:
		return &Registration{Index: index, RegisteredAt: p.at, Duplicate: true}, nil
	case s.seen < l.order.recent.Since:
		return l.lookup(context.Background(), e, key, 0)
	}
	return nil, nil
}
