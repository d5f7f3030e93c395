package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestCompensationsAreOfTheirMembers gives the compensation of one member as that
// of another, and what compensates nothing.
func TestCompensationsAreOfTheirMembers(t *testing.T) {
	w := newWorld(t)
	w.done("b", "one", entry.EffectCompensable)
	w.done("b", "two", entry.EffectCompensable, "b#one")
	w.done("b", "free", entry.EffectCompensable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#one")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.compensate(id, "b#two")
	o := w.outcome("b", id, "b#one", entry.Compensated)
	for _, comp := range []entry.Ref{"b#two.undo", "b#free", "b#two"} {
		o.CompExec = comp
		w.refuse(w.sign(o), entry.StateConflict, "comp_exec")
	}
	o.CompExec = "b#nothing"
	w.refuse(w.sign(o), entry.UnknownSubject, "comp_exec")
	w.compensate(id, "b#one")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestCorrectionsNameWhatStands refuses an outcome that corrects another entry, or
// what there is not.
func TestCorrectionsNameWhatStands(t *testing.T) {
	w, id := chain(t)
	first := w.outcome("c", id, "c#3", entry.ResultUnknown)
	somewhere := w.state.logRef(1)
	first.Supersedes = &somewhere
	w.refuse(w.sign(first), entry.StateConflict, "supersedes")
	first.Supersedes = nil
	w.put(first)
	second := w.outcome("c", id, "c#3", entry.ResultFailed)
	right := *second.Supersedes
	for _, wrong := range []*entry.LogRef{nil, &somewhere, {Index: right.Index, LeafHash: somewhere.LeafHash}} {
		second.Supersedes = wrong
		w.refuse(w.sign(second), entry.StateConflict, "supersedes")
	}
	second.Supersedes = &right
	w.put(second)
	w.checkAll()
}

// TestNotExecutedIsWhatNeverRan refuses it of what was started once a fence was
// lifted, of what was over before the plan, and of what came to a good end though
// its agent had said before that it had no effects (INC-6).
func TestNotExecutedIsWhatNeverRan(t *testing.T) {
	t.Run("started behind the fence", func(t *testing.T) {
		w := newWorld(t)
		x := w.planned("b", "plan", entry.EffectCompensable)
		id := w.put(w.signal("m", entry.StandingMonitor, "b#plan")).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		w.put(w.outcome("b", id, "b#plan", entry.ResultUnknown))
		w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"b#plan"}}))
		for _, p := range []entry.Progress{entry.Started, entry.Confirmed} {
			w.put(w.step(x, p))
			w.refuse(w.sign(w.outcome("b", id, "b#plan", entry.NotExecuted)), entry.StateConflict, "result")
		}
		w.put(w.outcome("b", id, "b#plan", entry.ResultFailed))
		w.checkAll()
	})
	t.Run("over before the plan", func(t *testing.T) {
		w := newWorld(t)
		x := w.flying("b", "pay", entry.EffectCompensable)
		w.put(w.step(x, entry.Failed))
		id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
		w.decide("k", entry.ActAuthorize, id)
		s := w.signal("b", entry.StandingExecutor, "b#pay")
		s.Effects = entry.EffectsNone
		w.put(s)
		w.refuse(w.sign(w.outcome("b", id, "b#pay", entry.NotExecuted)), entry.StateConflict, "result")
		w.checkAll()
	})
	t.Run("came to a good end", func(t *testing.T) {
		w := newWorld(t)
		x := w.flying("b", "pay", entry.EffectCompensable)
		s := w.signal("b", entry.StandingExecutor, "b#pay")
		s.Effects = entry.EffectsNone
		id := w.put(s).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		w.put(w.step(x, entry.Confirmed))
		w.refuse(w.sign(w.outcome("b", id, "b#pay", entry.NotExecuted)), entry.StateConflict, "result")
		w.compensate(id, "b#pay")
		w.checkAll()
	})
}

// TestAgentsAnswerForWhatIsInFlight lets an agent say of a member without effect
// that it cannot stop it, while it runs, and not once nothing is to be done.
func TestAgentsAnswerForWhatIsInFlight(t *testing.T) {
	w := newWorld(t)
	w.done("a", "base", entry.EffectCompensable)
	x := w.flying("b", "look", entry.EffectNone, "a#base")
	w.done("b", "seen", entry.EffectNone, "a#base")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#base")).Index
	w.decide("k", entry.ActAuthorize, id)
	look := func() entry.Result {
		m, _ := w.incident(id).current.find(w.state.mustResolve(w.state.executions.names, "b#look"))
		return m.result
	}
	if got := look(); got != "" {
		t.Errorf("it counts as %s while it runs", got)
	}
	w.refuse(w.sign(w.outcome("b", id, "b#seen", entry.ResultFailed)), entry.StateConflict, "exec")
	w.put(w.outcome("b", id, "b#look", entry.Refused))
	w.put(w.step(x, entry.Confirmed))
	if got := look(); got != entry.Refused {
		t.Errorf("its agent said refused, and it counts as %s", got)
	}
	w.checkAll()
}
