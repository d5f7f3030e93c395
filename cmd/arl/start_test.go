package main

import "testing"

// An operator who wants no reserve gets none: 0 is not the default of the store.
func TestNoReserveIsNotTheDefault(t *testing.T) {
	for given, want := range map[uint64]uint64{0: 1, 1: 1, 1 << 30: 1 << 30} {
		if got := (&serveOptions{reserve: given}).reserveBytes(); got != want {
			t.Errorf("--reserve %d: the store is told %d, want %d", given, got, want)
		}
	}
}
