package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Commit describes a commit: the entries that became durable at once.
type Commit struct {
	Entries []*entry.Entry // the added entries, in order; not to be changed
	Size    uint64         // of the log with them
	Took    time.Duration  // for the write and its sync
}

// SnapshotLag returns the number of entries that the newest snapshot of the state does not cover.
func (l *Log) SnapshotLag() uint64 {
	at := l.snapshotAt.Load() // before the size, which does not fall
	return l.Size() - at
}

// Waiting returns the number of submissions that wait for the next commit.
func (l *Log) Waiting() int { return len(l.in) }

// Ready returns nil if entries are taken now. Otherwise it is [ErrStopped], or the [*entry.Refusal]
// that a new entry would get: not-ready or insufficient-storage. While Run reads and checks the
// dedup keys, the log is not ready, and new entries wait.
func (l *Log) Ready() error {
	if over(l.closing) {
		return ErrStopped
	}
	if !l.known.Ready() {
		return entry.Refuse(entry.NotReady, "", "the ledger still reads the dedup keys of the log").
			WithRemedy("wait until the ledger is ready")
	}
	if _, refusal := l.clock.Now(l.view.Load().at); refusal != nil {
		return refusal
	}
	refusal := cmp.Or(l.away.Load(), l.Space())
	if c := l.cfg.Cluster; c != nil {
		refusal = cmp.Or(c.Refusal(), refusal)
	}
	if refusal != nil {
		return refusal
	}
	if !l.Leads() {
		return agreement.ErrNotLeading
	}
	return nil
}

// Space returns why the disk here has no room for entries (insufficient-storage); nil: it has. A
// node of a cluster whose disk has no room follows the others no further.
func (l *Log) Space() *entry.Refusal { return l.space.Check() }

// Prepared waits until Run takes entries. The error is [ErrStopped], or that of ctx.
func (l *Log) Prepared(ctx context.Context) error {
	select {
	case <-l.sound:
		return nil
	case <-l.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SnapshotDamage returns the damage of the snapshot that Open left aside: [ErrCorrupt]; nil: none.
func (l *Log) SnapshotDamage() error { return l.damage }

// Now returns the registered_at that an entry would get, in Unix milliseconds: that of the last
// entry while the log refuses entries because of the clock (see Ready).
func (l *Log) Now() int64 {
	now, _ := l.clock.Now(l.view.Load().at)
	return now
}

// ClockOffset returns the wall clock minus the ledger's clock.
func (l *Log) ClockOffset() time.Duration { return l.clock.Offset(l.view.Load().at) }

// Inclusion returns the proof that the entry at index stands in the tree of the first size entries.
// The error is [ErrNotFound] if the log is smaller, or if the entry is not below size.
func (l *Log) Inclusion(index, size uint64) ([]merkle.Hash, error) {
	v := l.view.Load()
	if index >= size || size > v.head.Size {
		return nil, fmt.Errorf("%w: the log of size %d has no entry %d under size %d", ErrNotFound, v.head.Size, index, size)
	}
	var edge *merkle.Edge
	if size == v.head.Size {
		edge = &v.ragged
	}
	return merkle.ProveInclusion(index, size, l.nodes(v), edge)
}

// HeadAt returns the head that the log had with size entries, or [ErrNotFound] if it is smaller.
func (l *Log) HeadAt(size uint64) (merkle.Head, error) {
	v := l.view.Load()
	if size > v.head.Size {
		return merkle.Head{}, fmt.Errorf("%w: the log of size %d has not reached size %d", ErrNotFound, v.head.Size, size)
	}
	frontier, err := merkle.NewFrontier(size, l.nodes(v))
	if err != nil {
		return merkle.Head{}, err
	}
	return frontier.Head()
}

// Inclusions returns the joint proof that the entries at indexes, which strictly
// ascend, stand in the tree of the first size entries: [merkle.ProveInclusions].
// The error is [ErrNotFound] if the log is smaller, or if one is not below size.
func (l *Log) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	v := l.view.Load()
	if n := len(indexes); size > v.head.Size || n > 0 && indexes[n-1] >= size {
		return nil, fmt.Errorf("%w: the log of size %d does not have all %d entries under size %d", ErrNotFound, v.head.Size, n, size)
	}
	return merkle.ProveInclusions(indexes, size, l.nodes(v))
}
