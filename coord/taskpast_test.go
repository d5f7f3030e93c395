package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestCheckpointsOfATask tells the checkpoints from which a task may go on: of its holder, neither
// expired nor void. The newest failure says whether there is one.
func TestCheckpointsOfATask(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x", "y")
	ref := w.create("task", ofType("cook"), retries(3))
	w.next()
	told := func(want ...uint64) {
		t.Helper()
		view, _ := w.state.Task(ref)
		if w.state.Consult(&view, w.at, &compiled); !slices.Equal(view.Checkpoints, want) {
			t.Errorf("the checkpoints are %d, want %d", view.Checkpoints, want)
		}
		if n := len(view.Failures); n > 0 && view.Failures[n-1].Checkpoint != (len(want) > 0) {
			t.Errorf("the newest failure is %+v, with the checkpoints %d", view.Failures[n-1], want)
		}
	}
	w.saved("y", ref) // not its holder
	told()
	w.saved("x", ref)
	first := w.state.size - 1
	w.saved("x", ref, func(c *entry.Checkpoint) { c.ExpiresAt = w.at + minuteMS })
	told(w.state.size-1, first)
	w.at += minuteMS
	told(first)
	w.done("x", "one", entry.EffectReversible)
	w.saved("x", ref)
	told(w.state.size-1, first)
	id := w.put(w.signal("x", entry.StandingExecutor, "x#one")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.outcome("x", id, "x#one", entry.Restored)) // its line goes back, and what came after is void
	told(first)
	w.next()
	w.fails(ref)
	told(first)
	for range checkpointsMax + 1 {
		w.saved("x", ref) // it holds the task no more
	}
	told(first)
}
