package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// reported returns a world with the pipeline and an incident about a#make.
func reported(t *testing.T) (w *world, id uint64) {
	t.Helper()
	w = newWorld(t)
	w.pipeline()
	return w, w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
}

// escalated is reported with a proposal of the coordinator.
func escalated(t *testing.T) (w *world, id uint64) {
	t.Helper()
	w, id = reported(t)
	w.decide("k", entry.ActEscalate, id)
	return w, id
}

// TestForgedRole lets those decide who may not.
// Draft: SIG-3.
func TestForgedRole(t *testing.T) {
	w, id := reported(t)
	for _, act := range []entry.Act{entry.ActContain, entry.ActAuthorize} {
		w.refuse(w.sign(w.order("a", Order{Incident: id, Act: act})), entry.UnauthorizedRole, "iss")
		w.refuse(w.sign(w.order("o", Order{Incident: id, Act: act})), entry.UnauthorizedRole, "iss")
	}
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActAuthorize})), entry.UnauthorizedRole, "iss") // without a quorum
	approval := w.answer("o", id, "approve")
	w.refuse(w.sign(approval), entry.UnauthorizedRole, "iss")
	w.refuse(w.sign(w.enrol("e", "crony", entry.RoleApprover)), entry.UnauthorizedRole, "iss")
	w.checkAll()
}

// TestConvenientPin shows that a plan rests on the log as it is: not on a root
// of another log, nor on a time before a signal that somebody dislikes.
// Draft: SCO-5b.
func TestConvenientPin(t *testing.T) {
	w, id := reported(t)
	before := w.state.pin()
	w.put(w.signal("b", entry.StandingDownstream, "a#make"))
	for _, c := range []struct {
		field string
		spoil func(pin *merkle.Head)
	}{
		{"pin.size", func(pin *merkle.Head) { *pin = before }}, // leaves out b's signal
		{"pin.root", func(pin *merkle.Head) { pin.Root[0] ^= 1 }},
		{"pin.size", func(pin *merkle.Head) { pin.Size++ }},
		{"pin.size", func(pin *merkle.Head) { pin.Size, pin.Root = id, w.state.tree.Root(id) }},
	} {
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		pin := *d.Pin
		c.spoil(&pin)
		d.Pin = &pin
		w.refuse(w.sign(d), entry.ScopeMismatch, c.field)
	}
	w.put(w.exec("c", "x"))
	older := w.order("k", Order{Incident: id, Act: entry.ActContain})
	older.Pin.Size--
	older.Pin.Root = w.state.tree.Root(older.Pin.Size)
	w.put(older) // entries that say nothing of the incident may come between
	w.decide("k", entry.ActEscalate, id)
	back := w.order("k", Order{Incident: id, Act: entry.ActContain})
	back.Pin.Size, back.Pin.Root = id+2, w.state.tree.Root(id+2)
	w.refuse(w.sign(back), entry.ScopeMismatch, "pin.size")
	w.checkAll()
}

// TestInflatedSeeds and deflated ones: rollback set, impact and signals are those that
// the rules give, and only signals can be left out.
// Draft: SCO-5b.
func TestInflatedSeeds(t *testing.T) {
	w, id := reported(t)
	w.put(w.signal("b", entry.StandingDownstream, "a#make"))
	other := w.put(w.signal("c", entry.StandingExecutor, "c#read"))
	for _, c := range []struct {
		field string
		spoil func(d *entry.Decision)
	}{
		{"rollback_set.size", func(d *entry.Decision) { d.RollbackSet.Size++ }},
		{"rollback_set.size", func(d *entry.Decision) { d.RollbackSet.Size-- }},
		{"rollback_set.root", func(d *entry.Decision) { d.RollbackSet.Root[0] ^= 1 }},
		{"impact", func(d *entry.Decision) { d.Impact.Irrevocable++ }},
		{"signals", func(d *entry.Decision) { d.Signals.Size-- }},
		{"signals", func(d *entry.Decision) { d.Signals.Root[31] ^= 1 }},
		{"dismissed", func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: other.Index, Reason: "not of this incident"}}
		}},
		{"dismissed", func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: id, Reason: "twice"}, {Index: id, Reason: "twice"}}
		}},
	} {
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		c.spoil(d)
		w.refuse(w.sign(d), entry.ScopeMismatch, c.field)
	}
	none := []entry.Dismissal{{Index: id, Reason: "no"}, {Index: id + 1, Reason: "no"}}
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Dismissed: none})), entry.StateConflict, "dismissed")
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Dismissed: none[:1]})), entry.ScopeExceedsPolicy, "act") // b alone
	w.put(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Dismissed: none[1:]}))
	w.checkAll()
}

// TestSquattedIDs lets an agent use the ids of another: they are its own.
func TestSquattedIDs(t *testing.T) {
	w, id := reported(t)
	w.put(w.exec("c", "make")) // c#make, not a#make
	w.decide("k", entry.ActAuthorize, id)
	w.refuse(w.sign(w.outcome("b", id, "a#make", entry.Restored)), entry.NoStanding, "iss")
	w.refuse(w.sign(w.outcome("k", id, "a#make", entry.ResultUnknown)), entry.StateConflict, "exec") // too early
	stolen := w.compensation(id, "b#pay")
	stolen.Header = w.header("c")
	w.refuse(w.sign(stolen), entry.NoStanding, "iss")
	w.refuse(w.sign(w.outcome("c", id, "c#make", entry.NotExecuted)), entry.UnknownSubject, "exec")
	w.checkAll()
}

// TestStaleDecisions shows that a decision of another epoch, policy or time is
// refused.
// Draft: INC-7d.
func TestStaleDecisions(t *testing.T) {
	w, id := reported(t)
	epoch := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	epoch.Epoch = 1
	w.refuse(w.sign(epoch), entry.StaleEpoch, "epoch")
	expired := w.order("k", Order{Incident: id, Act: entry.ActContain, Exp: w.at / 1000})
	w.refuse(w.sign(expired), entry.Stale, "exp")
	late := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	late.DeadlineAt = w.at + dayMS + 1
	w.refuse(w.sign(late), entry.ScopeExceedsPolicy, "deadline_at")
	behind := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	behind.Exp++
	w.refuse(w.sign(behind), entry.StateConflict, "exp")
	d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	w.put(w.nextPolicy())
	w.refuse(w.sign(d), entry.PolicySuperseded, "policy")
	w.decide("k", entry.ActAuthorize, id)
	w.checkAll()
}

// TestAmendPastLimits lets an incident grow by more signals: alone the
// coordinator may take it no further than any other.
func TestAmendPastLimits(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.Members = 3
	w.put(p)
	for _, x := range []string{"up", "up2"} {
		w.done("b", x, entry.EffectCompensable)
	}
	w.pipeline()
	w.done("c", "more", entry.EffectCompensable, "b#up", "b#up2")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.decide("k", entry.ActAuthorize, id)
	s := w.signal("b", entry.StandingExecutor, "b#pay")
	s.Since = "b#up" // with everything after it
	w.put(s)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.ScopeExceedsPolicy, "rollback_set")
	w.next()
	if w.incident(id).proposal == nil {
		t.Fatal("people are not asked")
	}
	w.put(w.answer("p1", id, "approve"))
	w.next()
	if got := w.members(id); len(got) != 5 || w.incident(id).epoch != 2 {
		t.Fatalf("members %v at epoch %d", got, w.incident(id).epoch)
	}
	w.checkAll()
}

// TestSeparationOfDuty shows who does not count as an approver (INC-5).
// Draft: INC-5a.
func TestSeparationOfDuty(t *testing.T) {
	w := newWorld(t)
	for name, role := range map[entry.Principal]entry.Role{"owner": entry.RoleAgent, "watcher": entry.RoleMonitor} {
		w.put(w.enrol("root", name, role, entry.RoleApprover))
	}
	w.pipeline()
	w.done("owner", "use", entry.EffectNone, "a#make")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.put(w.signal("watcher", entry.StandingMonitor, "a#make"))
	w.put(w.enrol("root", "late", entry.RoleApprover))
	w.at += 11 * minuteMS // decide_ms is over: an approver may propose
	w.put(w.order("p3", Order{Incident: id, Act: entry.ActEscalate}))
	for _, who := range []entry.Principal{"owner", "watcher", "late", "p3"} {
		w.refuse(w.sign(w.answer(who, id, "approve")), entry.NoStanding, "iss")
		w.refuse(w.sign(w.order(who, Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	}
	w.put(w.answer("p1", id, "approve"))
	w.put(w.order("p3", Order{Incident: id, Act: entry.ActAuthorize})) // who proposed may carry out
	w.is(id, entry.IncidentAuthorized)
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"owner#use"}})), entry.NoStanding, "iss")
	w.checkAll()
}

// TestQuorum counts principals, for the proposal in force, while their word
// and their keys hold.
// Draft: INC-5.
func TestQuorum(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Quorum.Approve = 2
	w.put(p)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	old := w.answer("p1", id, "approve")
	w.put(old)
	w.put(w.answer("p1", id, "approve")) // again: still one principal
	w.at += minuteMS
	w.decide("k", entry.ActEscalate, id) // a re-proposal voids them
	stale := w.answer("p2", id, "approve")
	stale.Proposal = old.Proposal
	w.refuse(w.sign(stale), entry.StateConflict, "proposal")
	first, second := w.put(w.answer("p1", id, "approve")), w.put(w.answer("p1", id, "approve"))
	authorize := func(approvals ...uint64) *entry.Entry {
		inc := w.incident(id)
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		*d.Pin, *d.Signals, d.RollbackSet.Head, d.Approvals = inc.proposal.pin, inc.proposal.signals, inc.proposal.rollbackSet, approvals
		return w.sign(d)
	}
	w.refuse(authorize(second.Index), entry.StateConflict, "approvals") // one of two
	w.refuse(authorize(first.Index, second.Index), entry.StateConflict, "approvals")
	w.refuse(authorize(second.Index, second.Index), entry.StateConflict, "approvals")
	third := w.put(w.answer("p2", id, "approve"))
	w.put(w.answer("p2", id, "refuse")) // changes its mind
	w.refuse(authorize(second.Index, third.Index), entry.StateConflict, "approvals")
	short := w.answer("p2", id, "approve")
	short.Exp = w.at/1000 + 60
	expired := w.put(short)
	w.at += 2 * minuteMS
	w.refuse(authorize(second.Index, expired.Index), entry.StateConflict, "approvals")
	good := w.put(w.answer("p3", id, "approve"))
	w.put(w.signal("b", entry.StandingExecutor, "b#pay")) // later signals do not void what was approved
	must(t, w.admit(authorize(second.Index, good.Index)))
	w.is(id, entry.IncidentAuthorized)
	w.checkAll()
}

// TestApprovalsAreUsedOnce takes an approval to another plan and another
// incident.
// Draft: INC-5b.
func TestApprovalsAreUsedOnce(t *testing.T) {
	w, id := escalated(t)
	w.done("b", "other", entry.EffectIrrevocable)
	second := w.put(w.signal("b", entry.StandingExecutor, "b#other")).Index
	w.decide("k", entry.ActEscalate, second)
	approval := w.put(w.answer("p1", id, "approve"))
	d := w.order("k", Order{Incident: second, Act: entry.ActAuthorize})
	inc := w.incident(second)
	*d.Pin, *d.Signals, d.RollbackSet.Head, d.Approvals = inc.proposal.pin, inc.proposal.signals, inc.proposal.rollbackSet, []uint64{approval.Index}
	w.refuse(w.sign(d), entry.StateConflict, "approvals")
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.decide("k", entry.ActEscalate, id) // a superset, that nobody has approved
	amend := w.order("k", Order{Incident: id, Act: entry.ActAmend})
	inc = w.incident(id)
	*amend.Pin, *amend.Signals, amend.RollbackSet.Head, amend.Approvals = inc.proposal.pin, inc.proposal.signals, inc.proposal.rollbackSet, []uint64{approval.Index}
	w.refuse(w.sign(amend), entry.StateConflict, "approvals")
	w.checkAll()
}

// TestRefusalsDeny shows that the coordinator denies when a quorum has become
// impossible, and not before.
func TestRefusalsDeny(t *testing.T) {
	w, id := escalated(t)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act")
	w.put(w.answer("p1", id, "refuse"))
	w.put(w.answer("p2", id, "refuse"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act")
	w.put(w.answer("p3", id, "refuse"))
	w.next()
	w.is(id, entry.IncidentDismissed)
	w.checkAll()
}

// TestSilenceDenies shows that nobody's answer is a no.
func TestSilenceDenies(t *testing.T) {
	w, id := escalated(t)
	for _, until := range []int64{w.at + 5*minuteMS, w.at + hourMS} { // whether the plan has changed; whether nobody answered
		if todo, wake := w.state.Next(w.at); len(todo) != 0 || wake != until {
			t.Fatalf("%d entries, wakes in %d", len(todo), wake-w.at)
		}
		w.at = until
	}
	w.next()
	w.is(id, entry.IncidentDismissed)
	w.put(w.exec("a", "x")) // the fences of the proposal are gone
	w.put(w.exec("c", "y", "b#note"))
	w.checkAll()
}

// TestDenyDisposesOfAll refuses a deny that leaves a signal out.
func TestDenyDisposesOfAll(t *testing.T) {
	w, id := escalated(t)
	w.put(w.signal("b", entry.StandingExecutor, "b#pay"))
	d := w.order("p1", Order{Incident: id, Act: entry.ActDeny})
	all := d.Dispositions
	d.Dispositions = all[:1]
	w.refuse(w.sign(d), entry.StateConflict, "dispositions")
	d.Dispositions = append(slices.Clone(all), entry.Disposition{Index: 1, Disposition: entry.Inconclusive})
	w.refuse(w.sign(d), entry.StateConflict, "dispositions")
	d.Dispositions = all
	w.put(d)
	w.is(id, entry.IncidentDismissed)
	w.checkAll()
}

// TestSignalersMayEscalate gives the signaler its turn after decide_ms, once.
func TestSignalersMayEscalate(t *testing.T) {
	w, id := reported(t)
	w.refuse(w.sign(w.order("a", Order{Incident: id, Act: entry.ActEscalate})), entry.StateConflict, "act")
	w.at += 10 * minuteMS
	w.refuse(w.sign(w.order("b", Order{Incident: id, Act: entry.ActEscalate})), entry.NoStanding, "iss")
	short := w.order("a", Order{Incident: id, Act: entry.ActEscalate, Exp: w.at/1000 + 3599})
	w.refuse(w.sign(short), entry.StateConflict, "exp")
	w.decide("a", entry.ActEscalate, id)
	w.put(w.exec("a", "free")) // it fences only what was fenced
	w.refuse(w.sign(w.order("a", Order{Incident: id, Act: entry.ActEscalate})), entry.StateConflict, "act")
	w.checkAll()
}
