// Package ascending keeps sets of numbers as ascending lists, each number once. Such a list costs 4
// bytes a number, and its order is the same in every process, which the order of a map is not. The
// fold numbers executions and incidents from 0 on in the order of the log, so most numbers are
// added at the end.
package ascending

import (
	"iter"
	"slices"
)

// Has reports whether a list has a number.
func Has(list []uint32, number uint32) bool {
	_, has := slices.BinarySearch(list, number)
	return has
}

// Add returns a list with a number. It may change the list in place.
func Add(list []uint32, number uint32) []uint32 {
	if i, has := slices.BinarySearch(list, number); !has {
		return slices.Insert(list, i, number)
	}
	return list
}

// Below returns the part of a list with the numbers below end.
func Below(list []uint32, end uint32) []uint32 {
	i, _ := slices.BinarySearch(list, end)
	return list[:i]
}

// Drop returns a list without a number. It may change the list in place.
func Drop(list []uint32, number uint32) []uint32 {
	if i, has := slices.BinarySearch(list, number); has {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// Union yields the numbers that one of two lists has, from the smallest up. The lists must not
// change meanwhile.
func Union(a, b []uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, j := 0, 0; i < len(a) || j < len(b); {
			inA := j == len(b) || i < len(a) && a[i] <= b[j]
			inB := i == len(a) || j < len(b) && b[j] <= a[i]
			var number uint32
			if inB {
				number = b[j]
				j++
			}
			if inA {
				number = a[i]
				i++
			}
			if !yield(number) {
				return
			}
		}
	}
}

// Within returns the numbers of a list that any of the other lists has.
func Within(list []uint32, others ...[]uint32) (found []uint32) {
	for _, number := range list {
		if slices.ContainsFunc(others, func(other []uint32) bool { return Has(other, number) }) {
			found = append(found, number)
		}
	}
	return found
}

// Largest returns up to limit of the numbers that any of some lists has: the largest ones, from the
// largest down.
func Largest(limit int, lists ...[]uint32) (found []uint32) {
	for _, list := range lists {
		found = append(found, list[max(0, len(list)-limit):]...)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	slices.Reverse(found)
	return found[:min(len(found), limit)]
}
