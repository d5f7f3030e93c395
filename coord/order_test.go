package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestOrderAlongEdges compensates a#1 last, whatever leads from it to the others.
func TestOrderAlongEdges(t *testing.T) {
	for name, in := range map[string]struct {
		make func(w *world)
		give []entry.Ref // compensated in this order, but for b#refused
	}{
		"nothing to undo between": {func(w *world) {
			w.done("b", "2", entry.EffectNone, "a#1")
			w.done("c", "3", entry.EffectCompensable, "b#2")
			w.done("c", "4", entry.EffectCompensable, "b#2")
		}, []entry.Ref{"c#4", "c#3"}},
		"a restore between": {func(w *world) {
			w.put(w.checkpoint("b", "cp", ""))
			w.done("b", "2", entry.EffectReversible, "a#1")
			w.done("c", "3", entry.EffectCompensable, "b#2")
		}, []entry.Ref{"c#3"}},
		"a soft edge beside": {func(w *world) {
			w.done("b", "2", entry.EffectCompensable, "a#1")
			x := w.exec("c", "3", "b#2", "a#1")
			x.Parents[1].Dep, x.Effect, x.IdempotencyKey = entry.Soft, entry.EffectCompensable, someDigest("3")
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Confirmed))
		}, []entry.Ref{"c#3", "b#2"}},
		"refused between": {func(w *world) {
			w.done("b", "refused", entry.EffectCompensable, "a#1")
			w.done("c", "3", entry.EffectCompensable, "b#refused")
		}, []entry.Ref{"b#refused", "c#3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.done("a", "1", entry.EffectCompensable)
			in.make(w)
			id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
			w.decide("k", entry.ActAuthorize, id)
			for _, exec := range in.give {
				w.refuse(w.sign(w.compensation(id, "a#1")), entry.StateConflict, "compensates.exec")
				if exec == "b#refused" {
					w.put(w.outcome("b", id, exec, entry.Refused))
				} else {
					w.compensate(id, exec)
				}
				w.checkAll()
			}
			w.compensate(id, "a#1")
			w.checkAll()
		})
	}
}

// TestOrderGoesThroughWhatIsUndone compensates what uses an execution that an older
// incident has undone before that execution's ancestors, at every distance.
func TestOrderGoesThroughWhatIsUndone(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	w.done("c", "3", entry.EffectCompensable, "b#2")
	older := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	w.decide("k", entry.ActAuthorize, older)
	w.compensate(older, "c#3")
	w.compensate(older, "b#2")
	w.next()
	w.is(older, entry.IncidentRecovered)
	w.put(w.order("p1", Order{Incident: older, Act: entry.ActRelease, Members: []entry.Ref{"b#2", "c#3"}}))
	w.done("a", "4", entry.EffectCompensable, "c#3")
	w.done("b", "5", entry.EffectCompensable, "c#3", "b#2")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, id)
	if f := w.incident(id).current; len(f.members) != 3 || len(f.alreadyUndone) != 2 {
		t.Fatalf("members %+v, undone before %+v", f.members, f.alreadyUndone)
	}
	for _, exec := range []entry.Ref{"b#5", "a#4"} {
		w.refuse(w.sign(w.compensation(id, "a#1")), entry.StateConflict, "compensates.exec")
		w.compensate(id, exec)
		w.checkAll()
	}
	w.compensate(id, "a#1")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestAnAmendReleasesNothingAgain amends a plan: a member that was released has no more
// time, and what has nothing to undo stays released.
func TestAnAmendReleasesNothingAgain(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.put(w.exec("b", "planned", "a#1"))
	w.done("b", "read", entry.EffectNone, "a#1")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, id)
	before, _ := w.state.PlanInForce(id, w.at)
	w.at += 5 * minuteMS
	w.decide("k", entry.ActAmend, id)
	after, _ := w.state.PlanInForce(id, w.at)
	for i, m := range after.Members {
		if was := before.Members[i]; !was.Released || !m.Released || m.DueAt != was.DueAt {
			t.Errorf("%+v, was %+v", m, was)
		}
	}
	w.checkAll()
}

// TestWhatBeginsLaterDrainsNothing has an agent begin, after the release, what it had only
// planned when the plan was decided on: nobody waits for it to become final.
func TestWhatBeginsLaterDrainsNothing(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	x := w.planned("b", "2", entry.EffectCompensable, "a#1")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.decide("o", entry.ActOverride, id)
	w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"b#2"}}))
	w.put(w.step(x, entry.Started))
	if plan, _ := w.state.PlanInForce(id, w.at); plan.Members[0].Exec != "b#2" || plan.Members[0].Drain {
		t.Errorf("%+v", plan.Members[0])
	}
	w.checkAll()
}
