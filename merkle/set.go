package merkle

import (
	"fmt"
	"math/bits"
)

// Place is a leaf and where it stands.
type Place struct {
	Index uint64
	Leaf  Hash
}

// ProveInclusions returns the joint proof of the leaves at indexes, which strictly
// ascend, in the tree of size leaves: the hashes of the largest subtrees without any of
// these leaves, from left to right. For one index these are the hashes of its audit
// path in another order; for many indexes they are far fewer than in all audit paths.
// Without any index it is the root.
func ProveInclusions(indexes []uint64, size uint64, nodes NodeReader) ([]Hash, error) {
	for i, index := range indexes {
		if index >= size || i > 0 && indexes[i-1] >= index {
			return nil, fmt.Errorf("merkle: prove inclusion of %d in %d: want ascending indexes below the size", index, size)
		}
	}
	p := setProver{nodes: nodes, path: []Hash{}}
	if err := p.prove(indexes, 0, size); err != nil {
		return nil, err
	}
	return p.path, nil
}

// CheckInclusions reports nil if path proves that the leaves stand at their
// places, which strictly ascend, in the tree of head, and [ErrProof] otherwise.
func CheckInclusions(places []Place, head Head, path []Hash) error {
	for i, p := range places {
		if p.Index >= head.Size || i > 0 && places[i-1].Index >= p.Index {
			return fmt.Errorf("%w: inclusion of leaf %d in size %d: want ascending places", ErrProof, p.Index, head.Size)
		}
	}
	c := setChecker{path: path}
	root := c.root(places, 0, head.Size)
	if c.short || len(c.path) > 0 || root != head.Root {
		return fmt.Errorf("%w: inclusion of %d leaves in size %d", ErrProof, len(places), head.Size)
	}
	return nil
}

// splitSize is how many of n leaves are in the left subtree (RFC 6962, section
// 2.1): the largest power of two below n, which is at least 2.
func splitSize(n uint64) uint64 { return 1 << (bits.Len64(n-1) - 1) }

type setProver struct {
	nodes NodeReader
	path  []Hash
}

// prove goes over the subtree of n leaves from first on.
func (p *setProver) prove(indexes []uint64, first, n uint64) error {
	if len(indexes) == 0 {
		h, err := p.root(first, n)
		p.path = append(p.path, h)
		return err
	}
	if n == 1 {
		return nil
	}
	left := splitSize(n)
	cut := 0
	for cut < len(indexes) && indexes[cut] < first+left {
		cut++
	}
	if err := p.prove(indexes[:cut], first, left); err != nil {
		return err
	}
	return p.prove(indexes[cut:], first+left, n-left)
}

// root returns the root over n leaves from first on, which begins a perfect
// subtree at least as large.
func (p *setProver) root(first, n uint64) (Hash, error) {
	if n == 0 {
		return EmptyHead().Root, nil
	}
	if n&(n-1) == 0 {
		level := uint(bits.TrailingZeros64(n))
		h, err := p.nodes(level, first>>level)
		if err != nil {
			return Hash{}, fmt.Errorf("merkle: read node %d/%d: %w", level, first>>level, err)
		}
		return h, nil
	}
	left := splitSize(n)
	l, err := p.root(first, left)
	if err != nil {
		return Hash{}, err
	}
	r, err := p.root(first+left, n-left)
	return HashChildren(l, r), err
}

type setChecker struct {
	path  []Hash // what is left of it
	short bool   // it ended too early
}

func (c *setChecker) root(places []Place, first, n uint64) Hash {
	switch {
	case len(places) == 0 && len(c.path) == 0:
		c.short = true
		return Hash{}
	case len(places) == 0:
		h := c.path[0]
		c.path = c.path[1:]
		return h
	case n == 1:
		return places[0].Leaf
	}
	left := splitSize(n)
	cut := 0
	for cut < len(places) && places[cut].Index < first+left {
		cut++
	}
	l := c.root(places[:cut], first, left)
	return HashChildren(l, c.root(places[cut:], first+left, n-left))
}
