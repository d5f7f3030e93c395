package ascending

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSets compares what the lists say with sets that are maps.
func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint32Range(0, 20)
		lists, all := make([][]uint32, rapid.IntRange(1, 4).Draw(t, "lists")), map[uint32]bool{}
		for i := range lists {
			set := map[uint32]bool{}
			for range rapid.IntRange(0, 12).Draw(t, "numbers") {
				n := number.Draw(t, "number")
				lists[i], set[n], all[n] = Add(lists[i], n), true, true
			}
			same(t, "list", lists[i], set)
			for n := range uint32(22) {
				if Has(lists[i], n) != set[n] {
					t.Fatalf("%v has %d: %t", lists[i], n, !set[n])
				}
			}
		}
		end := number.Draw(t, "end")
		same(t, "below", Below(lists[0], end), only(lists[0], func(n uint32) bool { return n < end }))
		first := slices.Clone(lists[0])
		same(t, "within", Within(lists[0], lists[1:]...), only(lists[0], func(n uint32) bool {
			return slices.ContainsFunc(lists[1:], func(list []uint32) bool { return slices.Contains(list, n) })
		}))
		largest, limit := slices.Sorted(maps.Keys(all)), rapid.IntRange(0, 25).Draw(t, "limit")
		slices.Reverse(largest)
		if got := Largest(limit, lists...); !slices.Equal(got, largest[:min(limit, len(largest))]) {
			t.Fatalf("the largest %d of %v: %v", limit, lists, got)
		}
		union := []uint32{}
		for _, list := range lists {
			union = slices.Collect(Union(list, union))
		}
		same(t, "union", union, all)
		for n := range Union(lists[0], union) {
			if n != union[0] {
				t.Fatalf("the union of %v and %v begins with %d", lists[0], union, n)
			}
			break
		}
		without := number.Draw(t, "without")
		same(t, "list without a number", Drop(slices.Clone(lists[0]), without), only(lists[0], func(n uint32) bool { return n != without }))
		if !slices.Equal(lists[0], first) {
			t.Fatalf("%v has become %v", first, lists[0])
		}
	})
}

// TestUnionInPlace merges two lists without an allocation.
func TestUnionInPlace(t *testing.T) {
	a, b, sum := []uint32{1, 3, 5}, []uint32{2, 3, 9}, uint32(0)
	allocations := testing.AllocsPerRun(10, func() {
		for n := range Union(a, b) {
			sum += n
		}
	})
	if allocations != 0 || sum != 11*20 {
		t.Errorf("%g allocations, sum %d", allocations, sum)
	}
}

// only returns the numbers of a list that fit.
func only(list []uint32, fits func(uint32) bool) map[uint32]bool {
	set := map[uint32]bool{}
	for _, n := range list {
		if fits(n) {
			set[n] = true
		}
	}
	return set
}

// same checks that a list is the set, ascending.
func same(t *rapid.T, what string, list []uint32, set map[uint32]bool) {
	if !slices.Equal(list, slices.Sorted(maps.Keys(set))) {
		t.Fatalf("%s: %v, want %v", what, list, set)
	}
}
