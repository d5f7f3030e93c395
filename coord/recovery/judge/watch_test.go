package judge

import (
	"math/rand/v2"
	"testing"
)

// The table has, for each number of pairs, the least number of wins that decides.
func TestLeast(t *testing.T) {
	w := NewWatch(0)
	for n := int64(1); n <= 600; n++ {
		least := w.least(n)
		if least <= n && !decides(least, n) || decides(least-1, n) {
			t.Errorf("%d of %d", least, n)
		}
	}
}

// rollouts simulates so many with a fixed seed, each of 400 pairs watched after every case, and
// counts the answers. The rates are those of success, in percent.
func rollouts(times, candidate, baseline int) map[Winner]int {
	random := rand.New(rand.NewPCG(1, 2))
	found, table := map[Winner]int{}, NewWatch(30)
	table.least(400)
	for range times {
		w := &Watch{floor: table.floor, wins: table.wins, winner: Neither}
		for range 400 {
			if w.Pair(random.IntN(100) < candidate, random.IntN(100) < baseline) != Neither {
				break
			}
		}
		found[w.winner]++
	}
	return found
}

// Of 10,000 rollouts of an arm against itself, at most 5 % are aborted and at most 5 % promoted.
func TestAlike(t *testing.T) {
	for _, rate := range []int{10, 50, 75, 95} {
		found := rollouts(10_000, rate, rate)
		t.Logf("rate %d %%: %v", rate, found)
		if found[Candidate] > 500 || found[Reference] > 500 {
			t.Errorf("rate %d %%: %v", rate, found)
		}
	}
}

// A worse arm is found within 400 pairs: 75 % against 55 % in nine of ten rollouts.
func TestPower(t *testing.T) {
	found := rollouts(1000, 55, 75)
	t.Logf("%v", found)
	if found[Reference] < 900 || found[Candidate] > 5 {
		t.Errorf("%v", found)
	}
	if found = rollouts(1000, 75, 55); found[Candidate] < 900 || found[Reference] > 5 {
		t.Errorf("%v", found)
	}
}

// No answer is given below the floor, an answer is final, and pairs that agree say nothing.
func TestWatchFloor(t *testing.T) {
	w := NewWatch(30)
	for i := range 29 {
		if got := w.Pair(false, true); got != Neither {
			t.Fatalf("pair %d: %s", i, got)
		}
	}
	if w.Pair(true, true) != Reference || w.Pair(true, false) != Reference {
		t.Error(w.winner)
	}
	w = NewWatch(0)
	for range 1000 {
		if w.Pair(true, true) != Neither || w.Pair(false, false) != Neither {
			t.Fatal(w.winner)
		}
	}
}
