package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestMergedIncidentTakesNoSignals sends a signal about a merged incident to the
// one that took it, also where the merged one is the lower: else nobody would
// judge it.
func TestMergedIncidentTakesNoSignals(t *testing.T) {
	w := newWorld(t)
	w.done("a", "up", entry.EffectCompensable)
	w.done("b", "down", entry.EffectCompensable, "a#up")
	w.done("b", "later", entry.EffectCompensable)
	w.done("c", "last", entry.EffectCompensable, "b#down", "b#later")
	lower := w.put(w.proven("m", "a#up")).Index
	id := w.put(w.signal("b", entry.StandingExecutor, "b#later")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.decide("k", entry.ActAmend, id)
	if w.incident(lower).mergedInto != id {
		t.Fatal("not merged: the test shows nothing")
	}
	late := w.put(w.signal("a", entry.StandingExecutor, "a#up")).Index
	if sig, _ := w.state.findSignal(late); w.state.incidents[sig.incident].opened != id {
		t.Errorf("the signal joined incident %d", w.state.incidents[sig.incident].opened)
	}
	w.checkAll()
}

// TestMergedIncidentIsDeniedWithoutTheCoordinator lets an approver close what was
// merged, as inconclusive, if the coordinator is silent.
func TestMergedIncidentIsDeniedWithoutTheCoordinator(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectCompensable)
	w.done("a", "1", entry.EffectCompensable, "a#0")
	older := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, older)
	younger := w.put(w.signal("a", entry.StandingExecutor, "a#0")).Index
	w.decide("k", entry.ActAmend, older)
	d := w.order("p1", Order{Incident: younger, Act: entry.ActDeny})
	w.vouch("p1", d)
	w.refuse(w.sign(d), entry.StateConflict, "dispositions")
	w.refuse(w.sign(w.order("o", Order{Incident: younger, Act: entry.ActDeny})), entry.UnauthorizedRole, "iss")
	w.decide("p1", entry.ActDeny, younger)
	w.is(younger, entry.IncidentDismissed)
	w.checkAll()
}

// TestOwnersDoNotDismiss keeps an approver who owns a member from dismissing what
// is reported, though nothing is fenced or proposed yet, or just an edge is.
func TestOwnersDoNotDismiss(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "owner", entry.RoleAgent, entry.RoleApprover))
	w.pipeline()
	w.done("owner", "use", entry.EffectNone, "b#pay")
	id := w.put(w.signal("b", entry.StandingDownstream, "a#make")).Index
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	w.decide("k", entry.ActContain, id) // the edge from a to b
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	w.decide("p1", entry.ActDeny, id)
	w.checkAll()
}

// TestSilenceJudgesNobody lets those who only note that nobody answered say
// nothing about signals: neither the coordinator nor an approver with a part in
// the incident makes a signaler wrong, or itself right.
func TestSilenceJudgesNobody(t *testing.T) {
	for _, disposition := range []string{entry.Dismissed, entry.Corroborated} {
		judge := func(w *world, who entry.Principal, d *entry.Decision) {
			if d.Dispositions[0].Disposition = disposition; disposition == entry.Corroborated {
				w.vouch(who, d)
			}
		}
		w := newWorld(t)
		w.put(w.enrol("root", "both", entry.RoleMonitor, entry.RoleApprover))
		w.pipeline()
		id := w.put(w.signal("both", entry.StandingMonitor, "a#make")).Index
		w.decide("k", entry.ActEscalate, id)
		w.at += hourMS
		for _, who := range []entry.Principal{"k", "both"} {
			d := w.order(who, Order{Incident: id, Act: entry.ActDeny})
			judge(w, who, d)
			w.refuse(w.sign(d), entry.StateConflict, "dispositions")
			must(t, w.state.Admit(w.sign(w.order(who, Order{Incident: id, Act: entry.ActDeny})), w.state.Size(), w.at))
		}
		d := w.order("p1", Order{Incident: id, Act: entry.ActDeny})
		judge(w, "p1", d)
		w.put(d)
		w.checkAll()
	}
}

// TestRecordJudgesAsTheDecision refuses a record whose dispositions are not those
// that the decision in force gives: whoever records makes nobody right or wrong.
func TestRecordJudgesAsTheDecision(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	late := w.put(w.signal("m", entry.StandingMonitor, "b#pay")).Index
	w.finish(id, entry.Restored)
	for i, verdict := range []string{entry.SelfReported, entry.Inconclusive} {
		for _, wrong := range dispositions[1:] {
			r, err := w.state.DraftRecord(id)
			must(t, err)
			if r.Dispositions[i].Disposition != verdict {
				t.Fatalf("signal %d is %s", i, r.Dispositions[i].Disposition)
			}
			if wrong == verdict {
				continue
			}
			if r.Dispositions[i].Disposition = wrong; wrong == entry.Corroborated {
				r.Dispositions[i].Domains = []string{"d"}
			}
			w.head("k", r)
			w.refuse(w.sign(r), entry.StateConflict, "dispositions["+string(rune('0'+i))+"].disposition")
		}
	}
	w.next()
	w.is(id, entry.IncidentRecovered)
	if sig, _ := w.state.findSignal(late); sig.verdict.disposition != inconclusive {
		t.Errorf("late signal %d", sig.verdict.disposition)
	}
	w.checkAll()
}

// TestNobodyKeepsAnIncidentOpen lets an approver propose an amend that never
// expires, again and again: the record waits for the answer time, at most until
// the deadline, and the coordinator is not blocked.
func TestNobodyKeepsAnIncidentOpen(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.finish(id, entry.Restored)
	w.at += 11 * minuteMS
	forever := func() {
		w.put(w.order("p1", Order{Incident: id, Act: entry.ActEscalate, Exp: entry.MaxInteger}))
		w.put(w.exec("b", "tick"+string(w.incident(id).state)+string(rune('0'+w.incident(id).epoch%10))+string(rune('0'+w.incident(id).epoch/10))))
	}
	forever()
	_, wake := w.state.Next(w.at)
	if wake > w.at+hourMS {
		t.Fatalf("wakes in %d ms", wake-w.at)
	}
	w.refuse(w.sign(w.recordBy("k", id)), entry.StateConflict, "incident")
	for w.at < start+dayMS-hourMS {
		w.at += hourMS - 1
		forever()
		w.next()
		w.is(id, entry.IncidentAuthorized)
	}
	w.at = w.incident(id).current.deadline
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestLapsedAmendGoesOn decides again what is in force after an amend that nobody
// approved: its proposal has counted the epoch up, and agents that saw it act on
// nothing older.
func TestLapsedAmendGoesOn(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.at += 11 * minuteMS
	w.decide("p1", entry.ActEscalate, id)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.StateConflict, "act")
	w.at += hourMS
	told := w.silences()
	w.next()
	if f := w.incident(id).current; f.epoch != 2 || len(f.decisions) != 2 {
		t.Fatalf("epoch %d after %d decisions", f.epoch, len(f.decisions))
	}
	if want := (Silence{id, "w", true}); len(told) != 1 || told[0] != want {
		t.Errorf("told %+v, want %+v", told, want)
	}
	if written := w.next(); len(written) != 0 {
		t.Fatal("and again")
	}
	w.finish(id, entry.Restored)
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestRefusedAmendIsNotWaitedFor records as soon as refusals make a quorum for an
// amend impossible.
func TestRefusedAmendIsNotWaitedFor(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.finish(id, entry.Restored)
	w.decide("k", entry.ActEscalate, id)
	for _, p := range []entry.Principal{"p1", "p2", "p3"} {
		w.is(id, entry.IncidentAuthorized)
		w.put(w.answer(p, id, "refuse"))
	}
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()

	w, id = reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.decide("k", entry.ActEscalate, id)
	for _, p := range []entry.Principal{"p1", "p2", "p3"} {
		w.put(w.answer(p, id, "refuse"))
	}
	told := w.silences()
	if written := w.next(); len(written) != 1 || len(told) != 0 {
		t.Errorf("wrote %+v, told %+v: people have answered", written, told)
	}
}

// TestApproversProposalsDoNotSilenceTheCoordinator amends by itself after a new
// signal, though an approver has proposed something that nobody approved.
func TestApproversProposalsDoNotSilenceTheCoordinator(t *testing.T) {
	w := newWorld(t)
	w.done("a", "up", entry.EffectCompensable)
	w.done("b", "down", entry.EffectCompensable, "a#up")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#down")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.at += 11 * minuteMS
	w.put(w.signal("a", entry.StandingExecutor, "a#up"))
	w.decide("p1", entry.ActEscalate, id)
	w.next()
	if len(w.members(id)) != 1 {
		t.Fatal("amended while the proposal waits for answers")
	}
	w.at += hourMS
	w.next()
	if len(w.members(id)) != 2 {
		t.Fatal("not amended")
	}
	w.checkAll()
}

// TestSignalerDoesNotApproveTheMerge keeps who signaled the younger incident from
// approving the amend that takes it up.
func TestSignalerDoesNotApproveTheMerge(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "both", entry.RoleMonitor, entry.RoleApprover))
	w.done("a", "up", entry.EffectIrrevocable)
	w.done("b", "down", entry.EffectCompensable, "a#up")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#down")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.proven("both", "a#up"))
	w.next()
	if w.incident(id).proposal == nil {
		t.Fatal("no amend is proposed")
	}
	w.refuse(w.sign(w.answer("both", id, "approve")), entry.NoStanding, "iss")
	w.put(w.answer("p1", id, "approve"))
	w.next()
	if len(w.members(id)) != 2 {
		t.Fatal("not amended")
	}
	w.checkAll()
}

// TestRevokedVotesDoNotOverride counts votes to stop an incident when the last one
// comes: who is revoked by then has none, stolen (TRU-4) or not (INC-3). They last
// through an amend.
func TestRevokedVotesDoNotOverride(t *testing.T) {
	for _, stolen := range []bool{false, true} {
		w, id := chain(t)
		vote := w.decide("p1", entry.ActOverride, id)
		w.decide("k", entry.ActAmend, id)
		w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActOverride})), entry.StateConflict, "iss")
		revoke := w.enrol("root", "p1", entry.RoleApprover)
		if revoke.Op = entry.Revoke; stolen {
			revoke.CompromisedSince = &entry.Compromised{Index: vote.Index}
		}
		w.put(revoke)
		w.decide("p2", entry.ActOverride, id)
		if w.incident(id).current.override != 0 {
			t.Fatalf("stolen %t: the vote of a revoked key counts", stolen)
		}
		w.decide("p3", entry.ActOverride, id)
		if w.incident(id).current.override == 0 {
			t.Fatalf("stolen %t: two votes do not count", stolen)
		}
		w.checkAll()
	}
}

// TestOldCompensationKeepsTheOrder takes a compensation of an earlier incident as
// proof only once the member is released.
func TestOldCompensationKeepsTheOrder(t *testing.T) {
	w, id := chain(t)
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} {
		w.compensate(id, exec)
	}
	w.next()
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} { // it was not so
		agent, _ := exec.Split()
		w.put(w.outcome(agent, id, exec, entry.ResultFailed))
	}
	second := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, second)
	w.refuse(w.sign(w.outcome("a", second, "a#1", entry.Compensated)), entry.StateConflict, "exec")
	w.put(w.outcome("c", second, "c#3", entry.Compensated))
	w.checkAll()
}

// TestBlockedAmendsEnd brings two plans in force that each want to grow over the
// other: neither may, and each ends by its own deadline, with its record.
func TestBlockedAmendsEnd(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectNone)
	w.done("b", "0", entry.EffectNone)
	w.done("a", "1", entry.EffectCompensable, "b#0")
	w.done("b", "1", entry.EffectCompensable, "a#0")
	ids, agents := map[entry.Principal]uint64{}, []entry.Principal{"a", "b"}
	for _, agent := range agents {
		ids[agent] = w.put(w.signal(agent, entry.StandingExecutor, entry.NewRef(agent, "1"))).Index
		w.decide("k", entry.ActAuthorize, ids[agent])
	}
	for _, agent := range agents {
		s := w.signal(agent, entry.StandingExecutor, entry.NewRef(agent, "1"))
		s.Since = entry.NewRef(agent, "0")
		w.put(s)
		w.refuse(w.sign(w.order("k", Order{Incident: ids[agent], Act: entry.ActAmend})), entry.StateConflict, "rollback_set")
	}
	w.compensate(ids["a"], "a#1") // b says nothing
	_, wake := w.state.Next(w.at)
	w.next()
	w.is(ids["a"], entry.IncidentAuthorized) // until its deadline it may be amended
	for ; wake < start+3*dayMS; _, wake = w.state.Next(w.at) {
		w.at = wake
		for len(w.next()) > 0 { // and what follows from it
		}
	}
	w.is(ids["a"], entry.IncidentRecovered)
	w.is(ids["b"], entry.IncidentFailed)
	w.checkAll()
}

// TestVoidDecisionIsAmendedAfterALapsedProposal has the coordinator decide again
// with its new key, though an amend was proposed in vain before the old one was
// stolen.
func TestVoidDecisionIsAmendedAfterALapsedProposal(t *testing.T) {
	w, id := chain(t)
	w.decide("k", entry.ActEscalate, id)
	w.at += 3 * hourMS
	revoke := w.enrol("root", "k", entry.RoleCoordinator)
	revoke.Op, revoke.CompromisedSince = entry.Revoke, &entry.Compromised{Index: w.incident(id).current.index}
	w.put(revoke)
	w.keys["k"] = "k's second key"
	w.put(w.enrol("root", "k", entry.RoleCoordinator))
	w.next()
	if f := w.incident(id).current; w.state.void(&f.decided) {
		t.Fatal("the decision in force is void")
	}
	w.compensate(id, "c#3")
	w.checkAll()
}
