package coord

import (
	"maps"
	"testing"

	"recoveryledger/ledger/entry"
)

// pipeline registers: a checkpoint of a, a#make (reversible) → b#pay
// (compensable) → b#note (none, soft: c#read).
func (w *world) pipeline() {
	w.t.Helper()
	w.put(w.checkpoint("a", "cp", ""))
	w.done("a", "make", entry.EffectReversible)
	w.done("b", "pay", entry.EffectCompensable, "a#make")
	w.done("b", "note", entry.EffectNone, "b#pay")
	soft := w.exec("c", "read", "b#note")
	soft.Parents[0].Dep = entry.Soft
	w.put(soft)
}

// TestRecovery takes an incident from the signal to its record: the coordinator
// authorizes alone, what must come first comes first, fences stand until they
// are lifted.
func TestRecovery(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.is(id, entry.IncidentReported)
	if written := w.next(); len(written) != 1 {
		t.Fatalf("the coordinator wrote %d entries", len(written))
	}
	w.is(id, entry.IncidentAuthorized)
	want := map[entry.Ref]entry.Method{"a#make": entry.MethodRestore, "b#pay": entry.MethodCompensate, "b#note": entry.MethodNone}
	if got := w.members(id); !maps.Equal(got, want) {
		t.Fatalf("members %v", got)
	}
	w.refuse(w.sign(w.exec("c", "x", "b#note")), entry.FencedDependency, "parents[0].exec")
	w.refuse(w.sign(w.exec("a", "x")), entry.FencedDependency, "exec")
	w.put(w.exec("b", "x")) // its line goes nowhere
	if todo, _ := w.state.Next(w.at); len(todo) != 0 {
		t.Fatalf("%d entries too much", len(todo))
	}
	w.put(w.outcome("a", id, "a#make", entry.Restored))
	w.put(w.exec("a", "x")) // the line is free
	w.compensate(id, "b#pay")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.refuse(w.sign(w.exec("c", "y", "b#note")), entry.FencedDependency, "parents[0].exec")
	release := w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"b#note"}})
	w.put(release)
	w.put(w.exec("c", "y", "b#note"))
	if u := w.state.usage[w.mustPrincipal("a")]; u.selfReported != 1 || u.corroborated != 0 {
		t.Errorf("verdicts %+v, want one that is self-reported", u.verdicts)
	}
	w.refuse(w.sign(w.signal("a", entry.StandingExecutor, "a#make")), entry.StateConflict, "subject")
	w.checkAll()
}

func (w *world) mustPrincipal(p entry.Principal) uint32 {
	w.t.Helper()
	number, ok := w.state.principals.Find([]byte(p))
	if !ok {
		w.t.Fatalf("no principal %s", p)
	}
	return number
}
