package coord

import (
	"reflect"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestSilentCoordinatorIsReplacedByAnApprover takes an incident from its signal to
// its record without the coordinator: an approver proposes, another approves, the
// first authorizes; after the deadline one closes what no agent reports, and
// records. Nothing of it is possible before its time.
func TestSilentCoordinatorIsReplacedByAnApprover(t *testing.T) {
	w, id := reported(t)
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActEscalate})), entry.StateConflict, "act")
	w.at += 10 * minuteMS
	w.decide("p1", entry.ActEscalate, id)
	w.put(w.answer("p2", id, "approve"))
	w.decide("p1", entry.ActAuthorize, id)
	w.put(w.outcome("a", id, "a#make", entry.Restored))
	unknown := func() *entry.Entry {
		open, _, err := w.state.DraftClosing(id, w.at)
		if err != nil || len(open) != 1 {
			t.Fatalf("members without an outcome: %d, want 1; error %v", len(open), err)
		}
		w.head("p3", open[0])
		return w.sign(open[0])
	}
	deadline := w.incident(id).current.deadline
	w.at = deadline
	w.refuse(unknown(), entry.StateConflict, "iss")
	w.at = deadline + skewMS
	w.refuse(unknown(), entry.StateConflict, "exec")
	w.at++
	w.refuse(w.sign(w.recordBy("p3", id)), entry.StateConflict, "tally")
	must(t, w.admit(unknown()))
	w.put(w.recordBy("p3", id))
	w.is(id, entry.IncidentPartial)
	w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"b#note"}}))
	w.checkAll()
}

// TestSilentCoordinatorAndASilentQuorum ends an incident that the signaler had to
// propose itself and nobody answered: any approver notes that.
func TestSilentCoordinatorAndASilentQuorum(t *testing.T) {
	w, id := reported(t)
	w.at += 10 * minuteMS
	w.decide("a", entry.ActEscalate, id)
	w.at += hourMS
	w.decide("p1", entry.ActDeny, id)
	w.is(id, entry.IncidentDismissed)
	w.checkAll()
}

// TestApproverDoesNotReplaceItsOwnProposal has an approver propose again and
// again, so that nobody is ever silent for long enough: another may, it may not.
func TestApproverDoesNotReplaceItsOwnProposal(t *testing.T) {
	w, id := reported(t)
	w.at += 10 * minuteMS
	w.decide("p1", entry.ActEscalate, id)
	w.at += minuteMS
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActEscalate})), entry.StateConflict, "act")
	w.decide("p2", entry.ActEscalate, id)
	w.decide("p1", entry.ActEscalate, id)
	w.at += hourMS
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActEscalate})), entry.StateConflict, "act")
	w.next()
	w.is(id, entry.IncidentDismissed)
	w.checkAll()
}

// TestSilentCoordinatorThatWouldAmend leaves an incident that the coordinator
// would amend, if it were there: no approver may do that alone, and after the
// deadline one ends the incident as it stands.
func TestSilentCoordinatorThatWouldAmend(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectCompensable)
	w.done("a", "1", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, id)
	further := w.signal("a", entry.StandingExecutor, "a#1")
	further.Since = "a#0"
	second := w.put(further).Index
	todo, _ := w.state.Next(w.at)
	if d, ok := todo[0].(*entry.Decision); len(todo) != 1 || !ok || d.Act != entry.ActAmend {
		t.Fatalf("the coordinator would write %+v", todo)
	}
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActAmend})), entry.UnauthorizedRole, "iss")
	w.at = max(w.incident(id).current.deadline, w.incident(id).current.expMax+skewMS) + 1
	open, closing, err := w.state.DraftClosing(id, w.at)
	must(t, err)
	for _, o := range open {
		w.head("p1", o)
		w.put(o)
	}
	if r, err := w.state.DraftRecord(id); err != nil || !reflect.DeepEqual(r, closing) {
		t.Errorf("the record after all outcomes is %+v, and was foretold as %+v; error %v", r, closing, err)
	}
	w.put(w.recordBy("p1", id))
	w.is(id, entry.IncidentFailed)
	if sig, _ := w.state.findSignal(second); sig.verdict.disposition != inconclusive {
		t.Errorf("the second signal is %d", sig.verdict.disposition)
	}
	w.checkAll()
}

// TestDrainsComeFirst undoes what is in flight only when its agent has made it
// final (INC-7): drains are released at once, compensation and restore wait.
func TestDrainsComeFirst(t *testing.T) {
	w := newWorld(t)
	w.put(w.checkpoint("a", "cp", ""))
	edit := w.flying("a", "edit", entry.EffectReversible)
	pay := w.flying("b", "pay", entry.EffectCompensable, "a#edit")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#edit")).Index
	w.put(w.order("k", Order{Incident: id, Act: entry.ActEscalate}))
	w.put(w.answer("p1", id, "approve"))
	w.next()
	told := func(drain, released bool) {
		t.Helper()
		plan, _ := w.state.PlanInForce(id, w.at)
		if m := plan.Members[0]; m.Exec != "b#pay" || m.Drain != drain || m.Released != released || m.DueAt != w.at+15*minuteMS {
			t.Errorf("told %+v", m)
		}
	}
	told(true, false)
	w.refuse(w.sign(w.compensation(id, "b#pay")), entry.StateConflict, "compensates.exec")
	w.refuse(w.sign(w.outcome("a", id, "a#edit", entry.Restored)), entry.StateConflict, "exec")
	w.at += minuteMS
	w.put(w.step(pay, entry.Confirmed))
	told(false, true)
	w.put(w.step(edit, entry.Failed))
	w.put(w.outcome("a", id, "a#edit", entry.Restored))
	w.compensate(id, "b#pay")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestFailedCompensationReleasesTheNext lets a compensation fail: that is an
// outcome, and what waits for it begins; the record is PARTIAL.
func TestFailedCompensationReleasesTheNext(t *testing.T) {
	w, id := chain(t)
	x := w.compensation(id, "c#3")
	w.put(x)
	w.put(w.step(x, entry.Started))
	w.put(w.step(x, entry.Failed))
	w.refuse(w.sign(w.compensation(id, "b#2")), entry.StateConflict, "compensates.exec")
	w.put(w.outcome("c", id, "c#3", entry.ResultFailed))
	w.compensate(id, "b#2")
	w.compensate(id, "a#1")
	w.next()
	w.is(id, entry.IncidentPartial)
	w.checkAll()
}

// TestSecondFailureDuringARollback brings another failure while a plan is carried
// out: the plan grows, what is done stays done, and the order holds for all of it.
func TestSecondFailureDuringARollback(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectCompensable)
	w.done("a", "1", entry.EffectCompensable, "a#0")
	w.done("b", "2", entry.EffectCompensable, "a#1")
	w.done("c", "3", entry.EffectCompensable, "a#0")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.next()
	w.compensate(id, "b#2")
	running := w.compensation(id, "a#1") // under way when the second signal comes
	w.put(running)
	second := w.put(w.signal("a", entry.StandingExecutor, "a#0")).Index
	w.next()
	w.next()
	w.is(second, entry.IncidentDismissed)
	w.refuse(w.sign(w.compensation(id, "a#0")), entry.StateConflict, "compensates.exec")
	w.put(w.step(running, entry.Started)) // begun under the decision before
	w.put(w.step(running, entry.Confirmed))
	w.put(w.outcome("a", id, "a#1", entry.Compensated))
	w.refuse(w.sign(w.compensation(id, "a#0")), entry.StateConflict, "compensates.exec")
	w.compensate(id, "c#3")
	w.compensate(id, "a#0")
	w.next()
	w.is(id, entry.IncidentRecovered)
	if _, tally := w.incident(id).current.verdict(); tally[entry.Compensated] != 4 {
		t.Errorf("%v", tally)
	}
	w.checkAll()
}

// TestSignalDuringARollbackAboutAMember joins the incident, changes nothing if the
// plan has it all, and is judged by the record.
func TestSignalDuringARollbackAboutAMember(t *testing.T) {
	w, id := chain(t)
	s := w.put(w.signal("c", entry.StandingExecutor, "c#3"))
	if written := w.next(); len(written) != 0 {
		t.Fatalf("%d entries", len(written))
	}
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} {
		w.compensate(id, exec)
	}
	w.next()
	if sig, _ := w.state.findSignal(s.Index); sig.verdict.disposition == undisposed || w.incident(id).state != entry.IncidentRecovered {
		t.Fatalf("signal %d, incident %s", sig.verdict.disposition, w.incident(id).state)
	}
	w.checkAll()
}

// TestResidualIsRecorded ends an incident with what cannot be undone: PARTIAL, with
// the residual members as unresolved.
func TestResidualIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.done("a", "pay", entry.EffectCompensable)
	w.done("b", "mail", entry.EffectIrrevocable, "a#pay")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#pay")).Index
	w.next()
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.compensate(id, "a#pay")
	w.put(w.outcome("b", id, "b#mail", entry.ResultIrrevocable))
	written := w.next()
	r, ok := written[0].(*entry.Record)
	if !ok || r.State != "PARTIAL" || r.Unresolved.Size != 1 {
		t.Fatalf("%+v", written)
	}
	w.checkAll()
}

// TestEveryIncidentEnds lets nobody but the coordinator do anything, whatever
// state an incident is in: each ends with its record, or with the deny that is it.
func TestEveryIncidentEnds(t *testing.T) {
	for _, in := range tableStates {
		w := newWorld(t)
		w.pipeline()
		id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
		in.make(w, id)
		w.ends(in.name, id)
	}
	for _, in := range guardStates {
		w := newWorld(t)
		w.pipeline()
		id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
		for _, prepare := range in.make {
			prepare(w, id)
		}
		w.ends(in.name, id)
	}
}

// ends lets the coordinator write whenever it wants to, until an incident is over.
func (w *world) ends(name string, id uint64) {
	w.t.Helper()
	for until := w.at + 4*dayMS; w.incident(id).state.Open(); {
		if len(w.next()) > 0 {
			continue
		}
		_, wake := w.state.Next(w.at)
		if wake > until {
			w.t.Fatalf("%s: the incident stays %s", name, w.incident(id).state)
		}
		w.at = wake
	}
	if w.incident(id).recorded == 0 {
		w.t.Errorf("%s: no record", name)
	}
	w.checkAll()
}
