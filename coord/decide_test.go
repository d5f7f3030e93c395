package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestCheckpointsCoverWhatEnded is CHK-1: after is the agent's own, final, of the
// line, and no older than what the line's checkpoints before cover.
func TestCheckpointsCoverWhatEnded(t *testing.T) {
	w := newWorld(t)
	w.done("a", "one", entry.EffectReversible)
	w.done("a", "two", entry.EffectReversible)
	w.done("b", "other", entry.EffectReversible)
	w.flying("a", "busy", entry.EffectReversible)
	elsewhere := w.step(w.exec("a", "elsewhere"), entry.Confirmed)
	elsewhere.Wid = "w2"
	w.put(elsewhere)
	for _, after := range []entry.Ref{"b#other", "a#busy", "a#elsewhere"} {
		w.refuse(w.sign(w.checkpoint("a", "cp", after)), entry.StateConflict, "after")
	}
	w.put(w.checkpoint("a", "cp", "a#two"))
	w.refuse(w.sign(w.checkpoint("a", "cp2", "a#one")), entry.StateConflict, "after")
	w.refuse(w.sign(w.checkpoint("a", "cp2", "")), entry.StateConflict, "after")
	w.put(w.checkpoint("a", "cp2", "a#two"))
	w.checkAll()
}

// TestAmendsSupersedeWhatIsInForce refuses an amend of another decision, one that
// holds too long, and one that leaves out what came after a proposal which nobody
// approved.
func TestAmendsSupersedeWhatIsInForce(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.signal("b", entry.StandingExecutor, "b#pay"))
	opening := w.state.logRef(id)
	for _, c := range []struct {
		problem entry.Problem
		field   string
		spoil   func(d *entry.Decision)
	}{
		{entry.StateConflict, "supersedes", func(d *entry.Decision) { d.Supersedes = &opening }},
		{entry.ScopeExceedsPolicy, "deadline_at", func(d *entry.Decision) { d.DeadlineAt = w.at + dayMS + 1 }},
		{entry.StateConflict, "exp", func(d *entry.Decision) { d.Exp = d.DeadlineAt/1000 + 1 }},
	} {
		d := w.order("k", Order{Incident: id, Act: entry.ActAmend})
		c.spoil(d)
		w.refuse(w.sign(d), c.problem, c.field)
	}
	w.put(w.order("k", Order{Incident: id, Act: entry.ActEscalate, Exp: w.at/1000 + 7200}))
	proposed := w.incident(id).proposal.pin
	w.put(w.signal("b", entry.StandingExecutor, "b#pay"))
	w.at += hourMS // nobody has answered in time: the coordinator may go on
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend, Pin: proposed.Size})), entry.ScopeMismatch, "pin.size")
	w.decide("k", entry.ActAmend, id)
	w.checkAll()
}

// TestApprovedPlansRestOnTheirPin carries out what people approved, though a fence
// and a signal have come since, in an incident that waits and in one in force.
// Draft: INC-5d.
func TestApprovedPlansRestOnTheirPin(t *testing.T) {
	w, id := escalated(t)
	w.put(w.answer("p1", id, "approve"))
	w.put(w.exec("c", "between"))
	w.decide("k", entry.ActContain, id) // with a newer pin
	w.is(id, entry.IncidentEscalated)
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.signal("m", entry.StandingMonitor, "a#make"))
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p2", id, "approve"))
	w.put(w.signal("m", entry.StandingMonitor, "a#make"))
	w.decide("k", entry.ActAmend, id)
	if f := w.incident(id).current; len(f.decisions) != 2 || f.proposal == 0 {
		t.Fatalf("%+v", f)
	}
	w.checkAll()
}

// TestProposalsFence is what an escalate fences by itself: of coordinator and
// approver what a contain might, within the limits, else nothing new.
func TestProposalsFence(t *testing.T) {
	for _, c := range []struct {
		iss    entry.Principal
		most   int64
		fences bool
	}{{"k", 100, true}, {"p1", 100, true}, {"a", 100, false}, {"k", 2, false}} {
		w := newWorld(t)
		p := w.nextPolicy()
		fenceOf(p).Incident.Members = c.most
		w.put(p)
		w.pipeline()
		id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
		w.at += 10 * minuteMS
		w.decide(c.iss, entry.ActEscalate, id)
		err := w.admit(w.sign(w.exec("c", "x", "a#make")))
		if (err != nil) != c.fences {
			t.Errorf("%s, at most %d members: %v", c.iss, c.most, err)
		}
		w.checkAll()
	}
	w, id := reported(t)
	w.decide("k", entry.ActContain, id)
	w.at += 10 * minuteMS
	w.decide("a", entry.ActEscalate, id) // a signaler may of what is contained, too
	w.is(id, entry.IncidentEscalated)
}

// TestAutomaticWantsACause refuses the coordinator what has not failed, and what
// only one principal says, however often (INC-2).
// Draft: INC-2a.
func TestAutomaticWantsACause(t *testing.T) {
	alone := func(w *world, id uint64) {
		t.Helper()
		w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
		w.checkAll()
	}
	w := newWorld(t)
	w.flying("a", "run", entry.EffectCompensable)
	alone(w, w.put(w.signal("a", entry.StandingExecutor, "a#run")).Index)

	w = newWorld(t)
	x := w.flying("a", "run", entry.EffectCompensable)
	w.put(w.exec("b", "use", "a#run"))
	w.put(w.exec("c", "use", "a#run"))
	w.put(w.step(x, entry.Failed))
	id := w.put(w.signal("b", entry.StandingDownstream, "a#run")).Index
	w.put(w.signal("c", entry.StandingDownstream, "a#run"))
	alone(w, id) // it failed, which its executor has to say

	w = newWorld(t)
	x = w.flying("a", "run", entry.EffectCompensable)
	w.put(w.exec("b", "use", "a#run"))
	w.put(w.step(x, entry.Confirmed))
	id = w.put(w.signal("b", entry.StandingDownstream, "a#run")).Index
	w.put(w.signal("b", entry.StandingDownstream, "a#run"))
	alone(w, id)
}

// TestLimitsOfAgents counts agents, and an incident's own cost once.
func TestLimitsOfAgents(t *testing.T) {
	world := func(change func(l *entry.Limits)) (*world, uint64) {
		w := newWorld(t)
		p := w.nextPolicy()
		change(&p.Limits)
		w.put(p)
		w.pipeline()
		return w, w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	}
	w, id := world(func(l *entry.Limits) { l.Incident.Agents = 1 })
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "rollback_set")
	w, id = world(func(l *entry.Limits) { l.Signaler.Members, l.Victim.Members = 3, 2 })
	w.decide("k", entry.ActContain, id)
	w.decide("k", entry.ActAuthorize, id)
	w.checkAll()
}
