package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// fences returns what the fence of an incident holds.
func (w *world) fences(id uint64) (refs []entry.Ref) {
	w.t.Helper()
	for _, exec := range w.incident(id).hold.members {
		refs = append(refs, w.state.refOf(exec))
	}
	return refs
}

// TestOwnWordSpeaksForOwnWork lets an agent accuse another of what it has built
// upon, and then report its own work as failed: it is believed about its own
// alone. The coordinator neither undoes nor fences the other's.
func TestOwnWordSpeaksForOwnWork(t *testing.T) {
	w := newWorld(t)
	w.done("a", "pay", entry.EffectCompensable)
	w.done("c", "next", entry.EffectCompensable, "a#pay")
	w.done("b", "use", entry.EffectNone, "a#pay")
	id := w.put(w.signal("b", entry.StandingDownstream, "a#pay")).Index
	w.next() // contains the edge
	w.is(id, entry.IncidentContained)
	w.put(w.signal("b", entry.StandingExecutor, "b#use"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.at += 5 * minuteMS
	w.next()
	w.is(id, entry.IncidentEscalated)
	if got := w.fences(id); !slices.Equal(got, []entry.Ref{"a#pay", "b#use"}) {
		t.Errorf("fenced: %v", got)
	}
	w.put(w.signal("a", entry.StandingExecutor, "a#pay")) // now its executor says so, too
	v, _ := w.state.Preview(id, nil, w.at)
	if v.Asks != nil {
		t.Errorf("refused: %v", v.Asks)
	}
	w.checkAll()
}

// TestFollowersSpeakBesideTheFounded lets weak signals stand about what follows
// from a strong one anyway.
func TestFollowersSpeakBesideTheFounded(t *testing.T) {
	w := newWorld(t)
	w.done("a", "make", entry.EffectCompensable)
	w.done("b", "pay", entry.EffectCompensable, "a#make")
	w.done("c", "use", entry.EffectNone, "b#pay")
	id := w.put(w.signal("c", entry.StandingDownstream, "b#pay")).Index
	w.decide("k", entry.ActContain, id)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	other := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActAuthorize, other) // its closure has b#pay
	w.next()
	w.next()
	w.is(id, entry.IncidentDismissed) // merged
	w.is(other, entry.IncidentAuthorized)
	w.checkAll()
}

// TestSignalersOfDifferentSubjectsAreNoQuorum counts k signalers by subject: two
// who each speak of something else do not make a quorum.
func TestSignalersOfDifferentSubjectsAreNoQuorum(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "d", entry.RoleAgent))
	x := w.flying("a", "one", entry.EffectCompensable)
	w.put(w.exec("b", "use", "a#one"))
	y := w.planned("a", "two", entry.EffectCompensable, "a#one")
	w.put(w.step(y, entry.Started))
	w.put(w.exec("c", "use", "a#two"))
	w.put(w.exec("d", "use", "a#two"))
	w.put(w.step(x, entry.Confirmed))
	w.put(w.step(y, entry.Confirmed))
	id := w.put(w.signal("b", entry.StandingDownstream, "a#one")).Index
	w.put(w.order("k", Order{Incident: id, Act: entry.ActEscalate}))
	w.put(w.signal("c", entry.StandingDownstream, "a#two"))
	v, _ := w.state.Preview(id, nil, w.at)
	if v.Asks == nil {
		t.Fatal("two lone voices about two things are believed")
	}
	w.put(w.signal("d", entry.StandingDownstream, "a#two"))
	if v, _ = w.state.Preview(id, nil, w.at); v.Asks == nil {
		t.Fatal("a quorum about one thing speaks for another that leads to it")
	}
	w.checkAll()
}

// TestAccusationByMerge lets an agent hang itself on an execution upstream of a
// plan in force and accuse that: on its word alone the plan does not grow.
func TestAccusationByMerge(t *testing.T) {
	w := newWorld(t)
	w.done("a", "up", entry.EffectCompensable)
	w.done("c", "side", entry.EffectCompensable, "a#up")
	w.done("b", "down", entry.EffectCompensable, "a#up")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#down")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.enrol("root", "liar", entry.RoleAgent))
	w.put(w.exec("liar", "hook", "a#up"))
	w.put(w.signal("liar", entry.StandingDownstream, "a#up"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.ScopeExceedsPolicy, "act")
	w.next()
	if got := w.members(id); len(got) != 1 || w.incident(id).proposal == nil {
		t.Fatalf("members %v: people are to be asked", got)
	}
	w.checkAll()
}
