package judge

import "math/big"

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
// 2^(b+c)·b!·c!/(b+c+1)!, which is a martingale of mean 1. By the inequality of Ville (1939) it ever
// reaches 20 with a probability of at most 5 %, however often one looks. The mixture is that of
// Robbins (Statistical methods related to the law of the iterated logarithm, 1970); Ramdas and
// others (Game-theoretic statistics and safe anytime-valid inference, 2023) describe such tests.
type Watch struct {
	floor      int64
	wins       []int64 // [b+c]: least number of wins of one arm that decides; more than b+c: none does
	b, c, seen int64
	winner     Winner
}

// NewWatch returns a comparison that decides after no fewer pairs than the floor.
func NewWatch(floor int64) *Watch {
	return &Watch{floor: floor, wins: []int64{1}, winner: Neither}
}

// Pair takes the next pair, and returns the answer. An answer other than Neither is final. Beyond
// [PairsMax] pairs that disagree no pair changes the answer.
func (w *Watch) Pair(candidate, baseline bool) Winner {
	w.seen++
	if w.winner != Neither {
		return w.winner
	}
	if candidate != baseline && w.b+w.c < PairsMax {
		if candidate {
			w.b++
		} else {
			w.c++
		}
	}
	switch least := w.least(w.b + w.c); {
	case w.seen < w.floor:
	case w.b >= least:
		w.winner = Candidate
	case w.c >= least:
		w.winner = Reference
	}
	return w.winner
}

// least returns how many of n disagreeing pairs an arm must win to be the winner. It never falls
// when n grows, and grows by at most 1, so that each next value is the last one or one more.
func (w *Watch) least(n int64) int64 {
	for at := int64(len(w.wins)); at <= n; at++ {
		last := w.wins[at-1]
		if !decides(last, at) {
			last++
		}
		w.wins = append(w.wins, last)
	}
	return w.wins[n]
}

// decides reports whether b wins of n, more than half, are evidence of at least 20:
// 2^n ≥ 20·(n+1)·(n over b).
func decides(b, n int64) bool {
	if b > n || 2*b <= n {
		return false
	}
	evidence := new(big.Int).Lsh(big.NewInt(1), uint(n))
	against := new(big.Int).Binomial(n, b)
	return evidence.Cmp(against.Mul(against, big.NewInt(20*(n+1)))) >= 0
}
