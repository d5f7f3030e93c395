package main

import (
	"context"
	"fmt"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// accuse returns the receipt of an entry that should not be in the log. Whoever
// served it may have changed it on the way: it speaks against the ledger only if
// the leaves as they were served, of which seen is the tree, are those under the
// ledger's signature.
func accuse(ctx context.Context, l *openLog, head *verify.SignedHead, index uint64, seen merkle.Head) (*verify.Receipt, error) {
	var t merkle.Tree
	found := &verify.Receipt{Index: index, Head: head.Note}
	at := uint64(0)
	for leaf, err := range leaves(ctx, l, 0, head.Size) {
		if err != nil {
			return nil, err
		}
		t.Append(merkle.HashLeaf(leaf))
		if at == index {
			found.Leaf = leaf
		}
		if at++; at != seen.Size {
			continue
		}
		if again := t.Head(at); again != seen {
			err := fmt.Errorf("the first %d entries of the log were served twice, with the roots %s and %s", at, seen.Root, again.Root)
			return nil, &inconsistency{"audit", forkEvidence{err.Error(), head.Note, ""}, err}
		}
	}
	if served := t.Head(t.Size()); served != head.Head {
		err := fmt.Errorf("the entries of the log have the root %s, its signed tree head of size %d has %s", served.Root, head.Size, head.Root)
		return nil, &inconsistency{"audit", forkEvidence{err.Error(), head.Note, ""}, err}
	}
	var err error
	found.Proof, err = merkle.ProveInclusion(index, head.Size, t.Node, nil)
	return found, err
}
