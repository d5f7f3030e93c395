package node

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Chain returns the verified chain of policies and keys as of now.
func (n *Node) Chain(context.Context) (*verify.Chain, error) { return n.Replica.View().Chain, nil }

// Register implements [record.Ledger].
func (n *Node) Register(ctx context.Context, entries []*entry.Entry) error {
	answer, err := n.Log.Submit(ctx, entries...)
	if err == nil && answer.Refused != nil {
		err = answer.Refused
	}
	return err
}

// Receipts implements [record.Ledger].
func (n *Node) Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
	return func(yield func(*verify.Receipt, error) bool) {
		found, err := n.Log.Find(ledger.Query{Index: index, Value: value})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, i := range found {
			receipt, err := n.Log.Receipt(i)
			if err = errors.Join(err, ctx.Err()); !yield(receipt, err) || err != nil {
				return
			}
		}
	}
}

// Execution implements [record.Ledger].
func (n *Node) Execution(_ context.Context, ref entry.Ref) (*entry.Execution, error) {
	return newest[*entry.Execution](n, ref, func(s *coord.State) (uint64, bool) {
		x, known := s.Execution(ref, 0)
		return x.Index, known
	})
}

// Task implements [enact.Log].
func (n *Node) Task(_ context.Context, ref entry.Ref) (*entry.Task, error) {
	return newest[*entry.Task](n, ref, func(s *coord.State) (uint64, bool) {
		t, known := s.Task(ref)
		return t.Changed, known
	})
}

// newest returns the entry that the state names for a reference; nil: the state knows none.
func newest[T entry.Body](n *Node, ref entry.Ref, in func(*coord.State) (uint64, bool)) (body T, err error) {
	var at uint64
	known := false
	n.Replica.Read(func(s *coord.State) { at, known = in(s) })
	if !known {
		return body, nil
	}
	e, err := n.Log.Entry(at)
	if err != nil {
		return body, err
	}
	body, ok := e.Body.(T)
	if !ok {
		return body, fmt.Errorf("node: entry %d is not about %s", at, ref)
	}
	return body, nil
}

// Consistency implements [record.Ledger].
func (n *Node) Consistency(_ context.Context, older, newer string) (verify.ConsistencyProof, error) {
	p := verify.ConsistencyProof{Older: older, Newer: newer}
	root, err := n.Root()
	if err != nil {
		return p, err
	}
	a, err := root.Head([]byte(older))
	if err != nil {
		return p, err
	}
	b, err := root.Head([]byte(newer))
	if err != nil {
		return p, err
	}
	if p.Path, err = n.Log.Consistency(a.Size, b.Size); err == nil {
		_, _, err = root.Consistency(p)
	}
	return p, err
}

// Cosigned returns nothing: no witness cosigns a ledger that is opened in place.
func (n *Node) Cosigned() string { return "" }

// Continues checks that the newer head continues the older head, by the tree of the log. The log
// must have, or have had, the newer head. If the newer head does not continue the older head, the
// error is evidence. If the newer head is smaller, the log is an older copy, and the error is
// [ledger.ErrRolledBack].
func (n *Node) Continues(older, newer verify.SignedHead) error {
	if older.Size > newer.Size {
		return fmt.Errorf("%w: the database has size %d, but this machine has accepted a signed tree head of %d: %s",
			ledger.ErrRolledBack, newer.Size, older.Size, ledger.LostRemedy)
	}
	path, err := n.Log.Consistency(older.Size, newer.Size)
	if err == nil {
		err = merkle.CheckConsistency(older.Head, newer.Head, path)
	}
	if errors.Is(err, merkle.ErrProof) || errors.Is(err, ledger.ErrNotFound) {
		fork := verify.BeganOtherwise(older, newer, merkle.TileReader(newer.Size, n.Log.Tile))
		if fork == nil {
			fork = &verify.ForkError{First: older.Note, Second: newer.Note}
		}
		fork.Detail = fmt.Sprintf("the log of size %d here, root %s, does not continue that of size %d, root %s, accepted before: %v",
			newer.Size, newer.Root, older.Size, older.Root, err)
		return fork
	}
	return err
}
