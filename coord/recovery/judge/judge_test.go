package judge

import (
	"math/big"
	"testing"
)

// Below agrees with the distribution, written out with rational numbers.
func TestBelow(t *testing.T) {
	for _, ppm := range []int64{0, 1, 50_000, 333_333, 700_000, 999_999, million} {
		p := big.NewRat(ppm, million)
		q := new(big.Rat).Sub(big.NewRat(1, 1), p)
		for n := range int64(13) {
			sum := new(big.Rat)
			for k := range n + 1 {
				term := new(big.Rat).SetInt(new(big.Int).Binomial(n, k))
				for i := range n {
					if i < k {
						term.Mul(term, p)
					} else {
						term.Mul(term, q)
					}
				}
				sum.Add(sum, term)
				if got, want := Below(k, n, ppm), n > 0 && sum.Cmp(big.NewRat(1, 20)) < 0; got != want {
					t.Errorf("%d of %d at %d ppm: %t, want %t: probability %s", k, n, ppm, got, want, sum.FloatString(6))
				}
			}
		}
	}
}

// Known values, and the border where the rate itself decides.
func TestBelowKnown(t *testing.T) {
	for _, test := range []struct {
		k, n, ppm int64
		want      bool
	}{
		{2, 6, 700_000, false}, // 7.05 %
		{1, 6, 700_000, true},  // 1.09 %
		{0, 3, 700_000, true},  // 2.7 %
		{0, 2, 700_000, false}, // 9 %
		{58, 100, 666_667, true}, {60, 100, 666_667, false},
		{675, exactMax, 700_000, true}, {680, exactMax, 700_000, false},
		{700, exactMax + 1, 700_000, true}, {701, exactMax + 1, 700_000, false},
		{0, 0, 700_000, false}, {1 << 52, 1 << 53, 700_000, true},
	} {
		if got := Below(test.k, test.n, test.ppm); got != test.want {
			t.Errorf("%d of %d at %d ppm: %t", test.k, test.n, test.ppm, got)
		}
	}
}

func TestCasesToReject(t *testing.T) {
	for ppm, want := range map[int64]int64{0: 0, 1: 0, 500_000: 5, 700_000: 3, 950_000: 2, 950_001: 1, million: 1} {
		if got := CasesToReject(ppm); got != want {
			t.Errorf("%d ppm: %d cases, want %d", ppm, got, want)
		}
	}
}
