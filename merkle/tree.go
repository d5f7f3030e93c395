package merkle

import (
	"fmt"
	"slices"
)

// Tree is a growing tree in memory that keeps every node: 64 bytes a leaf. It
// proves every leaf, and every smaller tree, under each size that it had. The
// zero Tree has no leaves.
type Tree struct {
	levels [][]Hash // roots of perfect subtrees, by height
}

// Append adds a leaf hash.
func (t *Tree) Append(leaf Hash) {
	for level, h := 0, leaf; ; level++ {
		if level == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		t.levels[level] = append(t.levels[level], h)
		last := len(t.levels[level]) - 1
		if last%2 == 0 {
			return
		}
		h = HashChildren(t.levels[level][last-1], t.levels[level][last])
	}
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 {
	if len(t.levels) == 0 {
		return 0
	}
	return uint64(len(t.levels[0]))
}

// Node implements [NodeReader]. The error names a node that the tree has not.
func (t *Tree) Node(level uint, index uint64) (Hash, error) {
	if level >= uint(len(t.levels)) || index >= uint64(len(t.levels[level])) {
		return Hash{}, fmt.Errorf("merkle: no node %d/%d in a tree of %d leaves", level, index, t.Size())
	}
	return t.levels[level][index], nil
}

// Head returns the head of the first size leaves. The tree must have at least size
// leaves.
func (t *Tree) Head(size uint64) Head {
	head := EmptyHead()
	head.Size = size
	seen := false
	for level := 0; size>>level > 0; level++ { // the subtrees of the right edge, smallest first
		switch count := size >> level; {
		case count%2 == 0:
		case seen:
			head.Root = HashChildren(t.levels[level][count-1], head.Root)
		default:
			head.Root, seen = t.levels[level][count-1], true
		}
	}
	return head
}

// HeadOf returns the head of the tree over leaves, which are leaf hashes.
func HeadOf(leaves []Hash) Head {
	head := EmptyHead()
	head.Size = uint64(len(leaves))
	nodes := slices.Clone(leaves)
	for n := len(nodes); n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			nodes[i] = HashChildren(nodes[2*i], nodes[2*i+1])
		}
		nodes[n/2] = nodes[n-1] // the last of an odd number goes up unchanged; otherwise it is not read again
	}
	if len(nodes) > 0 {
		head.Root = nodes[0]
	}
	return head
}
