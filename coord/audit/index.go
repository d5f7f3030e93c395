package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"recoveryledger/coord/codec"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// handMax is the number of entries that are kept until an index entry covers them,
// where others can be read again.
const handMax = 1 << 14

// recordMax bounds the record of a subject in a snapshot, in bytes: it has some labels,
// and of each a few hashes and indexes.
const recordMax = 1 << 16

// roots computes the roots of index entries. It takes up what these cover, and no
// more: a log without index entries costs nothing.
type roots struct {
	tree *complete.Tree
	hand []*entry.Entry // from the size of the tree on
	// again reads entries that were taken up before; nil: all are at hand.
	again func(ctx context.Context, from, to uint64) iter.Seq2[*entry.Entry, error]
}

// saw takes up an entry.
func (x *roots) saw(e *entry.Entry, index uint64) {
	if index == x.tree.Size()+uint64(len(x.hand)) && (len(x.hand) < handMax || x.again == nil) {
		x.hand = append(x.hand, e)
	}
}

// check compares an index entry with the entries that it covers. The error is a
// [*complete.RootError], or that of reading.
func (x *roots) check(ctx context.Context, index uint64, said *entry.LogIndex) error {
	if x.tree.Size() < said.Size {
		taken := min(int(said.Size-x.tree.Size()), len(x.hand))
		for _, e := range x.hand[:taken] {
			if err := x.tree.Add(e); err != nil {
				return err
			}
		}
		x.hand = slices.Delete(x.hand, 0, taken)
	}
	if size := x.tree.Size(); size < said.Size {
		if x.again == nil {
			return fmt.Errorf("audit: entries %d to %d, which index entry %d covers, are not at hand", size, said.Size-1, index)
		}
		for e, err := range x.again(ctx, size, said.Size) {
			if err == nil {
				err = x.tree.Add(e)
			}
			if err != nil {
				return err
			}
		}
	}
	return x.tree.Check(index, said)
}

// snapshot passes the tree. What is at hand is read again.
func (x *roots) snapshot(c *codec.Codec) {
	size, subjects := x.tree.Size(), uint64(0)
	if !c.Reading() {
		for range x.tree.Records() {
			subjects++
		}
		c.Put(size)
		c.Put(subjects)
		for key, value := range x.tree.Records() {
			c.PutRaw(key[:])
			c.PutText(value)
		}
		return
	}
	size, subjects = c.Get(math.MaxUint32), c.GetCount(math.MaxUint32)
	tree, err := complete.ReadTree(size, func(yield func(merkle.Hash, []byte) bool) {
		for range subjects {
			key := merkle.Hash(c.GetRaw(merkle.HashSize))
			if value := c.GetText(recordMax); !c.OK() || !yield(key, value) {
				return
			}
		}
	})
	if err != nil {
		c.Refuse("the index: %v", err)
		return
	}
	x.tree = tree
}

// ReadAgain sets how the follower reads entries that it took up before it was restored: an
// index entry may cover them. Without it [Follower.Follow] ends at such an index entry
// with an error; [Run] sets it.
func (f *Follower) ReadAgain(read func(ctx context.Context, from, to uint64) iter.Seq2[*entry.Entry, error]) {
	f.index.again = read
}

// again reads entries of the log that the follower has taken up, and holds them to what
// it took up.
func (f *Follower) again(source Source, head verify.SignedHead) func(ctx context.Context, from, to uint64) iter.Seq2[*entry.Entry, error] {
	return func(ctx context.Context, from, to uint64) iter.Seq2[*entry.Entry, error] {
		return func(yield func(*entry.Entry, error) bool) {
			for leaf, err := range Leaves(ctx, source, from, head.Size) {
				if from == to {
					return
				}
				var was merkle.Hash
				var e *entry.Entry
				if err == nil {
					was, err = f.state.Node(0, from)
				}
				if hash := merkle.HashLeaf(leaf); err == nil && hash != was {
					err = &RootError{Head: head, Detail: fmt.Sprintf("entry %d was served twice, with the leaf hashes %s and %s", from, was, hash)}
				}
				if err == nil {
					e, _, err = entry.DecodeLeaf(leaf)
				}
				if !yield(e, err) || err != nil {
					return
				}
				from++
			}
		}
	}
}

// IndexError reports an index entry whose root is not that of the entries before it,
// with the receipts that prove that a coordinator signed it and that the ledger
// registered it.
type IndexError struct {
	Wrong    *complete.RootError
	Receipts []verify.Receipt // of the index entry, then of the policies and keys that its signer counts by
}

// Error implements error.
func (e *IndexError) Error() string { return e.Wrong.Error() }

// Unwrap returns what is wrong.
func (e *IndexError) Unwrap() error { return e.Wrong }

// Evidence returns the document that others can check offline: what the ledger has put
// into its log. What follows from the entries only the log shows.
func (e *IndexError) Evidence() *verify.Evidence {
	return &verify.Evidence{Kind: verify.EvidenceIndex, Detail: e.Error(), Root: &e.Wrong.Root, Subjects: e.Wrong.Subjects, Receipts: e.Receipts}
}

// accuseIndex returns the [IndexError] of what ended an audit, if that is a wrong index;
// else the error itself.
func (f *Follower) accuseIndex(ctx context.Context, source Source, head verify.SignedHead, err error, seen merkle.Head) error {
	wrong, ok := errors.AsType[*complete.RootError](err)
	if !ok {
		return err
	}
	indexes := []uint64{wrong.Index}
	for _, link := range f.state.Chain().LinksFor(wrong.By) {
		indexes = append(indexes, link.Index)
	}
	receipts, err := receiptsOf(ctx, source, head, indexes, seen)
	if err != nil {
		return err
	}
	return &IndexError{Wrong: wrong, Receipts: receipts}
}
