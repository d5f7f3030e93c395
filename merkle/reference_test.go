package merkle_test

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// reference is the definitions of RFC 6962 section 2.1, taken literally:
// recursive, over the data of the leaves. It remembers the hashes of ranges, so
// that it can be asked for every proof of every small tree.
type reference struct {
	leaves [][]byte
	known  map[[2]int]merkle.Hash
}

// decimals returns the reference over n leaves, as in the vectors: leaf i is the
// number i in decimal.
func decimals(n int) *reference {
	r := &reference{known: map[[2]int]merkle.Hash{}}
	for i := range n {
		r.leaves = append(r.leaves, fmt.Append(nil, i))
	}
	return r
}

// mth is MTH(D[from:to]), the Merkle Tree Hash.
func (r *reference) mth(from, to int) merkle.Hash {
	switch to - from {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0x00}, r.leaves[from]...))
	}
	h, ok := r.known[[2]int{from, to}]
	if !ok {
		k := from + split(to-from)
		left, right := r.mth(from, k), r.mth(k, to)
		h = sha256.Sum256(slices.Concat([]byte{0x01}, left[:], right[:]))
		r.known[[2]int{from, to}] = h
	}
	return h
}

// path is PATH(m, D[from:to]), the audit path of the leaf from+m.
func (r *reference) path(m, from, to int) []merkle.Hash {
	if to-from == 1 {
		return nil
	}
	k := split(to - from)
	if m < k {
		return append(r.path(m, from, from+k), r.mth(from+k, to))
	}
	return append(r.path(m-k, from+k, to), r.mth(from, from+k))
}

// subproof is SUBPROOF(m, D[from:to], whole). PROOF(m, D[n]), the consistency
// proof for 0 < m < n, is SUBPROOF(m, D[0:n], true).
func (r *reference) subproof(m, from, to int, whole bool) []merkle.Hash {
	if m == to-from {
		if whole {
			return nil
		}
		return []merkle.Hash{r.mth(from, to)}
	}
	k := split(to - from)
	if m <= k {
		return append(r.subproof(m, from, from+k, whole), r.mth(from+k, to))
	}
	return append(r.subproof(m-k, from+k, to, false), r.mth(from, from+k))
}

// split is the largest power of two below n.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// head is the head of the tree of the first size leaves.
func (r *reference) head(size int) merkle.Head {
	return merkle.Head{Size: uint64(size), Root: r.mth(0, size)}
}

// nodes reads nodes of the tree of the first size leaves; it fails the test when
// asked for one that does not lie in it.
func (r *reference) nodes(t rapid.TB, size int) merkle.NodeReader {
	return func(level uint, index uint64) (merkle.Hash, error) {
		from, to := index<<level, (index+1)<<level
		if to > uint64(size) {
			t.Fatalf("asked for node %d/%d of a tree of %d", level, index, size)
		}
		return r.mth(int(from), int(to)), nil
	}
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
