package entry

import "testing"

// TestIncidentStates holds each state to what protocol.md, section 6, says of it: whether it is
// open, whether a plan was decided, and whether a recovery record can close an incident with it.
func TestIncidentStates(t *testing.T) {
	want := []struct {
		state                             IncidentState
		open, decided, recorded, leftOver bool
	}{
		{IncidentReported, true, false, false, false},
		{IncidentContained, true, false, false, false},
		{IncidentEscalated, true, false, false, false},
		{IncidentAuthorized, true, true, false, false},
		{IncidentDismissed, false, true, false, false},
		{IncidentRecovered, false, true, true, false},
		{IncidentNoEffects, false, true, true, false},
		{IncidentPartial, false, true, true, true},
		{IncidentFailed, false, true, true, true},
	}
	all := IncidentStates()
	if len(all) != len(want) {
		t.Fatalf("%v", all)
	}
	for i, w := range want {
		if all[i] != w.state || w.state.Open() != w.open || w.state.Decided() != w.decided || w.state.LeftUndone() != w.leftOver {
			t.Errorf("%s, at the place of %s: open %t, decided %t, left undone %t", all[i], w.state, w.state.Open(), w.state.Decided(), w.state.LeftUndone())
		}
		r := Record{State: w.state}
		if refused := r.check() != nil; refused == w.recorded {
			t.Errorf("a record that says %s: refused %t", w.state, refused)
		}
	}
}

// TestUndone holds each result to what protocol.md, INC-6, says of it: three leave nothing to undo.
func TestUndone(t *testing.T) {
	for i, r := range Results() {
		if want := i < 3; r.Undone() != want {
			t.Errorf("%s: undone %t", r, r.Undone())
		}
	}
}
