// Package ascending keeps sets of numbers as ascending lists, each number once. Such a list costs 4
// bytes a number, and its order is the same in every process, which the order of a map is not. The
// fold numbers executions and incidents from 0 on in the order of the log, so most numbers are
// added at the end.
package ascending

import "slices"

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

// Union returns the numbers that one of two lists has. If the other list is empty, the result is
// that list itself.
func Union(a, b []uint32) []uint32 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
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
