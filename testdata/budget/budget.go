// Package budget says how much work a test does: how many crashes, streams or seeds it tries.
//
// A test has three budgets. make test gives it the usual one, go test -short a small one, and
// make chaos a large one. make race runs with -short: the race detector makes a test some ten
// times slower, and it needs each way through the code a few times only.
//
//	kills := budget.Budget{Short: 5, Usual: 25, Chaos: 2000}.Now()
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package budget

import (
	"os"
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
