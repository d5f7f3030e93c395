// Package judge compares counts of cases by exact arithmetic. A verdict rests on integers of any
// size, so that every machine comes to the same one. [Below] is the gate slices of a report.
// [Watch] compares two arms case by case, for the gates of a rollout.
package judge

import "math/big"

const million = 1_000_000

// exactMax is the greatest number of cases for which [Below] sums the binomial distribution. The
// sum takes time with the square of the number.
const exactMax = 1000

// Below reports whether so few successes among n cases are less than chance explains: whether a
// rate of ppm parts per million gives k or fewer successes with a probability of less than 5 %. It
// is the exact one-sided binomial test (Clopper and Pearson, Biometrika 26, 1934). Beyond
// [exactMax] cases the rate itself decides. Below of no case is false.
func Below(k, n, ppm int64) bool {
	switch {
	case n <= 0 || k >= n || ppm <= 0:
		return false
	case ppm >= million:
		return true // every case had to succeed
	case n > exactMax:
		return new(big.Int).Mul(big.NewInt(k), big.NewInt(million)).Cmp(new(big.Int).Mul(big.NewInt(n), big.NewInt(ppm))) < 0
	}
	success, failure := big.NewInt(ppm), big.NewInt(million-ppm)
	term := new(big.Int).Exp(failure, big.NewInt(n), nil) // of 10^6n: no success
	sum := new(big.Int).Set(term)
	for i := range k {
		term.Mul(term, success).Mul(term, big.NewInt(n-i))
		term.Quo(term, failure).Quo(term, big.NewInt(i+1)) // both divide exactly: the term is a whole number
		sum.Add(sum, term)
	}
	all := new(big.Int).Exp(big.NewInt(million), big.NewInt(n), nil)
	return sum.Mul(sum, big.NewInt(20)).Cmp(all) < 0
}

// CasesToReject returns the least number of cases of which [Below] can say that they succeed too
// seldom, if none of them succeeds. It is zero if no number can.
func CasesToReject(ppm int64) int64 {
	for n := int64(1); ppm > 0 && n <= exactMax; n++ {
		if Below(0, n, ppm) {
			return n
		}
	}
	return 0
}
