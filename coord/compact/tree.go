package compact

import (
	"fmt"

	"recoveryledger/merkle"
)

// Tree is a Merkle tree (RFC 6962) that grows, and that shares its old part with its
// clones as a [List] does. Above the leaves it keeps one node in tileSize, so that the
// root at any size costs some hundred hashes.
type Tree struct {
	leaves List[merkle.Hash]
	nodes  []List[merkle.Hash] // by level: roots of tileSize of the level below
}

const tileSize = 1 << 8

// Add appends the hash of a leaf.
func (t *Tree) Add(leaf merkle.Hash) {
	if t.Append(leaf); t.leaves.Size()%tileSize == 0 {
		t.Grow()
	}
}

// Append appends the hash of a leaf, and no nodes over it: [Tree.Grow] adds them.
func (t *Tree) Append(leaf merkle.Hash) { t.leaves.Add(leaf) }

// Size returns how many leaves there are.
func (t *Tree) Size() uint32 { return t.leaves.Size() }

// Leaf returns the hash of the leaf with a number.
func (t *Tree) Leaf(number uint32) merkle.Hash { return *t.leaves.At(number) }

// Grow adds the nodes over the leaves that are there and have none yet.
func (t *Tree) Grow() {
	below := &t.leaves
	for level := 0; below.Size() >= tileSize; level++ {
		if level == len(t.nodes) {
			t.nodes = append(t.nodes, List[merkle.Hash]{})
		}
		nodes := &t.nodes[level]
		for below.Size()-nodes.Size()*tileSize >= tileSize {
			nodes.Add(merge(below, nodes.Size()*tileSize, tileSize))
		}
		below = nodes
	}
}

// merge returns the root over count nodes from first on, a power of two.
func merge(nodes *List[merkle.Hash], first, count uint32) merkle.Hash {
	if count == 1 {
		return *nodes.At(first)
	}
	return merkle.HashChildren(merge(nodes, first, count/2), merge(nodes, first+count/2, count/2))
}

// Root returns the root of the first size leaves, of which there are so many.
func (t *Tree) Root(size uint64) merkle.Hash {
	if size == 0 {
		return merkle.EmptyHead().Root
	}
	return t.fold(0, size)
}

// fold returns the root over the leaves from first, which begins a perfect
// subtree at least as large, up to size, as RFC 6962 splits them.
func (t *Tree) fold(first, size uint64) merkle.Hash {
	count := size - first
	if count&(count-1) == 0 {
		return t.perfect(first, count)
	}
	left := uint64(1)
	for left*2 < count {
		left *= 2
	}
	return merkle.HashChildren(t.perfect(first, left), t.fold(first+left, size))
}

// perfect returns the root of a perfect subtree, out of the highest nodes that
// are there.
func (t *Tree) perfect(first, count uint64) merkle.Hash {
	nodes := &t.leaves
	for level := 0; count >= tileSize && first%tileSize == 0 && level < len(t.nodes); level++ {
		nodes, first, count = &t.nodes[level], first/tileSize, count/tileSize
	}
	return merge(nodes, uint32(first), uint32(count))
}

// Node returns the root over the 2^level leaves from index·2^level on. It
// implements [merkle.NodeReader] for every tree that this one has been.
func (t *Tree) Node(level uint, index uint64) (merkle.Hash, error) {
	if count := uint64(t.Size()) >> level; level >= 64 || index >= count {
		return merkle.Hash{}, fmt.Errorf("compact: no node %d/%d in the tree of %d leaves", level, index, t.Size())
	}
	return t.perfect(index<<level, 1<<level), nil
}

// Clone returns a tree with the same leaves, to be changed on its own. It is a
// change of t as far as goroutines are concerned.
func (t *Tree) Clone() Tree {
	clone := Tree{leaves: t.leaves.Clone(), nodes: make([]List[merkle.Hash], len(t.nodes))}
	for i := range t.nodes {
		clone.nodes[i] = t.nodes[i].Clone()
	}
	return clone
}
