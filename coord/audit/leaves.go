package audit

import (
	"context"
	"iter"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// CheckedLeaves yields the leaves of a log. After the last leaf it yields a
// [*RootError] if the leaves are not the leaves under the head.
func CheckedLeaves(ctx context.Context, from Source, head verify.SignedHead, tell func(done, total uint64)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		tree, err := merkle.NewFrontier(0, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		done := uint64(0)
		for leaf, err := range Leaves(ctx, from, 0, head.Size) {
			if err == nil {
				err = tree.Append(merkle.HashLeaf(leaf), func(uint, uint64, merkle.Hash) {})
			}
			if !yield(leaf, err) || err != nil {
				return
			}
			done++
			tell(done, head.Size)
		}
		computed, err := tree.Head()
		if err == nil && computed != head.Head {
			err = &RootError{Head: head, Detail: otherRoot(computed, head)}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// NoteRules passes the leaves of a log on, and notes the rules of the newest policy among them:
// those in force at the end of the log.
func NoteRules(leaves iter.Seq2[[]byte, error], inForce **recovery.Policy) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for leaf, err := range leaves {
			if err == nil {
				noteRules(leaf, inForce)
			}
			if !yield(leaf, err) {
				return
			}
		}
	}
}

func noteRules(leaf []byte, inForce **recovery.Policy) {
	e, _, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return // the reader of the leaves says where the damage is
	}
	if body, ok := e.Body.(*entry.Policy); ok {
		*inForce = recovery.InForce(body)
	}
}
