package merkle_test

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"recoveryledger/merkle"
)

// joint is the definition of a joint proof, taken literally.
func (r *reference) joint(indexes []uint64, from, to int) []merkle.Hash {
	if !slices.ContainsFunc(indexes, func(i uint64) bool { return from <= int(i) && int(i) < to }) {
		return []merkle.Hash{r.mth(from, to)}
	}
	if to-from == 1 {
		return nil
	}
	k := split(to - from)
	return append(r.joint(indexes, from, from+k), r.joint(indexes, from+k, to)...)
}

func (r *reference) places(indexes []uint64) (places []merkle.Place) {
	for _, i := range indexes {
		places = append(places, merkle.Place{Index: i, Leaf: merkle.HashLeaf(r.leaves[i])})
	}
	return places
}

// TestInclusionsExhaustive compares the joint proof of every set of leaves of
// every tree of up to ten with the reference, and checks it; every hash of it,
// and every leaf, counts.
func TestInclusionsExhaustive(t *testing.T) {
	ref := decimals(10)
	for size := range 11 {
		for set := range 1 << size {
			var indexes []uint64
			for rest := uint(set); rest != 0; rest &= rest - 1 {
				indexes = append(indexes, uint64(bits.TrailingZeros(rest)))
			}
			got, err := merkle.ProveInclusions(indexes, uint64(size), ref.nodes(t, size))
			must(t, err)
			if want := ref.joint(indexes, 0, size); !slices.Equal(got, want) {
				t.Fatalf("proof of %v in %d: %v, want %v", indexes, size, got, want)
			}
			places := ref.places(indexes)
			must(t, merkle.CheckInclusions(places, ref.head(size), got))
			refused := func(what string, places []merkle.Place, path []merkle.Hash) {
				t.Helper()
				if err := merkle.CheckInclusions(places, ref.head(size), path); !errors.Is(err, merkle.ErrProof) {
					t.Fatalf("%v in %d, %s: %v", indexes, size, what, err)
				}
			}
			refused("one hash more", places, append(slices.Clone(got), merkle.Hash{}))
			for i := range got {
				refused("a hash left out", places, slices.Delete(slices.Clone(got), i, i+1))
				other := slices.Clone(got)
				other[i][0] ^= 1
				refused("a hash changed", places, other)
			}
			for i := range places {
				refused("a leaf left out", slices.Delete(slices.Clone(places), i, i+1), got)
				other := slices.Clone(places)
				other[i].Leaf[31] ^= 1
				refused("a leaf changed", other, got)
				other = slices.Clone(places)
				other[i].Index++
				refused("a leaf moved", other, got)
			}
		}
	}
}

// TestInclusionsAreAuditPaths compares the joint proof of one leaf with its
// audit path: the same hashes, from left to right.
func TestInclusionsAreAuditPaths(t *testing.T) {
	ref := decimals(exhaustive)
	for size := 1; size <= exhaustive; size += 7 {
		for index := range size {
			joint, err := merkle.ProveInclusions([]uint64{uint64(index)}, uint64(size), ref.nodes(t, size))
			must(t, err)
			order := func(a, b merkle.Hash) int { return slices.Compare(a[:], b[:]) }
			path := ref.path(index, 0, size)
			slices.SortFunc(path, order)
			slices.SortFunc(joint, order)
			if !slices.Equal(joint, path) {
				t.Fatalf("%d in %d: %v, want %v", index, size, joint, path)
			}
		}
	}
}

// TestInclusionsLarge tries random sets in larger trees.
func TestInclusionsLarge(t *testing.T) {
	ref, random := decimals(1500), rand.New(rand.NewPCG(1, 2))
	for range 200 {
		size := 1 + random.IntN(1500)
		var indexes []uint64
		for range random.IntN(40) {
			indexes = append(indexes, random.Uint64N(uint64(size)))
		}
		slices.Sort(indexes)
		indexes = slices.Compact(indexes)
		path, err := merkle.ProveInclusions(indexes, uint64(size), ref.nodes(t, size))
		must(t, err)
		must(t, merkle.CheckInclusions(ref.places(indexes), ref.head(size), path))
		if len(path) > 11*max(1, len(indexes)) {
			t.Errorf("%d hashes for %d leaves of %d", len(path), len(indexes), size)
		}
	}
}

func TestInclusionsRefuseDisorder(t *testing.T) {
	ref := decimals(8)
	for _, indexes := range [][]uint64{{8}, {3, 3}, {4, 3}, {1 << 63}} {
		if _, err := merkle.ProveInclusions(indexes, 8, ref.nodes(t, 8)); err == nil {
			t.Errorf("%v proven", indexes)
		}
		var places []merkle.Place
		for _, i := range indexes {
			places = append(places, merkle.Place{Index: i})
		}
		if err := merkle.CheckInclusions(places, ref.head(8), nil); !errors.Is(err, merkle.ErrProof) {
			t.Errorf("%v: %v", indexes, err)
		}
	}
	huge := merkle.Head{Size: 1<<64 - 1}
	if err := merkle.CheckInclusions([]merkle.Place{{Index: 1<<64 - 2}}, huge, make([]merkle.Hash, 64)); !errors.Is(err, merkle.ErrProof) {
		t.Errorf("largest tree: %v", err)
	}
	gone := errors.New("gone")
	_, err := merkle.ProveInclusions([]uint64{1}, 8, func(uint, uint64) (merkle.Hash, error) { return merkle.Hash{}, gone })
	if !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
}
