package coord

import (
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestAccusationsDoNotStopARollback lets a third party accuse what leads to a
// plan in force, so that people are asked about a larger one. Agents that saw
// that act on nothing older (AGT-2); when nobody approves, what was in force goes
// on: by itself where the coordinator decided it alone, else as people approve it
// again. Who was not believed stays so, however often it says something.
func TestAccusationsDoNotStopARollback(t *testing.T) {
	for _, alone := range []bool{true, false} {
		w := newWorld(t)
		w.put(w.enrol("root", "liar", entry.RoleAgent))
		w.done("a", "up", entry.EffectCompensable)
		w.done("b", "pay", entry.EffectCompensable, "a#up")
		w.done("c", "look", entry.EffectNone, "b#pay")
		plan := 2
		if !alone {
			w.done("b", "mail", entry.EffectIrrevocable, "b#pay")
			plan++
		}
		id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
		if w.next(); !alone {
			w.put(w.answer("p1", id, "approve"))
			w.next()
		}
		w.is(id, entry.IncidentAuthorized)
		w.put(w.exec("liar", "see", "a#up"))
		lie := w.put(w.signal("liar", entry.StandingDownstream, "a#up")).Index
		w.next()
		if w.incident(id).proposal == nil {
			t.Fatal("nobody is asked about a larger plan")
		}
		w.at += hourMS
		w.goesOn(id, lie, alone, plan)
		w.put(w.signal("c", entry.StandingDownstream, "b#pay")) // about a member: the plan stays
		for _, body := range w.next() {
			if d, is := body.(*entry.Decision); is && d.Act == entry.ActEscalate && d.Incident == id {
				t.Fatal("asked again about what nobody approved")
			}
		}
		w.checkAll()
	}
}

// goesOn checks that the plan in force is decided again, without the lie.
func (w *world) goesOn(id, lie uint64, alone bool, plan int) {
	w.t.Helper()
	if w.next(); !alone {
		if p := w.incident(id).proposal; p == nil || len(p.members) != plan {
			w.t.Fatalf("what is in force is not proposed again: %+v", p)
		}
		w.put(w.answer("p1", id, "approve"))
		w.next()
	}
	inc := w.incident(id)
	if inc.current.epoch != inc.epoch || len(inc.current.members) != plan || len(inc.current.dismissed) != 1 || inc.current.dismissed[0] != lie {
		w.t.Fatalf("alone %t: epoch %d, in force is %d with %d members without %v", alone, inc.epoch, inc.current.epoch, len(inc.current.members), inc.current.dismissed)
	}
}

// TestRenewalLeavesOutNoMoreThanItMust has an executor say what leads to a plan in
// force, and a liar accuse what is beyond both: what the coordinator may decide
// alone, it does.
func TestRenewalLeavesOutNoMoreThanItMust(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "liar", entry.RoleAgent))
	w.done("b", "far", entry.EffectCompensable)
	w.done("a", "up", entry.EffectCompensable, "b#far")
	w.done("b", "pay", entry.EffectCompensable, "a#up")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.put(w.exec("liar", "see", "b#far"))
	lie := w.put(w.signal("liar", entry.StandingDownstream, "b#far")).Index
	w.next()
	w.put(w.signal("a", entry.StandingExecutor, "a#up"))
	w.next()
	if w.incident(id).proposal == nil {
		t.Fatal("nobody is asked about a larger plan")
	}
	w.at += 2 * hourMS
	w.next()
	f := w.incident(id).current
	if len(f.members) != 2 || len(f.dismissed) != 1 || f.dismissed[0] != lie {
		t.Fatalf("%d members without %v", len(f.members), f.dismissed)
	}
	w.checkAll()
}

// TestApproverCannotStallWhatPeopleApproved has an approver propose again what
// people have approved, which counts the epoch up: the coordinator asks them, once.
func TestApproverCannotStallWhatPeopleApproved(t *testing.T) {
	w := newWorld(t)
	w.done("b", "mail", entry.EffectIrrevocable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#mail")).Index
	w.next()
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.at += 11 * minuteMS
	w.decide("p3", entry.ActEscalate, id)
	w.at += 2 * hourMS
	w.next()
	p := w.incident(id).proposal
	if p == nil || w.state.principal(p.issuer) != "k" {
		t.Fatalf("the coordinator has not asked: %+v", p)
	}
	w.at += 2 * hourMS
	if written := w.next(); len(written) != 0 {
		t.Fatalf("%d entries after nobody approved again", len(written))
	}
	w.checkAll()
}

// TestRenewalsKeepTheDeadline has an approver propose whenever it may, while the
// agent says nothing: each time the coordinator decides the plan in force again,
// and the incident ends when it would have ended without that.
func TestRenewalsKeepTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.done("b", "pay", entry.EffectCompensable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	first := w.incident(id).current
	w.at += 11 * minuteMS
	for w.at <= first.deadline+skewMS {
		if inc := w.incident(id); w.state.pending(inc, w.at) == nil && inc.state.Open() {
			w.put(w.order("p1", Order{Incident: id, Act: entry.ActEscalate, Exp: entry.MaxInteger}))
		}
		w.at += hourMS
		w.next()
	}
	w.next()
	w.is(id, entry.IncidentFailed)
	if f := w.incident(id).current; f.deadline != first.deadline || f.expMax > first.deadline || len(f.decisions) < 20 {
		t.Errorf("due at %d, at first %d, after %d decisions", f.deadline, first.deadline, len(f.decisions))
	}
	w.checkAll()
}

// TestExecutorCannotStallOthers has one agent of a plan signal something new of
// its own, beyond the plan, whenever people were asked about the last in vain:
// the agents of the others have time to act, more each time, on a decision that
// no later epoch has made too old.
func TestExecutorCannotStallOthers(t *testing.T) {
	w := newWorld(t)
	w.done("a", "pay", entry.EffectCompensable)
	w.done("b", "ship", entry.EffectCompensable, "a#pay")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#pay")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	deadline, open := w.incident(id).current.deadline, 0
	for i := range 24 * 12 {
		if w.at = start + int64(i)*5*minuteMS; w.at >= deadline {
			break
		}
		if i%6 == 0 {
			x := w.done("a", fmt.Sprint(i), entry.EffectReversible)
			w.put(w.signal("a", entry.StandingExecutor, x.Ref()))
		}
		w.next()
		w.next()
		if inc := w.incident(id); inc.epoch == inc.current.epoch {
			open += 5
		}
	}
	if open < 10*60 {
		t.Errorf("%d minutes of a day to act", open)
	}
	if f := w.incident(id).current; f.deadline != deadline {
		t.Errorf("due at %d, at first %d", f.deadline, deadline)
	}
	w.checkAll()
}

// TestNothingIsAskedAfterTheDeadline lets an agent signal ever more of its own
// work, from before what is in force, when that is over.
func TestNothingIsAskedAfterTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.done("a", "mail", entry.EffectIrrevocable)
	w.done("a", "pay", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#pay")).Index
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.at = w.incident(id).current.deadline
	further := w.signal("a", entry.StandingExecutor, "a#pay")
	further.Since = "a#mail"
	w.put(further)
	if written := w.next(); len(written) != 0 {
		t.Fatalf("%d entries: %+v", len(written), written[0])
	}
	w.at += skewMS + 1
	w.next()
	w.next()
	w.is(id, entry.IncidentFailed)
	w.checkAll()
}
