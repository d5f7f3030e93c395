package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestSilenceIsAcknowledged has nobody answer: the incident says so, and goes on
// saying so until a person takes note, by an entry, which changes nothing else.
func TestSilenceIsAcknowledged(t *testing.T) {
	for _, who := range []entry.Principal{"o", "p1"} {
		w, id := escalated(t)
		w.at += hourMS
		w.next()
		v := w.dismissed(id, true, 0)
		if h, _, _ := w.state.History("a", 0, 1); !h.Signals[0].Silent || h.Signals[0].Verdict.Disposition != entry.Inconclusive {
			t.Errorf("history %+v", h)
		}
		if states, waiting := w.state.IncidentCounts(); states[Dismissed] != 1 || waiting != 1 {
			t.Errorf("%v, %d wait", states, waiting)
		}
		if todo, _ := w.state.Next(w.at); len(todo) != 0 {
			t.Errorf("the coordinator would write %d entries more", len(todo))
		}
		w.at += 30 * dayMS
		noted := w.decide(who, entry.ActDeny, id)
		if after := w.dismissed(id, true, noted.Index); after.Recorded != v.Recorded {
			t.Errorf("closed by %d, was by %d", after.Recorded, v.Recorded)
		}
		if h, _, _ := w.state.History("a", 0, 1); h.Judged != 1 || h.Signals[0].Disposed != v.Recorded {
			t.Errorf("history %+v", h)
		}
		if _, waiting := w.state.IncidentCounts(); waiting != 0 {
			t.Errorf("%d wait", waiting)
		}
		w.checkAll()
	}
}

// dismissed checks how an incident was dismissed, and returns it.
func (w *world) dismissed(id uint64, silent bool, acknowledged uint64) IncidentView {
	w.t.Helper()
	v, _ := w.state.Incident(id, w.at)
	if v.State != Dismissed || v.Silent != silent || v.Acknowledged != acknowledged || v.Unacknowledged() != (silent && acknowledged == 0) {
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
	judging.Signals[0].Disposition = entry.NotFounded
	w.refuse(w.sign(judging), entry.StateConflict, "signals")
	w.put(draft("o"))
	w.refuse(w.sign(draft("p1")), entry.StateConflict, "act")
	w.checkAll()
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
