package merkle

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
)

// NodeReader returns the hash of the perfect subtree of 2^level leaves that
// begins at leaf index·2^level. It is asked only for subtrees that lie wholly
// inside the tree a proof is made for.
type NodeReader func(level uint, index uint64) (Hash, error)

// Edge remembers the subtrees at the right edge of one tree that are not perfect,
// which the inclusion proofs of many leaves share. Its zero value remembers
// nothing yet. It is safe for concurrent use.
type Edge struct{ roots [64]atomic.Pointer[Hash] } // by level

// ProveInclusion returns the audit path of the leaf at index in the tree of
// size leaves, from the leaf's sibling up to the root's child. Proofs in the
// same tree may share an edge; it may be nil.
func ProveInclusion(index, size uint64, nodes NodeReader, edge *Edge) ([]Hash, error) {
	wanted, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, fmt.Errorf("merkle: prove inclusion of %d in %d: %w", index, size, err)
	}
	return readProof(wanted, nodes, edge)
}

// CheckInclusion reports nil if path proves that the leaf stands at index in
// the tree of head, and [ErrProof] otherwise.
func CheckInclusion(index uint64, leaf Hash, head Head, path []Hash) error {
	err := proof.VerifyInclusion(hasher{}, index, head.Size, leaf[:], rawPath(path), head.Root[:])
	if err != nil {
		return fmt.Errorf("%w: inclusion of leaf %d in size %d: %v", ErrProof, index, head.Size, worded(err))
	}
	return nil
}

// ProveConsistency returns the proof that the tree of older leaves is a prefix
// of the tree of newer leaves. It is empty if older is 0 or equals newer.
func ProveConsistency(older, newer uint64, nodes NodeReader) ([]Hash, error) {
	wanted, err := proof.Consistency(older, newer)
	if err != nil {
		return nil, fmt.Errorf("merkle: prove consistency of %d with %d: %w", older, newer, err)
	}
	return readProof(wanted, nodes, nil)
}

// CheckConsistency reports nil if path proves that the tree of older is a
// prefix of the tree of newer, and [ErrProof] otherwise. The empty tree is a
// prefix of every tree, with an empty path and its own root.
func CheckConsistency(older, newer Head, path []Hash) error {
	if older.Size == 0 && older != EmptyHead() {
		return fmt.Errorf("%w: size 0 with a root other than the empty one", ErrProof)
	}
	err := proof.VerifyConsistency(hasher{}, older.Size, newer.Size, rawPath(path), older.Root[:], newer.Root[:])
	if err != nil {
		return fmt.Errorf("%w: consistency of size %d with %d: %v", ErrProof, older.Size, newer.Size, worded(err))
	}
	return nil
}

// BeganWith returns the root that a tree had at an older size, as a consistency proof
// says that leads to the newer head; ok is false if the proof does not lead there. The
// proof itself says that root only where the older size is no power of two: else a
// verifier starts from the root, and ok is false too.
func BeganWith(older uint64, newer Head, path []Hash) (root Hash, ok bool) {
	if older == 0 || older >= newer.Size {
		return Hash{}, false
	}
	err := proof.VerifyConsistency(hasher{}, older, newer.Size, rawPath(path), root[:], newer.Root[:])
	roots, ok := errors.AsType[proof.RootMismatchError](err)
	if !ok || len(roots.CalculatedRoot) != HashSize {
		return Hash{}, false
	}
	root = Hash(roots.CalculatedRoot)
	return root, CheckConsistency(Head{Size: older, Root: root}, newer, path) == nil
}

// worded describes the fault of a proof in one line: the library prints two roots as
// decimal numbers over five lines.
func worded(err error) error {
	if roots, ok := errors.AsType[proof.RootMismatchError](err); ok {
		return fmt.Errorf("it leads to root %s, and not to %s", Hash(roots.CalculatedRoot), Hash(roots.ExpectedRoot))
	}
	return err
}

func readProof(wanted proof.Nodes, nodes NodeReader, edge *Edge) ([]Hash, error) {
	ragged, begin, end := wanted.Ephem()
	path, err := readNodes(make([]Hash, 0, len(wanted.IDs)), wanted.IDs[:begin], nodes)
	if err != nil {
		return nil, err
	}
	if begin < end {
		root, err := edge.root(ragged.Level, wanted.IDs[begin:end], nodes)
		if err != nil {
			return nil, err
		}
		path = append(path, root)
	}
	return readNodes(path, wanted.IDs[end:], nodes)
}

// root returns the root of the subtree at the edge that the parts, the smallest
// first, cover.
func (e *Edge) root(level uint, parts []compact.NodeID, nodes NodeReader) (Hash, error) {
	if e != nil {
		if known := e.roots[level].Load(); known != nil {
			return *known, nil
		}
	}
	hashes, err := readNodes(nil, parts, nodes)
	if err != nil {
		return Hash{}, err
	}
	root := hashes[0]
	for _, left := range hashes[1:] {
		root = HashChildren(left, root)
	}
	if e != nil {
		e.roots[level].Store(&root)
	}
	return root, nil
}

func readNodes(dst []Hash, ids []compact.NodeID, nodes NodeReader) ([]Hash, error) {
	for _, id := range ids {
		h, err := nodes(id.Level, id.Index)
		if err != nil {
			return nil, fmt.Errorf("merkle: read node %d/%d: %w", id.Level, id.Index, err)
		}
		dst = append(dst, h)
	}
	return dst, nil
}

func rawPath(path []Hash) [][]byte {
	out := make([][]byte, len(path))
	for i := range path {
		out[i] = path[i][:]
	}
	return out
}

// Frontier is the right edge of a growing tree: the hashes that are needed to append leaves and to
// compute the root, at most 64. The zero Frontier is that of the empty tree.
type Frontier struct {
	size uint64
	edge []Hash // roots of perfect subtrees, the largest first: one for each bit set in size
}

// NewFrontier returns the frontier of the tree of size leaves, whose perfect
// subtrees from left to right (largest first) are read through nodes.
func NewFrontier(size uint64, nodes NodeReader) (*Frontier, error) {
	edge, err := readNodes(nil, compact.RangeNodes(0, size, nil), nodes)
	if err != nil {
		return nil, err
	}
	return &Frontier{size: size, edge: edge}, nil
}

// ResumeFrontier returns the frontier that had this edge at this size, which it takes
// over. Whether the hashes are right only a known head can show. The error is
// [ErrMalformed]: not one hash for each bit set in size.
func ResumeFrontier(size uint64, edge []Hash) (*Frontier, error) {
	if want := bits.OnesCount64(size); len(edge) != want {
		return nil, fmt.Errorf("%w: frontier of %d leaves: %d hashes, want %d", ErrMalformed, size, len(edge), want)
	}
	return &Frontier{size: size, edge: edge}, nil
}

// Size returns the number of leaves.
func (f *Frontier) Size() uint64 { return f.size }

// Edge returns the input of [ResumeFrontier], valid until the next Append: the roots of the perfect
// subtrees, the largest first.
func (f *Frontier) Edge() []Hash { return f.edge }

// Append adds a leaf and calls visit for every perfect subtree that it
// completes, the leaf itself (level 0) first, unless visit is nil. The error is
// always nil.
func (f *Frontier) Append(leaf Hash, visit func(level uint, index uint64, h Hash)) error {
	h := leaf
	for level := uint(0); ; level++ {
		index := f.size >> level
		if visit != nil {
			visit(level, index, h)
		}
		if index%2 == 0 {
			break
		}
		last := len(f.edge) - 1
		h = HashChildren(f.edge[last], h)
		f.edge = f.edge[:last]
	}
	f.edge = append(f.edge, h)
	f.size++
	return nil
}

// Head returns the size and root of the tree. The error is always nil.
func (f *Frontier) Head() (Head, error) {
	head := EmptyHead()
	head.Size = f.size
	for i, h := range slices.Backward(f.edge) {
		if i < len(f.edge)-1 {
			h = HashChildren(h, head.Root)
		}
		head.Root = h
	}
	return head, nil
}
