package fair_test

import (
	"testing"

	"recoveryledger/ledger/fair"
)

// TestBudget takes up to both bounds and not beyond, and takes again what was given back.
func TestBudget(t *testing.T) {
	b := fair.NewBudget(10, 6)
	for i, step := range []struct {
		client string
		n      int64
		ok     bool
	}{{"a", 6, true}, {"a", 1, false}, {"b", 5, false}, {"b", 4, true}, {"c", 1, false}, {"a", -2, true}, {"c", 2, true}, {"c", 1, false}} {
		if step.n < 0 {
			b.Give(step.client, -step.n)
		} else if got := b.Take(step.client, step.n); got != step.ok {
			t.Errorf("step %d: %s takes %d: %v", i, step.client, step.n, got)
		}
	}
	if all, client := b.Bounds(); all != 10 || client != 6 {
		t.Errorf("bounds %d and %d", all, client)
	}
}
