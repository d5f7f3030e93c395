package drift

import "sort"

// split is how the cases of a class, those of the report and those of the window, could fall on the
// two sides: the hypergeometric distribution. Given the total, no unknown frequency of the class is
// left, so that tests of a split are exact (Fisher, 1935).
type split struct {
	least    int64     // cases of the window; the probabilities begin there
	up, down []float64 // of so many cases of the window or more, and or fewer, if nothing changed
	doubled  []float64 // of so many or more, if the class doubled
}

// splitOf returns the split of n cases of a class between sides of so many cases.
func splitOf(n, before, window int64) *split {
	s := &split{least: max(0, n-before)}
	was := float64(n) / float64(before+2*window) // share in the report, if the class doubled
	is := min(2*was, (1+was)/2)                  // of a class too large for that, the rest is halved
	s.up = s.weights(n, before, window, 1)
	s.doubled = s.weights(n, before, window, is*(1-was)/(was*(1-is)))
	s.down = append(s.down, s.up...)
	for i := 1; i < len(s.down); i++ {
		s.down[i] += s.down[i-1]
	}
	for i := len(s.up) - 2; i >= 0; i-- {
		s.up[i] += s.up[i+1]
		s.doubled[i] += s.doubled[i+1]
	}
	return s
}

// weights returns the probability of each split, where the odds are those of the window against
// those of the report (Fisher's noncentral hypergeometric distribution).
func (s *split) weights(n, before, window int64, odds float64) []float64 {
	p := make([]float64, min(n, window)-s.least+1)
	step := func(i int) float64 { // weight of i + 1 against that of i
		x := s.least + int64(i)
		return odds * float64(n-x) / float64(x+1) * float64(window-x) / float64(before-n+x+1)
	}
	mode := sort.Search(len(p)-1, func(i int) bool { return step(i) < 1 })
	sum := 1.0
	p[mode] = 1 // weights are relative to the largest, against overflow
	for i := mode + 1; i < len(p); i++ {
		p[i] = p[i-1] * step(i-1)
		sum += p[i]
	}
	for i := mode - 1; i >= 0; i-- {
		p[i] = p[i+1] / step(i)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// chance returns the probability of so many cases of the window or more, if nothing changed.
func (s *split) chance(x int64) float64 {
	switch i := x - s.least; {
	case i <= 0:
		return 1
	case i >= int64(len(s.up)):
		return 0
	default:
		return min(1, s.up[i])
	}
}

// from returns the largest number of cases of the window that a doubled class reaches with a
// probability.
func (s *split) from(power float64) int64 {
	return s.least + int64(sort.Search(len(s.doubled), func(i int) bool { return s.doubled[i] < power })) - 1
}

// limits divides a probability of a false alarm among classes, and returns the probability of each.
// A tenth is divided equally. The rest finds each class that doubled equally often, and as often as
// possible: a maximin test (Lehmann and Romano, Testing Statistical Hypotheses, 2005, chapter 8). A
// class that is so large that a doubling is plain needs nearly none of the rest.
func limits(classes []*split, alpha float64) []float64 {
	least := alpha / 10 / float64(max(1, len(classes)))
	at := func(s *split, x int64) float64 { return max(least, s.chance(x)) }
	spent := func(power float64) (sum float64) {
		for _, s := range classes {
			sum += at(s, s.from(power))
		}
		return sum
	}
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; spent(middle) > alpha {
			high = middle
		} else {
			low = middle
		}
	}
	each, rest := make([]float64, len(classes)), alpha-spent(low)
	for i, s := range classes {
		each[i] = at(s, s.from(low))
		// A split is a whole number, so some of alpha is left. The next split of a class may fit.
		if next := at(s, s.from(low)-1); next-each[i] <= rest {
			each[i], rest = next, rest-(next-each[i])
		}
	}
	return each
}
