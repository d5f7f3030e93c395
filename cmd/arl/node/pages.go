package node

import (
	"context"
	"errors"
	"iter"

	"recoveryledger/api"
	"recoveryledger/api/console"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Pages returns the pages of the running ledger, made from its own state.
func (n *Node) Pages() (*console.Console, error) {
	return console.New(&console.Config{Source: served{n}, Origin: n.Origin, Root: n.Root, Lease: n.lease})
}

// lease returns the lease of the agent that holds a task; nil: no agent does.
func (n *Node) lease(_ context.Context, task entry.Ref) (*api.Lease, error) {
	if l, ok := n.Replica.Leases().Find(task); ok {
		return l.Told(n.Log.Now()), nil
	}
	return nil, nil
}

// served is the log as the ledger's own process sees it.
type served struct{ n *Node }

// Standing implements [console.Source].
func (s served) Standing() console.Standing {
	head := s.n.Log.Head()
	return console.Standing{Head: head.Head, Note: head.Note, At: head.RegisteredAt, Now: s.n.Log.Now()}
}

// Read implements [console.Source].
func (s served) Read(show func(state *coord.State, at console.Standing)) {
	at := s.Standing()
	s.n.Replica.ReadView(func(state *coord.State, view *coordinator.View) {
		if at.Size != view.Size {
			at.Head, at.Note, at.At = view.Head, view.Note, 0
		}
		show(state, at)
	})
}

// Entry implements [console.Source].
func (s served) Entry(_ context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error) {
	e, err := s.n.Log.Entry(index)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, entry.Refuse(entry.NotFound, "index", "%s", err)
	}
	if err != nil {
		return nil, nil, err
	}
	proof, err := s.n.Log.Inclusion(index, size)
	return e, proof, err
}

// Entries implements [console.Source].
func (s served) Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return s.n.Log.Entries(ctx, from, to)
}

// Wait implements [console.Source].
func (s served) Wait(ctx context.Context, size uint64) error { return s.n.Log.Wait(ctx, size) }
