package bundle

import (
	"slices"
	"sync"

	"recoveryledger/coord"
	"recoveryledger/merkle"
)

const (
	// maxKeptMembers is the number of members whose plans' trees are kept, two hashes
	// for each. maxTrees is the number of trees.
	maxKeptMembers = 1 << 20
	maxTrees       = 64
)

// setTrees keeps the trees over the rollback sets of the last bundles.
type setTrees struct {
	mu    sync.Mutex
	trees []keptTree // the tree used last is last
}

type keptTree struct {
	decision uint64
	tree     *merkle.Tree
}

// tree returns the tree over the members of the plan in force (SCO-5). The tree does not change
// while the decision is in force.
func (k *setTrees) tree(d *coord.DecisionInForce) *merkle.Tree {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.trees, func(kept keptTree) bool { return kept.decision == d.Index })
	kept := keptTree{decision: d.Index}
	if i >= 0 {
		kept = k.trees[i]
		k.trees = slices.Delete(k.trees, i, i+1)
	} else {
		kept.tree = treeOf(d)
	}
	k.trees = append(k.trees, kept)
	total := uint64(0)
	for i, kept := range slices.Backward(k.trees) {
		if total += kept.tree.Size(); total > maxKeptMembers && i < len(k.trees)-1 || len(k.trees)-i > maxTrees {
			k.trees = slices.Clone(k.trees[i+1:])
			break
		}
	}
	return kept.tree
}

func treeOf(d *coord.DecisionInForce) *merkle.Tree {
	t, buf := &merkle.Tree{}, []byte(nil)
	for place := range d.Members {
		member := d.Planned(place)
		buf = member.AppendJSON(buf[:0])
		t.Append(merkle.HashLeaf(buf))
	}
	return t
}
