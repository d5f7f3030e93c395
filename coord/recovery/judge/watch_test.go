package judge

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// decides reports whether b wins of n are evidence for so many tests, computed anew.
func decides(b, n, tests int64) bool {
	return decisive(b, n, new(big.Int).Binomial(n, min(b, n)), tests)
}

// The table has, for each number of pairs, the least number of wins that decides.
func TestDecisive(t *testing.T) {
	for _, tests := range []int64{1, 4} {
		for n := int64(1); n <= 600; n++ {
			least := Decisive(n, tests)
			if least <= n && !decides(least, n, tests) || decides(least-1, n, tests) {
				t.Errorf("%d of %d, %d tests", least, n, tests)
			}
		}
	}
}

// rollouts simulates so many with a fixed seed, each of 400 pairs watched after every case, and
// counts the answers. The rates are those of success, in percent.
func rollouts(times, candidate, baseline int) map[Winner]int {
	random := rand.New(rand.NewPCG(1, 2))
	found := map[Winner]int{}
	for range times {
		w := NewWatch(30)
		for range 400 {
			if w.Pair(random.IntN(100) < candidate, random.IntN(100) < baseline) != Neither {
				break
			}
		}
		found[w.Answer]++
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
		t.Error(w.Answer)
	}
	w = NewWatch(0)
	for range 1000 {
		if w.Pair(true, true) != Neither || w.Pair(false, false) != Neither {
			t.Fatal(w.Answer)
		}
	}
}
