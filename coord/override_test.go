package coord

import (
	"strings"
	"testing"

	"recoveryledger/api"
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
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p3", id, "approve"))
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

// stoppedByPeople is an incident of which an operator withheld the restore of a#b1, whose line
// goes back to the checkpoint a#c1.
func stoppedByPeople(t *testing.T) (w *world, id uint64) {
	t.Helper()
	w = newWorld(t)
	w.done("a", "a0", entry.EffectNone)
	w.put(w.checkpoint("a", "c0", "a#a0"))
	w.done("a", "a1", entry.EffectReversible)
	w.put(w.checkpoint("a", "c1", "a#a1"))
	w.done("a", "b1", entry.EffectReversible)
	id = w.put(w.signal("a", entry.StandingExecutor, "a#b1")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.decide("o", entry.ActOverride, id)
	return w, id
}

// TestOnlyPeopleGoOnAfterAnOverride signals, after an override, what takes the line that the
// override left alone further back. The amend would reopen the restore that a person withheld. So
// the coordinator asks people, and amends only with their approvals; they alone decide every
// later amend, too. Draft: OVR-3.
func TestOnlyPeopleGoOnAfterAnOverride(t *testing.T) {
	w, id := stoppedByPeople(t)
	w.put(w.signal("a", entry.StandingExecutor, "a#a1"))
	alone := w.order("k", Order{Incident: id, Act: entry.ActAmend})
	if why := w.refused(w.sign(alone), entry.ScopeExceedsPolicy, "act"); !strings.Contains(why.Detail, "OVR-3") {
		t.Fatalf("refused for another reason: %s", why.Detail)
	}
	if written := w.next(); len(written) != 1 || written[0].(*entry.Decision).Act != entry.ActEscalate {
		t.Fatalf("the coordinator writes %v", written)
	}
	view, _ := w.state.Incident(id, w.at)
	if !strings.HasPrefix(view.WaitsFor, "0 of 1 approvals") || !view.AsksPeople || view.Waits.Who != api.WaitsApprovers {
		t.Fatalf("it waits for %q, of people: %t", view.WaitsFor, view.AsksPeople)
	}
	if view.Waits.Then != "the plan stays stopped by the override" {
		t.Fatalf("without an answer %s", view.Waits.Then)
	}
	w.put(w.answer("p1", id, "approve"))
	w.next()
	f := w.incident(id).current
	if m, _ := f.find(w.state.mustResolve(w.state.executions.names, "a#b1")); len(f.approvals) != 1 || m.result != "" || len(f.members) != 2 {
		t.Fatalf("the amend has %d approvals and %d members, and a#b1 is %q", len(f.approvals), len(f.members), m.result)
	}
	w.done("b", "later", entry.EffectCompensable, "a#a0")
	w.put(w.signal("a", entry.StandingExecutor, "a#a0"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.ScopeExceedsPolicy, "act")
	w.checkAll()
}

// TestSilenceKeepsAnOverride has nobody answer whether a stopped incident goes on: nothing that
// was withheld is opened, and the incident ends. Draft: OVR-3.
func TestSilenceKeepsAnOverride(t *testing.T) {
	w, id := stoppedByPeople(t)
	w.put(w.signal("a", entry.StandingExecutor, "a#a1"))
	for range 10 {
		for _, body := range w.next() {
			if d, is := body.(*entry.Decision); is && (d.Act == entry.ActAuthorize || d.Act == entry.ActAmend) {
				t.Fatalf("the coordinator writes %s alone", d.Act)
			}
		}
		w.at += hourMS
	}
	w.at = w.incident(id).current.expMax
	w.next()
	w.is(id, entry.IncidentFailed)
	w.checkAll()
}

// TestWithheldIsWithheldInEveryIncident ends the incident of an override, and signals the same
// execution again: the new incident does not undo alone what a person withheld, also where the
// agent has said since that it did not start it. Draft: OVR-3.
func TestWithheldIsWithheldInEveryIncident(t *testing.T) {
	for _, said := range []bool{false, true} {
		w, id := stoppedByPeople(t)
		if said {
			o := w.outcome("a", id, "a#b1", entry.Withheld)
			w.put(o)
		}
		w.at = w.incident(id).current.expMax
		w.next()
		w.is(id, entry.IncidentFailed)
		again := w.put(w.signal("a", entry.StandingExecutor, "a#b1")).Index
		w.refuse(w.sign(w.order("k", Order{Incident: again, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
		w.next()
		w.is(again, entry.IncidentEscalated)
		w.put(w.answer("p1", again, "approve"))
		w.next()
		w.is(again, entry.IncidentAuthorized)
		w.done("c", "late", entry.EffectCompensable)
		w.put(w.signal("a", entry.StandingExecutor, "a#a1"))
		w.next()
		if f := w.incident(again).current; len(f.members) != 2 || len(f.approvals) != 0 { // it was approved, and grows as every plan
			t.Fatalf("%d members, %d approvals", len(f.members), len(f.approvals))
		}
		w.done("b", "fresh", entry.EffectCompensable)
		other := w.put(w.signal("b", entry.StandingExecutor, "b#fresh")).Index
		w.next()
		w.is(other, entry.IncidentAuthorized) // of other work an override says nothing
		w.checkAll()
	}
}
