// Package budget says how much work a test does: how many crashes, streams or seeds it tries.
//
// A test has three budgets. go test gives it the usual one, go test -short a small one, and
// make chaos a large one. make race runs with -short: the race detector makes a test some ten
// times slower, and it needs each way through the code a few times only.
//
//	kills := budget.Budget{Short: 5, Usual: 25, Chaos: 2000}.Now()
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package budget

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// A Budget is the work of one test, in whatever the test counts.
type Budget struct {
	Short int // with go test -short
	Usual int
	Chaos int // with ARL_CHAOS in the environment, also with -short; 0: as usual
}

// Now returns the budget of this run.
func (b Budget) Now() int {
	switch {
	case Large() && b.Chaos != 0:
		return b.Chaos
	case testing.Short() && !Large():
		return b.Short
	}
	return b.Usual
}

// Large reports whether this run has the large budgets.
func Large() bool { return os.Getenv("ARL_CHAOS") != "" }

// Seed returns where a test that draws random numbers begins: 1, so that every run does the same,
// or with the large budgets a number of its own. ARL_SEED in the environment repeats a run. Seed
// tells the number, since a run that failed cannot be repeated without it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := uint64(1)
	if Large() {
		seed = rand.Uint64() //nolint:gosec // no secret
	}
	if text, given := os.LookupEnv("ARL_SEED"); given {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("ARL_SEED is not a number of 64 bits: %v", err)
		}
	}
	tb.Logf("seed %d (ARL_SEED=%[1]d repeats it)", seed)
	return seed
}
