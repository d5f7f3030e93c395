package audit

import (
	"context"
	"errors"
	"fmt"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// ErrDamaged reports bytes that are not a well-formed entry bundle (c2sp.org/tlog-tiles).
var ErrDamaged = errors.New("audit: damaged entry bundle")

// FindingError reports an entry that the rules of registration forbid, with the
// receipt that proves that the ledger registered it.
type FindingError struct {
	Index   uint64
	Refusal *entry.Refusal // why the entry should not be in the log
	Receipt verify.Receipt
}

// Error implements error.
func (e *FindingError) Error() string {
	return fmt.Sprintf("entry %d should not be in the log: %v", e.Index, e.Refusal)
}

// Unwrap returns the refusal.
func (e *FindingError) Unwrap() error { return e.Refusal }

// Evidence returns the proof that the ledger put the entry into its log. Anyone can check the
// proof offline.
func (e *FindingError) Evidence() *verify.Evidence {
	return &verify.Evidence{Kind: verify.EvidenceEntry, Detail: e.Refusal.Detail, Problem: e.Refusal.Problem, Field: e.Refusal.Field,
		Receipts: []verify.Receipt{e.Receipt}}
}

// RootError reports leaves that differ from the leaves under the signed tree head. It convicts
// nobody: the leaves carry no signature, and a server, a mirror or a disk may have changed them.
type RootError struct {
	Head   verify.SignedHead
	Detail string
}

// Error implements error.
func (e *RootError) Error() string { return e.Detail }

func otherRoot(computed merkle.Head, head verify.SignedHead) string {
	return fmt.Sprintf("the entries of the log have the root %s, its signed tree head of size %d has %s", computed.Root, head.Size, head.Root)
}

// Evidence returns the document by which an error accuses the ledger, or nil if the error accuses
// nobody. Only what the ledger has signed accuses it: a receipt of a wrong entry, or two tree
// heads. Two tree heads of different sizes convict the ledger only with the proof that the newer
// tree began otherwise. Without the proof a check of the document is inconclusive. A [*RootError],
// [ErrDamaged] and an error of reading may be the fault of whoever stores or carries the log.
func Evidence(err error) *verify.Evidence {
	if found, ok := errors.AsType[*FindingError](err); ok {
		return found.Evidence()
	}
	if found, ok := errors.AsType[*IndexError](err); ok {
		return found.Evidence()
	}
	if found, ok := errors.AsType[*verify.IndexError](err); ok {
		return found.Evidence()
	}
	if found, ok := errors.AsType[*verify.ForkError](err); ok {
		return found.Evidence()
	}
	return nil
}

// accuse returns the [FindingError] with its receipt.
func accuse(ctx context.Context, source Source, head verify.SignedHead, finding *Finding, seen merkle.Head) error {
	receipts, err := receiptsOf(ctx, source, head, []uint64{finding.Index}, seen)
	if err != nil {
		return err
	}
	return &FindingError{Index: finding.Index, Refusal: finding.Refusal, Receipt: receipts[0]}
}

// receiptsOf returns the receipts of entries, in the order of the indexes. The server may
// have changed an entry on the way. The entry speaks against the ledger only if the
// served leaves, whose tree is seen, are the leaves under the ledger's signature.
func receiptsOf(ctx context.Context, source Source, head verify.SignedHead, indexes []uint64, seen merkle.Head) ([]verify.Receipt, error) {
	var tree merkle.Tree
	receipts := make([]verify.Receipt, len(indexes))
	for leaf, err := range Leaves(ctx, source, 0, head.Size) {
		if err != nil {
			return nil, err
		}
		for i, index := range indexes {
			if tree.Size() == index {
				receipts[i].Leaf = leaf
			}
		}
		if tree.Append(merkle.HashLeaf(leaf)); tree.Size() != seen.Size {
			continue
		}
		if again := tree.Head(seen.Size); again != seen {
			return nil, &RootError{Head: head, Detail: fmt.Sprintf("the log of size %d was served twice, with the roots %s and %s",
				seen.Size, seen.Root, again.Root)}
		}
	}
	if served := tree.Head(tree.Size()); served != head.Head {
		return nil, &RootError{Head: head, Detail: otherRoot(served, head)}
	}
	for i, index := range indexes {
		path, err := merkle.ProveInclusion(index, head.Size, tree.Node, nil)
		if err != nil {
			return nil, err
		}
		receipts[i].Index, receipts[i].Head, receipts[i].Proof = index, head.Note, path
	}
	return receipts, nil
}
