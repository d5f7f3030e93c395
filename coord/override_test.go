package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestVotesToOverrideAreUsedOnce has approvers stop an incident, amends it and has
// them stop it again: it takes as many as the first time, and they may be the same.
func TestVotesToOverrideAreUsedOnce(t *testing.T) {
	w, id := chain(t)
	vote := func(p entry.Principal, want bool) {
		t.Helper()
		w.decide(p, entry.ActOverride, id)
		if got := w.incident(id).current.override != 0; got != want {
			t.Fatalf("after the vote of %s: overridden %t", p, got)
		}
	}
	vote("p1", false)
	vote("p2", true)
	w.decide("k", entry.ActAmend, id)
	vote("p3", false)
	vote("p1", true)
	w.checkAll()
}

// TestOverrideVoidsTheProposal overrides an incident while an amend of it is
// proposed: what was proposed before somebody said stop cannot be approved any
// more. Agents would refuse it: its epoch is older.
func TestOverrideVoidsTheProposal(t *testing.T) {
	w := newWorld(t)
	w.done("b", "pay", entry.EffectCompensable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.put(w.signal("m", entry.StandingMonitor, "b#pay"))
	w.decide("k", entry.ActEscalate, id)
	answer := w.answer("p1", id, "approve")
	w.decide("o", entry.ActOverride, id)
	w.refuse(w.sign(answer), entry.StateConflict, "proposal")
	w.checkAll()
}
