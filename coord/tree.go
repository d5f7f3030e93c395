package coord

import (
	"fmt"

	"recoveryledger/coord/compact"
	"recoveryledger/merkle"
)

// tree is the log's Merkle tree: what a decision pins, and the leaf hash of
// every entry. Above the leaves it keeps one node in tileSize, so that the root
// at any size costs some hundred hashes.
type tree struct {
	leaves compact.List[merkle.Hash]
	nodes  []compact.List[merkle.Hash] // by level: roots of tileSize of the level below
}

const tileSize = 1 << 8

func (t *tree) append(leaf merkle.Hash) {
	if t.leaves.Add(leaf); t.leaves.Size()%tileSize == 0 {
		t.grow()
	}
}

// grow adds the nodes over the leaves that are there and have none yet.
func (t *tree) grow() {
	below := &t.leaves
	for level := 0; below.Size() >= tileSize; level++ {
		if level == len(t.nodes) {
			t.nodes = append(t.nodes, compact.List[merkle.Hash]{})
		}
		nodes := &t.nodes[level]
		for below.Size()-nodes.Size()*tileSize >= tileSize {
			nodes.Add(merge(below, nodes.Size()*tileSize, tileSize))
		}
		below = nodes
	}
}

// merge returns the root over count nodes from first on, a power of two.
func merge(nodes *compact.List[merkle.Hash], first, count uint32) merkle.Hash {
	if count == 1 {
		return *nodes.At(first)
	}
	return merkle.HashChildren(merge(nodes, first, count/2), merge(nodes, first+count/2, count/2))
}

// root returns the root of the first size entries, of which there are so many.
func (t *tree) root(size uint64) merkle.Hash {
	if size == 0 {
		return merkle.EmptyHead().Root
	}
	return t.fold(0, size)
}

// fold returns the root over the leaves from first, which begins a perfect
// subtree at least as large, up to size, as RFC 6962 splits them.
func (t *tree) fold(first, size uint64) merkle.Hash {
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
func (t *tree) perfect(first, count uint64) merkle.Hash {
	nodes := &t.leaves
	for level := 0; count >= tileSize && first%tileSize == 0 && level < len(t.nodes); level++ {
		nodes, first, count = &t.nodes[level], first/tileSize, count/tileSize
	}
	return merge(nodes, uint32(first), uint32(count))
}

// Node returns the root over the 2^level entries from index·2^level on. It
// implements [merkle.NodeReader] for every tree that the log has been.
func (s *State) Node(level uint, index uint64) (merkle.Hash, error) {
	if count := s.size >> level; level >= 64 || index >= count {
		return merkle.Hash{}, fmt.Errorf("coord: no node %d/%d in the tree of %d entries", level, index, s.size)
	}
	return s.tree.perfect(index<<level, 1<<level), nil
}

func (t *tree) clone() tree {
	clone := tree{leaves: t.leaves.Clone(), nodes: make([]compact.List[merkle.Hash], len(t.nodes))}
	for i := range t.nodes {
		clone.nodes[i] = t.nodes[i].Clone()
	}
	return clone
}
