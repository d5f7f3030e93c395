package coord

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// refusalWords are what detail and remedy of a refusal have to say.
type refusalWords struct{ detail, remedy string }

// refusedAs checks what a refusal by a fence says: of which incident, what that
// waits for, and in detail and remedy.
func (w *world) refusedAs(e *entry.Entry, field string, id uint64, waits string, says refusalWords) {
	w.t.Helper()
	got := w.refused(e, entry.FencedDependency, field)
	if got.Incident != id || !strings.HasPrefix(got.WaitsFor, waits) || (waits == "") != (got.WaitsFor == "") ||
		!strings.Contains(got.Detail, says.detail) || !strings.Contains(got.Remedy, says.remedy) {
		w.t.Errorf("incident %d, waits for %q: %s (%s)", got.Incident, got.WaitsFor, got.Detail, got.Remedy)
	}
	if waits != "" && !strings.Contains(got.Detail, waits) {
		w.t.Errorf("%s, without %q", got.Detail, waits)
	}
}

// TestRefusalNamesTheStandingFence follows an incident to its end: whoever builds
// on what it fences is told by which incident, what that waits for, and what to do.
func TestRefusalNamesTheStandingFence(t *testing.T) {
	w, id := reported(t)
	on := func(parent entry.Ref) *entry.Entry { return w.sign(w.exec("c", "x", parent)) }
	w.decide("k", entry.ActContain, id)
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "the coordinator", refusalWords{"b#pay is fenced by incident", "arl incident deny"})
	w.refusedAs(w.sign(w.exec("a", "x")), "exec", id, "the coordinator", refusalWords{"the line of a is fenced by incident", "arl incident deny"})
	w.decide("k", entry.ActEscalate, id)
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "0 of 1 approvals, until ", refusalWords{"which is ESCALATED", "arl incident approve"})
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "2 of 3 outcomes", refusalWords{"which is AUTHORIZED", "wait until incident"})
	w.refusedAs(on("b#note"), "parents[0].exec", id, "2 of 3 outcomes", refusalWords{"b#note was undone (not_executed)", "under a new id"})
	w.compensate(id, "b#pay")
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "1 of 3 outcomes", refusalWords{"b#pay was undone (compensated)", "under a new id"})
	w.put(w.outcome("a", id, "a#make", entry.Restored))
	if v, _ := w.state.Incident(id, w.at); v.WaitsFor != "its record" || v.StillFenced != 0 {
		t.Errorf("%q, %d", v.WaitsFor, v.StillFenced)
	}
	w.next()
	w.is(id, entry.IncidentRecovered)
	if v, _ := w.state.Incident(id, w.at); v.WaitsFor != "" || v.StillFenced != 3 {
		t.Errorf("%q, %d", v.WaitsFor, v.StillFenced)
	}
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "", refusalWords{"was undone (compensated) by incident", "do b#pay again under a new id, with parents that are not fenced"})
	w.refusedAs(on("b#pay"), "parents[0].exec", id, "", refusalWords{"which is closed (RECOVERED)", "arl incident release"})

	w.done("a", "make-2", entry.EffectNone) // the remedy: under new ids, on what stands
	w.done("b", "pay-2", entry.EffectCompensable, "a#make-2")
	w.put(w.exec("c", "x", "b#pay-2"))
	w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"b#pay"}})) // or the release
	w.put(w.exec("c", "y", "b#pay"))
	if v, _ := w.state.Incident(id, w.at); v.StillFenced != 2 {
		t.Errorf("%d", v.StillFenced)
	}
	w.checkAll()
}

// TestRefusalOfWhatCouldNotBeUndone says so of members that an incident left as
// they are, of a line that was not restored, and of an own step that was called
// off; each time the release that it names is the one that helps.
func TestRefusalOfWhatCouldNotBeUndone(t *testing.T) {
	w, id := reported(t)
	waiting := w.planned("b", "waiting", entry.EffectNone, "a#make")
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.outcome("b", id, "b#waiting", entry.NotExecuted))
	w.put(w.outcome("b", id, "b#pay", entry.ResultFailed))
	w.put(w.outcome("a", id, "a#make", entry.ResultFailed))
	w.next()
	if !w.incident(id).state.Open() {
		w.is(id, entry.IncidentFailed)
	}
	w.refusedAs(w.sign(w.exec("c", "x", "b#pay")), "parents[0].exec", id, "", refusalWords{"b#pay could not be undone (failed)", "--member b#pay"})
	w.refusedAs(w.sign(w.exec("a", "next")), "exec", id, "", refusalWords{"the line of a was not restored", "--member a#make"})
	w.refusedAs(w.sign(w.step(waiting, entry.Confirmed)), "progress", id, "", refusalWords{"b#waiting was undone (not_executed)", "do the step again under a new id"})
	w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"a#make", "b#pay"}}))
	w.put(w.exec("c", "x", "b#pay"))
	w.put(w.exec("a", "next"))
	w.checkAll()
}

// TestRefusalPrefersWhatWaits names the incident that still waits where another
// one that is over fences the same.
func TestRefusalPrefersWhatWaits(t *testing.T) {
	w := newWorld(t)
	w.done("a", "mail", entry.EffectIrrevocable)
	first := w.put(w.signal("a", entry.StandingExecutor, "a#mail")).Index
	w.next()
	w.put(w.answer("p1", first, "approve"))
	w.next()
	w.put(w.outcome("a", first, "a#mail", entry.ResultIrrevocable))
	w.next()
	w.is(first, entry.IncidentFailed)
	w.refusedAs(w.sign(w.exec("b", "x", "a#mail")), "parents[0].exec", first, "", refusalWords{"could not be undone (irrevocable)", "release"})
	second := w.put(w.proven("m", "a#mail")).Index
	w.next()
	w.refusedAs(w.sign(w.exec("b", "x", "a#mail")), "parents[0].exec", second, "0 of 1 approvals", refusalWords{"is fenced by incident", "approve"})
	w.put(w.answer("p1", second, "approve"))
	w.next()
	w.is(second, entry.IncidentAuthorized)
	w.refusedAs(w.sign(w.exec("b", "x", "a#mail")), "parents[0].exec", second, "1 of 1 outcomes", refusalWords{"is fenced by incident", "wait until"})
	w.checkAll()
}

// TestRefusalWhileAnAmendIsAsked names what people can answer about a plan in force
// that is to grow: nobody denies that.
func TestRefusalWhileAnAmendIsAsked(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "d", entry.RoleAgent))
	w.done("a", "first", entry.EffectCompensable)
	w.put(w.exec("b", "on-first", "a#first"))
	w.done("a", "last", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#last")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.at += 10 * minuteMS
	s := w.signal("a", entry.StandingExecutor, "a#last")
	s.Since = "a#first"
	w.put(s)
	w.decide("p1", entry.ActEscalate, id)
	w.refusedAs(w.sign(w.exec("c", "x", "a#last")), "parents[0].exec", id, "0 of 1 approvals", refusalWords{"which is AUTHORIZED", "wait until incident"})
	w.refusedAs(w.sign(w.exec("d", "x", "b#on-first")), "parents[0].exec", id, "0 of 1 approvals", refusalWords{"which is AUTHORIZED", "--refuse"})
	w.checkAll()
}
