package coord

import (
	"reflect"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestSilenceIsAcknowledged has nobody answer: the incident says so, and goes on
// saying so until a person takes note, by an entry, which changes nothing else.
// Draft: INC-9.
func TestSilenceIsAcknowledged(t *testing.T) {
	for _, who := range []entry.Principal{"o", "p1"} {
		w, id := escalated(t)
		w.at += hourMS
		w.next()
		v := w.dismissed(id, true, 0)
		if h, _ := w.state.History("a", 0, 1, w.at); !h.Signals[0].Silence || h.Signals[0].Disposition != entry.Inconclusive {
			t.Errorf("history %+v", h)
		}
		if c := w.state.Census(w.at); c.States[entry.IncidentDismissed] != 1 || c.Unacknowledged != 1 {
			t.Errorf("%+v", c)
		}
		if todo, _ := w.state.Next(w.at); len(todo) != 0 {
			t.Errorf("the coordinator would write %d entries more", len(todo))
		}
		w.at += 30 * dayMS
		noted := w.decide(who, entry.ActDeny, id)
		if after := w.dismissed(id, true, noted.Index); after.Recorded != v.Recorded {
			t.Errorf("closed by %d, was by %d", after.Recorded, v.Recorded)
		}
		if h, _ := w.state.History("a", 0, 1, w.at); h.Judged != 1 || h.Signals[0].Disposed != v.Recorded {
			t.Errorf("history %+v", h)
		}
		if waiting := w.state.Census(w.at).Unacknowledged; waiting != 0 {
			t.Errorf("%d wait", waiting)
		}
		w.checkAll()
	}
}

// dismissed checks how an incident was dismissed, and returns it.
func (w *world) dismissed(id uint64, silent bool, acknowledged uint64) api.Incident {
	w.t.Helper()
	v, _ := w.state.Incident(id, w.at)
	if v.State != entry.IncidentDismissed || v.Silence != silent || v.Acknowledged != acknowledged || v.Unacknowledged() != (silent && acknowledged == 0) {
		w.t.Fatalf("%+v", v)
	}
	return v
}

// TestWhoMayAcknowledge refuses acknowledgements by the coordinator and by agents,
// of another deny, with verdicts, and a second one.
func TestWhoMayAcknowledge(t *testing.T) {
	w, id := escalated(t)
	w.at += hourMS
	draft := func(iss entry.Principal) *entry.Decision {
		return w.order(iss, Order{Incident: id, Act: entry.ActDeny})
	}
	early := draft("o")
	ref := w.state.logRef(id)
	early.Supersedes = &ref
	w.refuse(w.sign(early), entry.StateConflict, "supersedes")
	w.next()

	w.refuse(w.sign(draft("k")), entry.StateConflict, "iss")
	w.refuse(w.sign(draft("a")), entry.UnauthorizedRole, "iss")
	bare := draft("p1")
	bare.Supersedes = nil
	w.refuse(w.sign(bare), entry.StateConflict, "supersedes")
	bare = draft("o")
	bare.Supersedes = nil
	w.refuse(w.sign(bare), entry.UnauthorizedRole, "iss")
	other := draft("p1")
	ref = w.state.logRef(id)
	other.Supersedes = &ref
	w.refuse(w.sign(other), entry.StateConflict, "supersedes")
	judging := draft("p1")
	judging.Dispositions[0].Disposition = entry.Dismissed
	w.refuse(w.sign(judging), entry.StateConflict, "dispositions")
	w.put(draft("o"))
	w.refuse(w.sign(draft("p1")), entry.StateConflict, "act")
	w.checkAll()
}

// unanswered has a plan in force, and an amend that nobody answered in time.
func unanswered(t *testing.T) (w *world, id, proposal uint64) {
	t.Helper()
	w, id = reported(t)
	w.decide("k", entry.ActAuthorize, id)
	proposal = w.decide("k", entry.ActEscalate, id).Index
	w.at += hourMS
	return w, id, proposal
}

// lapsed checks what is said of an amend that nobody answered: proposal 0 is none.
func (w *world) lapsed(id, proposal, acknowledged uint64) api.Incident {
	w.t.Helper()
	v, _ := w.state.Incident(id, w.at)
	waits, waiting := proposal != 0 && acknowledged == 0, 0
	if waits {
		waiting = 1
	}
	count := w.state.Census(w.at).Unacknowledged
	said := v.Lapsed != nil && v.Lapsed.Proposal == proposal && v.Lapsed.Acknowledged == acknowledged
	if v.Silence || said != (proposal != 0) || (v.Lapsed == nil) != (proposal == 0) || v.Unacknowledged() != waits || count != waiting {
		w.t.Fatalf("lapsed %+v, %d counted, want proposal %d acknowledged by %d", v.Lapsed, count, proposal, acknowledged)
	}
	if over := "a person who acknowledges the incident"; !v.State.Open() && (v.WaitsFor == over) != waits {
		w.t.Fatalf("waits for %q", v.WaitsFor)
	}
	return v
}

// TestUnansweredAmendIsAcknowledged has nobody answer an amend that was proposed. The
// incident says so as soon as the time is over, whichever entry drops the amend, and
// after its end: until a person takes note, by an entry, which changes nothing else.
func TestUnansweredAmendIsAcknowledged(t *testing.T) {
	drops := map[string]func(w *world, id uint64){
		"nothing":  func(*world, uint64) {},
		"renewal":  func(w *world, _ uint64) { w.next() },
		"amend":    func(w *world, id uint64) { w.decide("k", entry.ActAmend, id) },
		"override": func(w *world, id uint64) { w.decide("o", entry.ActOverride, id) },
		"vote":     func(w *world, id uint64) { w.decide("p1", entry.ActOverride, id) },
		"record": func(w *world, id uint64) {
			w.finish(id, entry.Restored)
			w.next()
			w.is(id, entry.IncidentRecovered)
		},
		"later record": func(w *world, id uint64) {
			w.next()
			w.finish(id, entry.Restored)
			w.next()
			w.is(id, entry.IncidentRecovered)
		},
		"expiry": func(w *world, _ uint64) { w.at += 10 * hourMS },
	}
	for name, drop := range drops {
		for _, who := range []entry.Principal{"o", "p1"} {
			t.Run(name+"/"+string(who), func(t *testing.T) {
				w, id, proposal := unanswered(t)
				w.at--
				w.lapsed(id, 0, 0)
				w.at++
				when := w.at
				drop(w, id)
				v := w.lapsed(id, proposal, 0)
				if v.Lapsed.At != when {
					t.Errorf("at %d, want %d", v.Lapsed.At, when)
				}
				plan, _ := w.state.PlanInForce(id, w.at)
				history, _ := w.state.History("a", 0, 1, w.at)
				noted := w.decide(who, entry.ActDeny, id)
				after := w.lapsed(id, proposal, noted.Index)
				v.Lapsed, after.Lapsed, v.WaitsFor, after.WaitsFor, v.Waits, after.Waits = nil, nil, "", "", nil, nil
				if !reflect.DeepEqual(v, after) {
					t.Errorf("%+v, was %+v", after, v)
				}
				if now, _ := w.state.PlanInForce(id, w.at); !reflect.DeepEqual(plan, now) {
					t.Errorf("plan %+v, was %+v", now, plan)
				}
				if now, _ := w.state.History("a", 0, 1, w.at); !reflect.DeepEqual(history.History, now.History) {
					t.Errorf("history %+v, was %+v", now, history)
				}
				w.refuse(w.sign(w.order("p2", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act")
				w.checkAll()
			})
		}
	}
}

// TestAcknowledgedLapseStays acknowledges an amend whose proposal still stands: what
// drops the proposal afterwards makes nobody acknowledge it again.
func TestAcknowledgedLapseStays(t *testing.T) {
	w, id, proposal := unanswered(t)
	noted := w.decide("o", entry.ActDeny, id).Index
	if told := w.silences(); len(told) != 0 {
		t.Errorf("told %+v, and somebody knows", told)
	}
	w.next()
	w.lapsed(id, proposal, noted)
	w.finish(id, entry.Restored)
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.lapsed(id, proposal, noted)
	w.checkAll()
}

// TestWhatIsNoLapse answers an amend that was proposed, by a quorum in time or late
// or by refusals, also where the answers have expired since; and asks again.
func TestWhatIsNoLapse(t *testing.T) {
	propose := func() (w *world, id uint64) {
		w, id = reported(t)
		w.decide("k", entry.ActAuthorize, id)
		w.decide("k", entry.ActEscalate, id)
		return w, id
	}
	w, id := propose()
	w.put(w.answer("p1", id, "approve"))
	w.at += hourMS
	w.lapsed(id, 0, 0)
	w.next()
	w.lapsed(id, 0, 0)
	w.checkAll()

	w, id = propose()
	for _, p := range []entry.Principal{"p1", "p2", "p3"} {
		w.put(w.answer(p, id, "refuse"))
	}
	w.at += 20 * hourMS
	w.lapsed(id, 0, 0)
	w.finish(id, entry.Restored)
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.lapsed(id, 0, 0)
	w.checkAll()

	w, id, proposal := unanswered(t)
	w.decide("o", entry.ActDeny, id)
	w.put(w.answer("p1", id, "approve")) // late
	w.next()
	if f := w.incident(id).current; f.proposal != proposal {
		t.Fatalf("the amend that was approved late is not in force: %+v", f)
	}
	w.lapsed(id, 0, 0)
	w.checkAll()

	w, id, proposal = unanswered(t)
	w.next()
	w.lapsed(id, proposal, 0)
	again := w.decide("p1", entry.ActEscalate, id).Index
	w.lapsed(id, 0, 0)
	w.at += hourMS
	w.lapsed(id, again, 0)
	d, ref := w.order("p1", Order{Incident: id, Act: entry.ActDeny}), w.state.logRef(proposal)
	d.Supersedes = &ref
	w.refuse(w.sign(d), entry.StateConflict, "supersedes")
	w.checkAll()
}

// TestApproverProposesAfterTheDeadline drops at once, with the record, what an approver
// proposed when the deadline was over: nobody had the time to answer it.
func TestApproverProposesAfterTheDeadline(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.finish(id, entry.Restored)
	w.at = w.incident(id).current.deadline + 1
	proposal := w.decide("p1", entry.ActEscalate, id).Index
	if v := w.lapsed(id, proposal, 0); v.Lapsed.At != w.at {
		t.Errorf("at %d, proposed at %d", v.Lapsed.At, w.at)
	}
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.lapsed(id, proposal, 0)
	w.checkAll()
}

// TestWhoMayAcknowledgeALapse refuses acknowledgements by the coordinator and by
// agents, of what waits or never lapsed, of another incident's amend, with verdicts,
// without the epoch of now, and a second one: while the plan is in force, and after
// the incident has ended.
func TestWhoMayAcknowledgeALapse(t *testing.T) {
	for _, over := range []bool{false, true} {
		w, id, proposal := unanswered(t)
		foreign := w.alsoUnanswered()
		w.at -= 2 * hourMS // while it waits
		early := w.order("p1", Order{Incident: id, Act: entry.ActDeny})
		for _, index := range []uint64{proposal, w.incident(id).current.index} {
			ref := w.state.logRef(index)
			early.Supersedes = &ref
			says := w.refused(w.sign(early), entry.StateConflict, "act")
			if !strings.Contains(says.Detail, "has no unanswered amend") {
				t.Errorf("%v", says)
			}
		}
		if w.at += 2 * hourMS; over {
			w.finish(id, entry.Restored)
			w.next()
			w.is(id, entry.IncidentRecovered)
		}
		w.lapsedAmong(id, proposal)
		draft := func(iss entry.Principal) *entry.Decision {
			return w.order(iss, Order{Incident: id, Act: entry.ActDeny})
		}
		w.refuse(w.sign(draft("k")), entry.StateConflict, "iss")
		w.refuse(w.sign(draft("a")), entry.UnauthorizedRole, "iss")
		w.refuse(w.sign(draft("m")), entry.UnauthorizedRole, "iss")
		for _, index := range []uint64{w.incident(id).current.index, foreign, id} {
			wrong, ref := draft("p1"), w.state.logRef(index)
			wrong.Supersedes = &ref
			w.refuse(w.sign(wrong), entry.StateConflict, "supersedes")
		}
		unknown := draft("p1")
		unknown.Supersedes.LeafHash[0] ^= 1
		w.refuse(w.sign(unknown), entry.UnknownSubject, "supersedes")
		bare := draft("p1")
		bare.Supersedes = nil
		w.refuse(w.sign(bare), entry.StateConflict, "supersedes")
		bare = draft("o")
		bare.Supersedes = nil
		w.refuse(w.sign(bare), entry.UnauthorizedRole, "iss")
		judging := draft("p1")
		judging.Dispositions[0].Disposition = entry.Dismissed
		w.refuse(w.sign(judging), entry.StateConflict, "dispositions")
		next := draft("p1")
		next.Epoch++
		w.refuse(w.sign(next), entry.StaleEpoch, "epoch")
		w.put(draft("o"))
		w.refuse(w.sign(draft("p1")), entry.StateConflict, "act")
		w.checkAll()
	}
}

// alsoUnanswered adds another incident with an amend that nobody answered, and returns
// the proposal.
func (w *world) alsoUnanswered() (proposal uint64) {
	w.t.Helper()
	w.done("c", "other", entry.EffectCompensable)
	id := w.put(w.signal("c", entry.StandingExecutor, "c#other")).Index
	w.decide("k", entry.ActAuthorize, id)
	proposal = w.decide("k", entry.ActEscalate, id).Index
	w.at += hourMS
	return proposal
}

// lapsedAmong checks that nobody has answered an amend, whatever stands of others.
func (w *world) lapsedAmong(id, proposal uint64) {
	w.t.Helper()
	if v, _ := w.state.Incident(id, w.at); v.Lapsed == nil || v.Lapsed.Proposal != proposal || !v.Unacknowledged() {
		w.t.Fatalf("%+v", v.Lapsed)
	}
}

// TestUnansweredAmendFencesNothing refuses, of an incident that is over, what depends
// on what it undid, without a wait: an acknowledgement lifts no fence.
func TestUnansweredAmendFencesNothing(t *testing.T) {
	w, id, proposal := unanswered(t)
	w.finish(id, entry.Restored)
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.lapsed(id, proposal, 0)
	w.refusedAs(w.sign(w.exec("c", "x", "b#pay")), "parents[0].exec", id, "", refusalWords{"which is closed (RECOVERED)", "under a new id"})
}

// TestWhatIsNoSilence denies in other ways: by an approver in time or late, by
// refusals, and by a merge. Nobody has to acknowledge those. An approver who has a
// part in the incident, and may say only that nobody answered, is silence too.
func TestWhatIsNoSilence(t *testing.T) {
	w, id := escalated(t)
	w.decide("p1", entry.ActDeny, id)
	w.dismissed(id, false, 0)

	w, id = escalated(t)
	w.at += hourMS
	w.decide("p1", entry.ActDeny, id)
	w.dismissed(id, false, 0)
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act")

	w, id = escalated(t)
	for _, p := range []entry.Principal{"p1", "p2", "p3"} {
		w.put(w.answer(p, id, "refuse"))
	}
	w.next()
	w.dismissed(id, false, 0)

	w = newWorld(t)
	w.put(w.enrol("root", "both", entry.RoleMonitor, entry.RoleApprover))
	w.pipeline()
	id = w.put(w.signal("both", entry.StandingMonitor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	w.at += hourMS
	w.decide("both", entry.ActDeny, id)
	w.dismissed(id, true, 0)
	w.checkAll()
}
