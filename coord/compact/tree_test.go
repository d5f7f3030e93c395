package compact

import (
	"encoding/binary"
	"slices"
	"testing"

	"recoveryledger/merkle"
)

func leafOf(n uint64) merkle.Hash { return merkle.HashLeaf(binary.BigEndian.AppendUint64(nil, n)) }

// checkTree proves every leaf with the nodes of a tree, and computes every head
// that the tree has had from them.
func checkTree(t *testing.T, tree *Tree, leaves []merkle.Hash) {
	t.Helper()
	size, newest := uint64(len(leaves)), merkle.HeadOf(leaves)
	if uint64(tree.Size()) != size || tree.Root(size) != newest.Root {
		t.Fatalf("%d leaves with the root %s, want %v", tree.Size(), tree.Root(size), newest)
	}
	for i, leaf := range leaves {
		path, err := merkle.ProveInclusion(uint64(i), size, tree.Node, nil)
		if err == nil {
			err = merkle.CheckInclusion(uint64(i), leaf, newest, path)
		}
		if err != nil || tree.Leaf(uint32(i)) != leaf {
			t.Fatalf("leaf %d: %v", i, err)
		}
		frontier, err := merkle.NewFrontier(uint64(i), tree.Node)
		if err != nil {
			t.Fatal(err)
		}
		older, err := frontier.Head()
		if want := merkle.HeadOf(leaves[:i]); err != nil || older != want || tree.Root(uint64(i)) != want.Root {
			t.Fatalf("head of size %d: %v, want %v: %v", i, older, want, err)
		}
	}
}

// TestTree grows a tree over two nodes, with its clones going on by themselves.
func TestTree(t *testing.T) {
	var tree, appended Tree
	var leaves []merkle.Hash
	for i := range uint64(2*tileSize + 3) {
		leaves = append(leaves, leafOf(i))
		tree.Add(leaves[i])
		appended.Append(leaves[i])
	}
	appended.Grow()
	clone := tree.Clone()
	checkTree(t, &appended, leaves)
	tree.Add(leafOf(1000))
	checkTree(t, &tree, append(slices.Clone(leaves), leafOf(1000)))
	checkTree(t, &clone, leaves)
}

// TestTreeNodeOutside asks for nodes that are not there.
func TestTreeNodeOutside(t *testing.T) {
	var tree Tree
	for i := range uint64(2*tileSize + 3) {
		tree.Add(leafOf(i))
	}
	size := uint64(tree.Size())
	for _, outside := range []struct {
		level uint
		index uint64
	}{{0, size}, {1, size / 2}, {9, 1}, {10, 0}, {64, 0}, {200, 0}} {
		if got, err := tree.Node(outside.level, outside.index); err == nil {
			t.Errorf("node %v of a tree of %d leaves: %v", outside, size, got)
		}
	}
}
