package judge

import (
	"math/big"
	"sync"
)

// Winner says which of two arms succeeds more often.
type Winner string

// The answers. Neither is an answer, too: the evidence so far is too weak.
const (
	Neither   Winner = "neither"
	Candidate Winner = "candidate"
	Reference Winner = "baseline"
)

// PairsMax bounds the pairs that disagree in a comparison. The table of a comparison has an integer
// for each.
const PairsMax = 10_000

// Watch compares the success of two arms, and stays valid while one watches. The n-th case of one
// arm is paired with the n-th of the other; pairs in which both arms succeed or both fail say
// nothing. If the arms are alike, each other pair is a fair coin. The evidence after b pairs that
// the candidate won and c that the baseline won is the mean of the likelihood ratio over all coins,
// 2^(b+c)·b!·c!/(b+c+1)!, which is a martingale of mean 1. By the inequality of Ville (1939) it
// ever reaches 20 with a probability of at most 5 %, however often one looks. The mixture is that
// of Robbins (Statistical methods related to the law of the iterated logarithm, 1970); Ramdas and
// others (Game-theoretic statistics and safe anytime-valid inference, 2023) describe such tests. Of
// several comparisons of the same arms each has to reach 20 for each of them, so that all together
// err with a probability of at most 5 % (Bonferroni).
//
// A copy of a Watch goes on by itself.
type Watch struct {
	Floor  int64 // pairs before which there is no answer
	Tests  int64 // comparisons that are made together; 0 counts as 1
	Wins   int64 // pairs that the candidate won
	Losses int64 // pairs that the baseline won
	Pairs  int64 // all pairs
	Answer Winner
}

// NewWatch returns a comparison that decides after no fewer pairs than the floor.
func NewWatch(floor int64) *Watch { return &Watch{Floor: floor, Tests: 1, Answer: Neither} }

// Pair takes the next pair, and returns the answer. An answer other than Neither is final. Beyond
// [PairsMax] pairs that disagree no pair changes the answer.
func (w *Watch) Pair(candidate, baseline bool) Winner {
	w.Pairs++
	if w.Answer != Neither {
		return w.Answer
	}
	if candidate != baseline && w.Wins+w.Losses < PairsMax {
		if candidate {
			w.Wins++
		} else {
			w.Losses++
		}
	}
	switch least := Decisive(w.Wins+w.Losses, w.Tests); {
	case w.Pairs < w.Floor:
	case w.Wins >= least:
		w.Answer = Candidate
	case w.Losses >= least:
		w.Answer = Reference
	}
	return w.Answer
}

// Decisive returns how many of n disagreeing pairs an arm must win to be the winner, if so many
// comparisons are made together. It is more than n if no number of wins is enough. n is at most
// [PairsMax].
func Decisive(n, tests int64) int64 {
	tables.Lock()
	defer tables.Unlock()
	t := tables.of[tests]
	if t == nil {
		t = &table{wins: []int64{1}, over: big.NewInt(0)}
		tables.of[tests] = t
	}
	for int64(len(t.wins)) <= n {
		t.grow(max(1, tests))
	}
	return t.wins[n]
}

// tables are made once in a process: they follow from the number of comparisons alone.
var tables = struct {
	sync.Mutex
	of map[int64]*table
}{of: map[int64]*table{}}

// table has at n the least number of wins that decides. The number never falls when n grows, and
// grows by at most 1, so that each next value is the last one or one more.
type table struct {
	wins []int64
	over *big.Int // (n over wins[n]) of the last n
}

// grow adds the value of the next n. Both binomials follow from the last one by one step, which
// divides exactly.
func (t *table) grow(tests int64) {
	n := int64(len(t.wins))
	b := t.wins[n-1]
	over := new(big.Int)
	switch {
	case n < b:
	case n == b:
		over.SetInt64(1)
	default:
		over.Mul(t.over, big.NewInt(n)).Quo(over, big.NewInt(n-b))
	}
	if !decisive(b, n, over, tests) {
		over.Mul(over, big.NewInt(max(0, n-b))).Quo(over, big.NewInt(b+1))
		b++
	}
	t.wins, t.over = append(t.wins, b), over
}

// decisive reports whether b wins of n, more than half, are evidence of at least 20 for each test:
// 2^n ≥ 20·tests·(n+1)·(n over b).
func decisive(b, n int64, over *big.Int, tests int64) bool {
	if b > n || 2*b <= n {
		return false
	}
	against := new(big.Int).Mul(over, big.NewInt(20*tests*(n+1)))
	return new(big.Int).Lsh(big.NewInt(1), uint(n)).Cmp(against) >= 0
}
