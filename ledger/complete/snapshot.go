package complete

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"recoveryledger/merkle"
)

// Records returns the records of a tree in memory, from which [ReadTree] makes the same tree: the
// record of each key, as bytes, ascending by key. The bytes are valid until the next record.
func (t *Tree) Records() iter.Seq2[merkle.Hash, []byte] {
	return func(yield func(merkle.Hash, []byte) bool) {
		var buf []byte
		for _, key := range keysOf(t.records) {
			if buf = appendRecord(buf[:0], t.records[key]); !yield(key, buf) {
				return
			}
		}
	}
}

// ReadTree returns the tree over the first size entries of a log, from the records of
// [Tree.Records]. The error says that the records are of no tree.
func ReadTree(size uint64, records iter.Seq2[merkle.Hash, []byte]) (*Tree, error) {
	t := NewTree()
	t.size = size
	var leaves []merkle.PrefixLeaf
	var again []byte
	for key, value := range records {
		of, err := decodeRecord(value)
		if err != nil {
			return nil, err
		}
		if again = appendRecord(again[:0], of); !bytes.Equal(again, value) {
			return nil, fmt.Errorf("%w: the record of %s is not in its one form", ErrStore, key)
		}
		hash, err := merkle.HashRecord(of.view())
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrStore, err)
		}
		if n := len(leaves); n > 0 && bytes.Compare(leaves[n-1].Key[:], key[:]) >= 0 {
			return nil, fmt.Errorf("%w: key %s is not above the one before", ErrStore, key)
		}
		t.records[key], leaves = of, append(leaves, merkle.PrefixLeaf{Key: key, Record: hash})
	}
	if err := t.prefix.Update(slices.Clip(leaves)); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrStore, err)
	}
	return t, nil
}
