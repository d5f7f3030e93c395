package access

import (
	"context"
	"fmt"
	"sync"

	"recoveryledger/coord/audit"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Begin returns the kept fold of a log, or the fold of the empty log if none is kept. Begin asks no
// server: [Machine.Look] and [Machine.Advance] check the fold against the log.
func (m *Machine) Begin(l *Log) *Fold {
	f := &Fold{Follower: audit.NewFollower(l.Root.Origin)}
	if l.Kept == UseKept {
		place, err := m.Trust.Fold(l.Root)
		if err == nil {
			f.Before, err = place.Load()
		}
		if err != nil {
			m.Warn("the kept fold is not used, and the log is read from its first entry: %v", err)
		} else if f.Before != nil {
			f.Follower, f.Head = f.Before.Follower, f.Before.Head
		}
	}
	f.State = f.Follower.State()
	f.Size = f.State.Size()
	f.Now = l.Clock(f)
	return f
}

// Readahead is the greatest number of entries that [Machine.Look] reads and keeps in
// memory, so that [Machine.Advance] waits for no server.
const Readahead = 1 << 16

// Ahead is a tree head that continues a fold.
type Ahead struct {
	verify.SignedHead
	Tell   func(done, total uint64) // progress of Advance, in entries; may be nil
	source audit.Source
}

// Look returns the newest tree head of the log. The head is proven to continue the fold. Look
// returns nil if the fold is as new as the head, and has that head. Look holds the lock while it
// reads the fold. A head of another log is a [*verify.ForkError]. An error of a connection says
// nothing about the log. If the fold lacks at most Readahead entries, Look reads these entries, so
// that Advance asks no server.
func (m *Machine) Look(ctx context.Context, l *Log, f *Fold, lock *sync.RWMutex) (*Ahead, error) {
	head, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	if head.Size <= f.Size {
		lock.RLock()
		defer lock.RUnlock()
		return nil, (&audit.Kept{Follower: f.Follower, Head: f.Head}).PrecededBy(head)
	}
	if f.Size > 0 {
		if err := l.Consistent(ctx, f.Head, head); err != nil {
			return nil, err
		}
	}
	ahead := &Ahead{SignedHead: head, source: l}
	if head.Size-f.Size > Readahead {
		return ahead, nil
	}
	read := &readahead{Source: l, tiles: map[string][]byte{}}
	for tile := f.Size / merkle.TileWidth; tile*merkle.TileWidth < head.Size; tile++ {
		if _, err := audit.Bundle(ctx, read, tile, head.Size); err != nil {
			return nil, err
		}
	}
	ahead.source = read
	return ahead, nil
}

// Advance extends a fold to a tree head that Look returned. Advance holds the lock while it changes
// the fold. After an error the fold must not be used: it has entries that were not checked against
// a head.
func (m *Machine) Advance(ctx context.Context, l *Log, f *Fold, to *Ahead, lock *sync.RWMutex) error {
	tell := to.Tell
	if tell == nil {
		tell = func(uint64, uint64) {}
	}
	lock.Lock()
	f.Head = to.SignedHead
	err := m.follow(ctx, l, to.source, f, tell)
	lock.Unlock()
	if err != nil {
		return err
	}
	lock.RLock() // other goroutines may read the fold while it is written
	defer lock.RUnlock()
	if err := m.Trust.SaveHead(l.Root.Origin, f.Head.Note); err != nil {
		return fmt.Errorf("keep the accepted tree head: %w", err)
	}
	return m.settle(l, f)
}

// readahead is a source that reads each tile once.
type readahead struct {
	audit.Source
	tiles map[string][]byte
}

// Tile implements [audit.Source].
func (r *readahead) Tile(ctx context.Context, t merkle.Tile) ([]byte, error) {
	name := t.Path()
	if tile, read := r.tiles[name]; read {
		return tile, nil
	}
	tile, err := r.Source.Tile(ctx, t)
	if err == nil {
		r.tiles[name] = tile
	}
	return tile, err
}
