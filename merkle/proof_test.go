package merkle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

const exhaustive = 300 // sizes below it are tried one by one

// TestInclusionExhaustive compares the audit path of every leaf of every small
// tree with the reference, and checks it.
func TestInclusionExhaustive(t *testing.T) {
	ref := decimals(exhaustive)
	for size := 1; size <= exhaustive; size++ {
		shared := new(merkle.Edge)
		for index := range size {
			for _, edge := range []*merkle.Edge{nil, shared} {
				got, err := merkle.ProveInclusion(uint64(index), uint64(size), ref.nodes(t, size), edge)
				must(t, err)
				if want := ref.path(index, 0, size); !slices.Equal(got, want) {
					t.Fatalf("path of %d in %d: %v, want %v", index, size, got, want)
				}
				must(t, merkle.CheckInclusion(uint64(index), merkle.HashLeaf(ref.leaves[index]), ref.head(size), got))
			}
		}
	}
}

// TestConsistencyExhaustive does the same for every pair of small sizes.
func TestConsistencyExhaustive(t *testing.T) {
	ref := decimals(exhaustive)
	for newer := 0; newer <= exhaustive; newer++ {
		for older := 0; older <= newer; older++ {
			got, err := merkle.ProveConsistency(uint64(older), uint64(newer), ref.nodes(t, newer))
			must(t, err)
			var want []merkle.Hash
			if older > 0 {
				want = ref.subproof(older, 0, newer, true)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("proof from %d to %d: %v, want %v", older, newer, got, want)
			}
			must(t, merkle.CheckConsistency(ref.head(older), ref.head(newer), got))
		}
	}
}

// TestProofOfOthers compares with golang.org/x/mod/sumdb/tlog on random trees,
// in both directions: it proves what we do, and checks what we prove.
func TestProofOfOthers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(1, 1500).Draw(r, "size")
		d := make([][]byte, size)
		for i := range d {
			d[i] = fmt.Appendf(nil, "%d of %d", i, size)
		}
		var hashes tlog.HashReaderFunc
		var stored []tlog.Hash
		hashes = func(indexes []int64) ([]tlog.Hash, error) {
			list := make([]tlog.Hash, len(indexes))
			for i, index := range indexes {
				list[i] = stored[index]
			}
			return list, nil
		}
		for i := range d {
			added, err := tlog.StoredHashes(int64(i), d[i], hashes)
			must(r, err)
			stored = append(stored, added...)
		}
		nodes := func(level uint, index uint64) (merkle.Hash, error) {
			return merkle.Hash(stored[tlog.StoredHashIndex(int(level), int64(index))]), nil
		}
		root, err := tlog.TreeHash(int64(size), hashes)
		must(r, err)
		index := rapid.IntRange(0, size-1).Draw(r, "index")
		leaf := merkle.HashLeaf(d[index])
		if leaf != merkle.Hash(tlog.RecordHash(d[index])) {
			t.Fatal("another leaf hash")
		}
		ours, err := merkle.ProveInclusion(uint64(index), uint64(size), nodes, nil)
		must(r, err)
		theirs, err := tlog.ProveRecord(int64(size), int64(index), hashes)
		must(r, err)
		requireEqualProofs(r, ours, theirs)
		must(r, tlog.CheckRecord(toTlog(ours), int64(size), root, int64(index), tlog.Hash(leaf)))
		must(r, merkle.CheckInclusion(uint64(index), leaf, merkle.Head{Size: uint64(size), Root: merkle.Hash(root)}, ours))

		older := rapid.IntRange(1, size).Draw(r, "older")
		olderRoot, err := tlog.TreeHash(int64(older), hashes)
		must(r, err)
		ours, err = merkle.ProveConsistency(uint64(older), uint64(size), nodes)
		must(r, err)
		theirTree, err := tlog.ProveTree(int64(size), int64(older), hashes)
		must(r, err)
		requireEqualProofs(r, ours, theirTree)
		must(r, tlog.CheckTree(toTlog(ours), int64(size), root, int64(older), olderRoot))
	})
}

func toTlog(path []merkle.Hash) []tlog.Hash {
	var list []tlog.Hash
	for _, h := range path {
		list = append(list, tlog.Hash(h))
	}
	return list
}

func requireEqualProofs(t *rapid.T, ours []merkle.Hash, theirs []tlog.Hash) {
	t.Helper()
	if !slices.Equal(toTlog(ours), theirs) {
		t.Fatalf("proof %v, theirs %v", ours, theirs)
	}
}

// TestDamagedProofs damages good proofs in every way that matters: none
// verifies any more.
func TestDamagedProofs(t *testing.T) {
	const most = 500
	ref := decimals(most)
	rapid.Check(t, func(r *rapid.T) {
		newer := rapid.IntRange(2, most).Draw(r, "newer")
		older := rapid.IntRange(1, newer-1).Draw(r, "older")
		index := rapid.IntRange(0, newer-1).Draw(r, "index")
		leaf, head := merkle.HashLeaf(ref.leaves[index]), ref.head(newer)
		good, err := merkle.ProveInclusion(uint64(index), uint64(newer), ref.nodes(r, newer), nil)
		must(r, err)
		for what, damaged := range damages(r, good) {
			requireErrProof(r, "inclusion: "+what, merkle.CheckInclusion(uint64(index), leaf, head, damaged))
		}
		requireErrProof(r, "other leaf", merkle.CheckInclusion(uint64(index), merkle.HashLeaf([]byte("x")), head, good))
		requireErrProof(r, "other index", merkle.CheckInclusion(uint64(index^1), leaf, head, good))
		requireErrProof(r, "other root", merkle.CheckInclusion(uint64(index), leaf, merkle.Head{Size: head.Size, Root: merkle.Hash{1}}, good))
		requireErrProof(r, "index past the end", merkle.CheckInclusion(head.Size, leaf, head, good))

		olderHead := ref.head(older)
		good, err = merkle.ProveConsistency(uint64(older), uint64(newer), ref.nodes(r, newer))
		must(r, err)
		for what, damaged := range damages(r, good) {
			requireErrProof(r, "consistency: "+what, merkle.CheckConsistency(olderHead, head, damaged))
		}
		requireErrProof(r, "swapped heads", merkle.CheckConsistency(head, olderHead, good))
		requireErrProof(r, "other older root", merkle.CheckConsistency(merkle.Head{Size: olderHead.Size, Root: merkle.Hash{1}}, head, good))
		requireErrProof(r, "other newer root", merkle.CheckConsistency(olderHead, merkle.Head{Size: head.Size, Root: merkle.Hash{1}}, good))
	})
}

// damages returns copies of a proof that each differ from it in one place.
func damages(t *rapid.T, good []merkle.Hash) map[string][]merkle.Hash {
	all := map[string][]merkle.Hash{"a hash too many": append(slices.Clone(good), merkle.Hash{1})}
	if len(good) == 0 {
		return all
	}
	i := rapid.IntRange(0, len(good)-1).Draw(t, "hash")
	flipped := slices.Clone(good)
	flipped[i][rapid.IntRange(0, merkle.HashSize-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	all["a bit flipped"] = flipped
	all["a hash missing"] = slices.Delete(slices.Clone(good), i, i+1)
	all["a hash twice"] = slices.Insert(slices.Clone(good), i, good[i])
	if len(good) > 1 {
		reversed := slices.Clone(good)
		slices.Reverse(reversed)
		all["reversed"] = reversed
	}
	return all
}

func requireErrProof(t *rapid.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, merkle.ErrProof) {
		t.Fatalf("%s: error %v, want %v", what, err, merkle.ErrProof)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Fatalf("%s: an error of several lines: %v", what, err)
	}
}

// TestProofErrorNamesRoots: an error has both roots as people know them.
func TestProofErrorNamesRoots(t *testing.T) {
	three, other := decimals(3).head(3), merkle.Head{Size: 3, Root: merkle.Hash{1}}
	want := "merkle: proof does not verify: consistency of size 3 with 3: it leads to root " + three.Root.String() + ", and not to " + other.Root.String()
	if err := merkle.CheckConsistency(three, other, nil); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestEmptyTree: the empty tree is a prefix of every tree, under its own root
// and an empty proof only; nothing is included in it.
func TestEmptyTree(t *testing.T) {
	three := decimals(3).head(3)
	empty, other := merkle.EmptyHead(), merkle.Head{Root: merkle.HashLeaf(nil)}
	if empty != decimals(0).head(0) || empty.Root.String() != "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" {
		t.Errorf("empty head %v", empty)
	}
	must(t, merkle.CheckConsistency(empty, empty, nil))
	must(t, merkle.CheckConsistency(empty, three, nil))
	for _, err := range []error{
		merkle.CheckConsistency(other, three, nil),
		merkle.CheckConsistency(empty, other, nil),
		merkle.CheckConsistency(other, other, nil),
		merkle.CheckConsistency(empty, three, []merkle.Hash{{}}),
		merkle.CheckConsistency(three, empty, nil),
		merkle.CheckInclusion(0, merkle.HashLeaf(nil), empty, nil),
	} {
		if !errors.Is(err, merkle.ErrProof) {
			t.Errorf("error %v, want %v", err, merkle.ErrProof)
		}
	}
}

// TestProveOutside asks for proofs that do not exist, and of a store that fails.
func TestProveOutside(t *testing.T) {
	nodes := decimals(4).nodes(t, 4)
	if _, err := merkle.ProveInclusion(4, 4, nodes, nil); err == nil {
		t.Error("inclusion of leaf 4 in a tree of 4")
	}
	if _, err := merkle.ProveInclusion(0, 0, nodes, nil); err == nil {
		t.Error("inclusion in the empty tree")
	}
	if _, err := merkle.ProveConsistency(4, 3, nodes); err == nil {
		t.Error("consistency of a tree with a smaller one")
	}
	broken := errors.New("disk")
	failing := func(uint, uint64) (merkle.Hash, error) { return merkle.Hash{}, broken }
	_, inclusion := merkle.ProveInclusion(1, 4, failing, nil)
	_, consistency := merkle.ProveConsistency(1, 4, failing)
	_, frontier := merkle.NewFrontier(3, failing)
	for _, err := range []error{inclusion, consistency, frontier} {
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}
