package agreement

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"recoveryledger/ledger/entry"
)

// followPause is the time before the order is read again after an error.
const followPause = 100 * time.Millisecond

// Member is what makes a node one of a cluster. All fields but Unable and Format are mandatory.
type Member struct {
	// Sequencer is the order that the nodes share.
	Sequencer Sequencer
	// Secret makes the MACs of batches. The nodes of the cluster alone know it.
	Secret []byte
	// Incarnation names the cluster.
	Incarnation Incarnation
	// Unable returns why the cluster takes no new entries at the moment, which the log asks at
	// every batch. Nil, also as its result: it takes entries.
	Unable func() *entry.Refusal
	// Format returns the format of batches that the cluster has. Nil: it is 1.
	Format func() int

	offered atomic.Uint64 // number of the last batch that this node offered
}

// Encode returns a batch in the format of the cluster.
func (m *Member) Encode(b *Batch) []byte {
	if m.Format != nil {
		b.Format = m.Format()
	}
	return b.Encode(m.Secret)
}

// Settle is [Settle] of a batch that this node has made.
func (m *Member) Settle(ctx context.Context, t Term, b *Batch) error {
	m.offered.Store(b.Seq)
	return Settle(ctx, m.Sequencer, t, b.Seq, m.Encode(b))
}

// Check returns an error if a field is missing.
func (m *Member) Check() error {
	if m.Sequencer == nil || len(m.Secret) == 0 || m.Incarnation == (Incarnation{}) {
		return errors.New("agreement: Sequencer, Secret and Incarnation of a node of a cluster are required")
	}
	return nil
}

// Refusal returns why the cluster takes no new entries; nil: it takes entries.
func (m *Member) Refusal() *entry.Refusal {
	if m.Unable == nil {
		return nil
	}
	return m.Unable()
}

// Standing is a batch that stands in the order.
type Standing struct {
	*Batch
	Entries []*entry.Entry // nil: they are not decoded yet
	Err     error          // why there is no batch, and none follows
}

// Decode decodes and hashes the entries, unless that was done. Their signatures count as checked,
// by the node that made the batch.
func (s *Standing) Decode() error {
	if s.Entries != nil {
		return nil
	}
	entries, err := s.entries()
	if err != nil {
		return Diverged(s.Seq, "%v", err)
	}
	for _, e := range entries {
		e.LeafHash(s.At) // the entry keeps the hash
		e.SignatureChecked = true
	}
	s.Entries = entries
	return nil
}

// Follow sends what stands behind the batches that the node keeps, in order, until ctx ends or a
// batch cannot be taken. kept returns the number of the last batch that is on the node's disk.
// Follow decodes the entries ahead of the receiver, but not those of numbers that this node has
// offered: it has them, unless another node's batch stands there. warn is told of each error after
// which Follow reads again.
//
// The node that orders is ahead of its own reading, and what it keeps may be forgotten unread:
// Follow goes on behind that.
func (m *Member) Follow(ctx context.Context, kept func() uint64, to chan<- Standing, warn func(next uint64, err error)) {
	next := kept() + 1
	for ctx.Err() == nil {
		for data, err := range m.Sequencer.Batches(ctx, next) {
			if newest := kept(); errors.Is(err, ErrTrimmed) && next <= newest {
				next = newest + 1
				break
			}
			if err != nil && !errors.Is(err, ErrTrimmed) {
				if ctx.Err() == nil {
					warn(next, err)
				}
				break
			}
			b := Standing{Err: err}
			if err == nil {
				b = m.decode(next, data)
			}
			select {
			case to <- b:
				next++
			case <-ctx.Done():
			}
			if b.Err != nil || ctx.Err() != nil {
				return
			}
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
}

// decode reads the batch that stands at number seq.
func (m *Member) decode(seq uint64, data []byte) Standing {
	b, err := open(m.Secret, data)
	switch {
	case errors.Is(err, ErrFormat):
		return Standing{Err: err}
	case err != nil:
		return Standing{Err: Diverged(seq, "%v", err)}
	case b.Incarnation != m.Incarnation:
		return Standing{Err: Diverged(seq, "it is of incarnation %x of the cluster, and this node is of %x", b.Incarnation, m.Incarnation)}
	case b.Seq != seq:
		return Standing{Err: Diverged(seq, "its number is %d", b.Seq)}
	}
	found := Standing{Batch: b}
	if seq > m.offered.Load() {
		if err := found.Decode(); err != nil {
			return Standing{Err: err}
		}
	}
	return found
}

// Diverged returns an [ErrDiverged] about the batch with number seq.
func Diverged(seq uint64, format string, args ...any) error {
	return fmt.Errorf("%w: batch %d: %s: compare the nodes, move the database of the node that is wrong away, and let it join again",
		ErrDiverged, seq, fmt.Sprintf(format, args...))
}

// LostBatches returns an [ErrDiverged] about an order that lacks batches which a node has. The
// remedy differs from that of a single ledger: a node still has the batches, and a copy may not.
func LostBatches(format string, args ...any) error {
	return fmt.Errorf("%w: %s: the order was restored from an older copy, or lost its newest batches: restore nothing, stop every node, and begin the "+
		"cluster again from the longest log (arl cluster evidence, arl cluster reseed)",
		ErrDiverged, fmt.Sprintf(format, args...))
}
