package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
)

// lookEvery is how often a node of a cluster looks whether it orders the log.
const lookEvery = 20 * time.Millisecond

// terms has the coordinator decide, if decides is set: always in a single ledger, and in a cluster
// while this node orders the log.
func (n *Node) terms(ctx context.Context, decides bool) error {
	if n.Term == nil {
		return n.coordinator().Run(ctx)
	}
	for {
		term, ok := n.nextTerm(ctx)
		if !ok {
			return nil
		}
		n.Replica.NewTerm()
		n.began.Store(term)
		n.Logger.Info("this node orders the log", "term", term)
		if err := n.oneTerm(ctx, term, decides); err != nil {
			return err
		}
		n.Logger.Info("this node orders the log no more", "term", term)
	}
}

// nextTerm waits for a term of this node. It returns false when ctx ends.
func (n *Node) nextTerm(ctx context.Context) (int64, bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if term := n.Term(); term != 0 && n.Log.Leads() {
			return term, true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return 0, false
}

// oneTerm has the coordinator decide until the term is over.
func (n *Node) oneTerm(ctx context.Context, term int64, decides bool) error {
	ctx, over := context.WithCancel(ctx)
	defer over()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer over()
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for n.Term() == term && n.Log.Leads() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	var err error
	if decides {
		err = n.coordinator().Run(ctx)
	}
	if err != nil && !errors.Is(err, agreement.ErrNotLeading) {
		return err
	}
	<-watched
	return nil
}

// Speaks reports whether this node speaks for the coordinator, as far as it knows.
func (n *Node) Speaks() bool {
	term := n.Term()
	return term != 0 && n.began.Load() == term
}

// Ordered returns nil while this node may speak for the coordinator: the leases of term have begun.
func (n *Node) Ordered(term int64) error {
	if n.began.Load() != term {
		return agreement.ErrNotLeading
	}
	return nil
}

// CaughtUp waits until the log of this node of a cluster has everything that was registered before.
// Of a new ledger it waits until this node may write the genesis. Then it checks the log as
// [Node.ContinuesKnown] does. reach is as that of the server's Peers.
func (n *Node) CaughtUp(ctx context.Context, reach func(context.Context) error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := reach(ctx)
		if err == nil && (n.Log.Size() > 0 || n.Log.Leads()) {
			return n.ContinuesKnown()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the node has not reached what the cluster registered: %v", ledger.ErrStopped, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
