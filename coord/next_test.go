package coord

import (
	"strconv"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestProposedAgain shows that a plan which changes after it was proposed, and
// which nobody can approve any more, is proposed again without anybody's doing,
// and that signals which it left out stay so.
func TestProposedAgain(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	x := w.flying("c", "mail", entry.EffectIrrevocable, "b#pay")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	wrong := w.put(w.signal("b", entry.StandingDownstream, "a#make")).Index
	w.at += 11 * minuteMS
	w.put(w.order("p3", Order{Incident: id, Act: entry.ActEscalate, Dismissed: []entry.Dismissal{{Index: wrong, Reason: "b is mistaken"}}}))
	first := w.incident(id).proposal.rollbackSet
	w.put(w.step(x, entry.Failed))
	clean := w.signal("c", entry.StandingExecutor, x.Ref()) // it had no effect: nothing is left to undo
	clean.Effects = entry.EffectsNone
	w.put(clean)
	if written := w.next(); len(written) != 0 {
		t.Fatal("proposed again at once")
	}
	w.at += 5 * minuteMS
	if written := w.next(); len(written) != 1 {
		t.Fatalf("%d entries, want a proposal", len(written))
	}
	p := w.incident(id).proposal
	if w.is(id, entry.IncidentEscalated); p.rollbackSet == first || len(p.dismissed) != 1 || p.dismissed[0] != wrong || w.incident(id).epoch != 2 {
		t.Fatalf("proposal %+v", p)
	}
	if written := w.next(); len(written) != 0 {
		t.Fatal("proposed once more, though nothing has changed")
	}
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.checkAll()
}

// TestAmendProposedAgain is TestProposedAgain for an incident in force, before
// and after people have approved.
func TestAmendProposedAgain(t *testing.T) {
	for _, approved := range []bool{false, true} {
		w := newWorld(t)
		w.done("a", "up", entry.EffectCompensable)
		w.done("b", "down", entry.EffectCompensable, "a#up")
		w.done("c", "gone", entry.EffectIrrevocable, "a#up")
		x := w.flying("c", "mail", entry.EffectIrrevocable, "a#up")
		id := w.put(w.signal("b", entry.StandingExecutor, "b#down")).Index
		w.next()
		w.is(id, entry.IncidentAuthorized)
		w.put(w.signal("a", entry.StandingExecutor, "a#up")) // what leads to it: another incident, that is merged
		w.next()
		old := w.incident(id).proposal
		if old == nil {
			t.Fatal("no amend is proposed")
		}
		if approved {
			w.put(w.answer("p1", id, "approve"))
		}
		w.put(w.step(x, entry.Failed))
		clean := w.signal("c", entry.StandingExecutor, x.Ref())
		clean.Effects = entry.EffectsNone
		w.put(clean)
		if !approved {
			w.at += 5 * minuteMS
		}
		w.next()
		p := w.incident(id).proposal
		if p == nil || p.rollbackSet == old.rollbackSet || len(p.approvals) != 0 {
			t.Fatalf("approved %t: proposal %+v", approved, p)
		}
		w.put(w.answer("p1", id, "approve"))
		w.next()
		if got := w.members(id); len(got) != 4 {
			t.Fatalf("approved %t: members %v", approved, got)
		}
		w.checkAll()
	}
}

// TestProposalsAreBounded changes a plan a hundred times: there are a few
// proposals, and whoever keeps changing it wins no time.
func TestProposalsAreBounded(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.FencedMS = 1 // nothing is fenced: others go on building
	w.put(p)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	began, proposals := w.at, 0
	for i := range 100 {
		if w.incident(id).state != entry.IncidentEscalated {
			break
		}
		w.done("c", strconv.Itoa(i), entry.EffectNone, "b#pay")
		w.at += 2 * minuteMS
		for _, body := range w.next() {
			if d, ok := body.(*entry.Decision); ok && d.Act == entry.ActEscalate {
				proposals++
			}
		}
	}
	w.is(id, entry.IncidentDismissed)
	if proposals < 2 || proposals > 4 {
		t.Errorf("proposed again %d times", proposals)
	}
	if took := w.at - began; took > 3*hourMS {
		t.Errorf("open for %d ms", took)
	}
	w.checkAll()
}
