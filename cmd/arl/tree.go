package main

import (
	"cmp"
	"context"
	"fmt"

	"recoveryledger/api/client"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// tree is the tree over a log that is read whole, with all of its nodes, so that
// it proves any entry.
type tree struct {
	edge   *merkle.Frontier
	levels [][]merkle.Hash
}

func newTree() (*tree, error) {
	edge, err := merkle.NewFrontier(0, nil)
	return &tree{edge: edge}, err
}

func (t *tree) add(leaf merkle.Hash) error {
	return t.edge.Append(leaf, func(level uint, _ uint64, h merkle.Hash) {
		if int(level) == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		t.levels[level] = append(t.levels[level], h)
	})
}

func (t *tree) node(level uint, index uint64) (merkle.Hash, error) {
	if int(level) >= len(t.levels) || index >= uint64(len(t.levels[level])) {
		return merkle.Hash{}, fmt.Errorf("no node %d/%d in the tree", level, index)
	}
	return t.levels[level][index], nil
}

// prove returns the inclusion proof of the entry at index in the tree under the
// head, which must be this one.
func (t *tree) prove(index uint64, head merkle.Head) ([]merkle.Hash, error) {
	computed, err := t.edge.Head()
	if err != nil {
		return nil, err
	}
	if computed != head {
		return nil, fmt.Errorf("the entries of the log have the root %s, its signed tree head of size %d has %s", computed.Root, head.Size, head.Root)
	}
	return merkle.ProveInclusion(index, head.Size, t.node, nil)
}

// accuse returns the receipt of an entry that should not be in the log. Whoever
// served it may have changed it on the way: it speaks against the ledger only if
// the leaves as they were served, of which seen is the tree, are those under the
// ledger's signature.
func accuse(ctx context.Context, l *openLog, head *client.Head, index uint64, seen merkle.Head) (*verify.Receipt, error) {
	t, err := newTree()
	if err != nil {
		return nil, err
	}
	found := &verify.Receipt{Index: index, Head: head.Note}
	at := uint64(0)
	for leaf, err := range leaves(ctx, l, 0, head.Size) {
		if err == nil {
			err = t.add(merkle.HashLeaf(leaf))
		}
		if err != nil {
			return nil, err
		}
		if at == index {
			found.Leaf = leaf
		}
		if at++; at != seen.Size {
			continue
		}
		if again, err := t.edge.Head(); err != nil || again != seen {
			err = cmp.Or(err, fmt.Errorf("the first %d entries of the log were served twice, with the roots %s and %s", at, seen.Root, again.Root))
			return nil, &inconsistency{"audit", forkEvidence{err.Error(), head.Note, ""}, err}
		}
	}
	if found.Proof, err = t.prove(index, head.Head); err != nil {
		return nil, &inconsistency{"audit", forkEvidence{err.Error(), head.Note, ""}, err}
	}
	return found, nil
}
