package rollout

import (
	"cmp"
	"math"
	"slices"

	"recoveryledger/coord/codec"
)

// casesMax bounds the cases that count in a rollout. The comparisons end long before: see
// [judge.PairsMax].
const casesMax = 1 << 20

// seen holds which cases count already, by their keys ([KeyOf]). A case has one result:
// an engine that takes the same cases again, or a task that is recorded by several, adds nothing.
//
// The keys stand in runs, each in ascending order and at least twice as long as the next one. A run
// is replaced and never changed, so that copies share runs.
type seen struct {
	runs  [][]uint64
	count int
}

// add reports whether a case is new. If there are casesMax, no case is.
func (s *seen) add(key uint64) bool {
	if s.full() || s.has(key) {
		return false
	}
	run, n := []uint64{key}, len(s.runs)
	for ; n > 0 && len(s.runs[n-1]) < 2*len(run); n-- {
		run = merge(s.runs[n-1], run)
	}
	s.runs, s.count = append(s.runs[:n:n], run), s.count+1
	return true
}

// full reports whether no further case can be held.
func (s *seen) full() bool { return s.count == casesMax }

// has reports whether a case counts already.
func (s *seen) has(key uint64) bool {
	return slices.ContainsFunc(s.runs, func(run []uint64) bool {
		_, known := slices.BinarySearch(run, key)
		return known
	})
}

// merge returns the keys of two runs in ascending order.
func merge(a, b []uint64) []uint64 {
	all := make([]uint64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if cmp.Less(a[0], b[0]) {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// snapshot passes the keys as one run.
func (s *seen) snapshot(c *codec.Codec) {
	var all []uint64
	for _, run := range slices.Backward(s.runs) {
		all = merge(run, all)
	}
	codec.Ascending(c, &all, math.MaxInt64)
	if c.Reading() && len(all) > 0 {
		s.runs, s.count = [][]uint64{all}, len(all)
	}
}
