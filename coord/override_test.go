package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestOverrideVoidsTheProposal overrides an incident while an amend of it is
// proposed: what was proposed before somebody said stop cannot be approved any
// more. Agents would refuse it: its epoch is older.
func TestOverrideVoidsTheProposal(t *testing.T) {
	w := newWorld(t)
	w.done("b", "pay", entry.EffectCompensable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.next()
	w.is(id, Authorized)
	w.put(w.signal("m", entry.StandingMonitor, "b#pay"))
	w.decide("k", entry.ActEscalate, id)
	answer := w.answer("p1", id, "approve")
	w.decide("o", entry.ActOverride, id)
	w.refuse(w.sign(answer), entry.StateConflict, "proposal")
	w.checkAll()
}
