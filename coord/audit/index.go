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

// handMax is the number of entries that are kept until an index entry covers them, if other
// entries can be read again.
const handMax = 1 << 14

// recordMax bounds the record of a subject in a snapshot, in bytes. A record has some labels, and
// a few hashes and indexes for each label.
const recordMax = 1 << 16

// roots computes the roots of index entries. Its tree takes up only the entries that an index
// entry covers, so that a log without index entries costs nothing.
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
// [*complete.RootError], or the error of reading.
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

// snapshot passes the tree. The entries at hand are left out, and are read again.
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

// ReadAgain sets how the follower reads entries that it took up before it was restored. An index
// entry may cover such entries. Without ReadAgain, [Follower.Follow] ends at such an index entry
// with an error. [Run] calls ReadAgain.
func (f *Follower) ReadAgain(read func(ctx context.Context, from, to uint64) iter.Seq2[*entry.Entry, error]) {
	f.index.again = read
}

// again reads entries that the follower has taken up, and compares them with the leaf hashes that
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

// IndexError reports an index entry whose root is not the root of the entries that it covers. Its
// receipts prove that a coordinator signed the index entry, and that the ledger registered it.
type IndexError struct {
	Wrong    *complete.RootError
	Receipts []verify.Receipt // of the index entry, then of the policies and keys of its signer
}

// Error implements error.
func (e *IndexError) Error() string { return e.Wrong.Error() }

// Unwrap returns the [*complete.RootError].
func (e *IndexError) Unwrap() error { return e.Wrong }

// Evidence returns the document that proves which index entry the ledger put into its log. Anyone
// can check it offline. Only the log shows the root that follows from the entries.
func (e *IndexError) Evidence() *verify.Evidence {
	return &verify.Evidence{Kind: verify.EvidenceIndex, Detail: e.Error(), Root: &e.Wrong.Root, Subjects: e.Wrong.Subjects, Receipts: e.Receipts}
}

// accuseIndex returns the [IndexError] for the error that ended an audit, if that error is a wrong
// index root; else it returns the error itself.
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
