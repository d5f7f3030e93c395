package compact

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestListKeepsPlaces shows that elements stay where they are while a list grows.
func TestListKeepsPlaces(t *testing.T) {
	var l List[int]
	first := l.At(l.Add(7))
	for i := range 2 * blockSize {
		if got := l.Add(i); got != uint32(i+1) {
			t.Fatalf("number %d, want %d", got, i+1)
		}
	}
	if first != l.At(0) || *l.At(blockSize) != blockSize-1 || l.Size() != 2*blockSize+1 {
		t.Fatal("elements moved")
	}
}

// TestListClones compares lists with slices: whatever happens to one, the
// others stay as they are.
func TestListClones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists, want := []List[int]{{}}, [][]int{nil}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(lists)-1).Draw(t, "list")
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 3 && len(lists) < 6:
				lists, want = append(lists, lists[i].Clone()), append(want, slices.Clone(want[i]))
			case what < 7 || len(want[i]) == 0:
				first := rapid.IntRange(0, 3).Draw(t, "first") // lists that grow alike are likely
				for n := range rapid.IntRange(0, (settleAfter+4)*blockSize).Draw(t, "added") {
					lists[i].Add(first + n)
					want[i] = append(want[i], first+n)
				}
			default:
				at := rapid.IntRange(0, len(want[i])-1).Draw(t, "at")
				*lists[i].Change(uint32(at)) = -at
				want[i][at] = -at
			}
		}
		for i := range lists {
			if int(lists[i].Size()) != len(want[i]) {
				t.Fatalf("list %d has %d elements, want %d", i, lists[i].Size(), len(want[i]))
			}
			for n, element := range want[i] {
				if got := *lists[i].At(uint32(n)); got != element {
					t.Fatalf("list %d: element %d is %d, want %d", i, n, got, element)
				}
			}
		}
	})
}

// TestListSettles shows that a list and its clone, which grow and change alike,
// hold what is old once, and that a change parts them.
func TestListSettles(t *testing.T) {
	var l List[int]
	l.Add(0)
	clone := l.Clone()
	const blocks = settleAfter + 5
	for _, one := range []*List[int]{&l, &clone} {
		for n := range blocks * blockSize {
			number := one.Add(n)
			*one.Change(number - number%blockSize/2) = n
		}
	}
	once := func(block int) bool { return &l.blocks[block].elements[0] == &clone.blocks[block].elements[0] }
	for block := range blocks {
		if want := block <= blocks-settleAfter; once(block) != want {
			t.Errorf("block %d is there once: %t, want %t", block, !want, want)
		}
	}
	if len(l.peers.left) != 0 {
		t.Errorf("%d blocks wait for a clone that has them", len(l.peers.left))
	}
	if *clone.Change(5) = -1; once(0) || *l.At(5) == -1 {
		t.Error("the clone's change is in the list")
	}
}
