package access

import (
	"context"
	"fmt"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Fold is the state that follows from a whole log, derived on this machine. Every entry was checked
// by the rules of registration, and all entries against the signed tree head.
type Fold struct {
	audit.Report
	Follower *audit.Follower
	Head     verify.SignedHead
	Now      int64 // the newest known time of the ledger's clock, Unix milliseconds

	// Before is the kept fold that this fold continues; nil: the log was read from its first entry.
	// passing says that the kept fold is of a longer log, so that this fold does not replace the
	// kept fold.
	Before  *audit.Kept
	passing bool
	written uint64 // size at the last write of this process; 0: none
}

// Fold derives the state of a log from its entries. If a fold is kept, Fold reads only the entries
// that the kept fold lacks. After an interruption the next Fold goes on where this one was. It is
// an inconsistency if the rules of registration refuse an entry, or if the log does not match its
// tree head.
func (m *Machine) Fold(ctx context.Context, l *Log, name string) (*Fold, error) {
	head, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fold{Head: head, Follower: audit.NewFollower(l.Root.Origin)}
	var b *begun
	if l.Kept == UseKept {
		if err := m.resume(ctx, l, f); err != nil {
			return nil, err
		}
		b = m.goOn(l, f)
	}
	taken := f.Follower
	tell, end := m.Progress(name)
	err = m.follow(ctx, l, l, f, tell)
	end()
	l.audited = name == "audit" && ctx.Err() == nil
	if err != nil {
		if b.doubted(err) {
			return m.Fold(ctx, l, name)
		}
		b.leave(taken, f.Head, err)
		return nil, err
	}
	b.remove()
	return f, m.settle(l, f)
}

// follow reads the entries from source that the fold lacks, and checks all of them against the
// head.
func (m *Machine) follow(ctx context.Context, l *Log, source audit.Source, f *Fold, tell func(done, total uint64)) error {
	follower, report, err := audit.Run(ctx, source, l.Root, f.Head, audit.Config{From: f.Follower, Progress: tell})
	if err != nil {
		return err // the fold keeps its follower: another goroutine may ask for the clock
	}
	f.Follower, f.Report = follower, report
	f.Now = l.Clock(f)
	return nil
}

// Clock returns the newest known time of the ledger's clock, in Unix milliseconds. It is not before
// the newest entry of the fold.
func (l *Log) Clock(f *Fold) int64 {
	return max(time.Now().Add(l.skew()).UnixMilli(), f.Follower.RegisteredAt())
}

// settle keeps the ledger's keys that a verified fold has, and the fold itself.
func (m *Machine) settle(l *Log, f *Fold) error {
	if root := l.Root.Follow(f.State.Chain()); root.Since != l.Root.Since {
		if _, err := root.Head([]byte(f.Head.Note)); err != nil {
			return err
		}
		if err := m.Trust.KeepRoot(root); err != nil {
			return err
		}
	}
	if l.Kept != ignoreKept {
		m.keep(l, f)
	}
	return nil
}

// skew returns the time by which the clock of the log's server is ahead of this machine's clock.
func (l *Log) skew() time.Duration {
	if c, ok := l.logSource.(*Connection); ok {
		skew, _ := c.Clock.Skew()
		return skew
	}
	return 0
}

// WithFold opens and folds the log that the flags name, and calls use. The log stays open until use
// returns.
func (m *Machine) WithFold(ctx context.Context, w *Where, use func(l *Log, f *Fold) error) error {
	return m.WithLog(ctx, w, func(l *Log) error {
		f, err := m.Fold(ctx, l, "read the log")
		if err != nil {
			return err
		}
		return use(l, f)
	})
}

// Incident returns an incident as it stands.
func (f *Fold) Incident(id uint64) (*api.Incident, error) {
	found, ok := view.Incident(f.State, id, f.Now)
	if !ok {
		return nil, exit.With(exit.NotFound, fmt.Errorf("entry %d did not open an incident: arl incident list shows the incidents", id))
	}
	return found, nil
}

// Items reads entries of the folded log, in the order of the log. Each item has the proof that the
// entry is under the fold's head.
func (f *Fold) Items(ctx context.Context, l *Log, indexes []uint64) ([]api.Item, error) {
	entries, err := f.Entries(ctx, l, indexes)
	if err != nil {
		return nil, err
	}
	items := []api.Item{}
	for i := range entries {
		e := &entries[i]
		path, err := merkle.ProveInclusion(e.Index, f.Size, f.State.Node, nil)
		if err != nil {
			return nil, err
		}
		items = append(items, api.Item{Proof: path, Entry: api.Entry{Index: e.Index, RegisteredAt: e.RegisteredAt, LeafHash: e.LeafHash(), Envelope: api.NewEnvelope(e.Entry)}})
	}
	return items, nil
}

// Entries reads entries of the folded log, in the order of the log. Each entry has the leaf hash
// that the fold has.
func (f *Fold) Entries(ctx context.Context, l *Log, indexes []uint64) (entries []entry.Registered, err error) {
	for len(indexes) > 0 {
		first := indexes[0] / merkle.TileWidth * merkle.TileWidth
		found, err := audit.Bundle(ctx, l, first/merkle.TileWidth, f.Size)
		if err != nil {
			return nil, err
		}
		for ; len(indexes) > 0 && indexes[0] < first+merkle.TileWidth; indexes = indexes[1:] {
			e, err := f.entry(indexes[0], found[indexes[0]-first])
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (f *Fold) entry(index uint64, leaf []byte) (r entry.Registered, err error) {
	hash, err := f.State.Node(0, index)
	if err != nil {
		return r, err
	}
	if hash != merkle.HashLeaf(leaf) {
		return r, &audit.RootError{Head: f.Head, Detail: fmt.Sprintf("entry %d was served twice, with the leaf hashes %s and %s", index, hash, merkle.HashLeaf(leaf))}
	}
	r.Index = index
	r.Entry, r.RegisteredAt, err = entry.DecodeLeaf(leaf)
	return r, err
}
