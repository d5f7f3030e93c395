package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// approved is escalated with an approval, and what carries it out by hand.
func approved(t *testing.T) (w *world, id uint64, authorize func(spoil func(d *entry.Decision)) *entry.Entry) {
	t.Helper()
	w, id = escalated(t)
	approval := w.put(w.answer("p1", id, "approve")).Index
	return w, id, func(spoil func(d *entry.Decision)) *entry.Entry {
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		d.Approvals = []uint64{approval}
		spoil(d)
		return w.sign(d)
	}
}

// TestApprovedIsWhatIsAuthorized takes an approval to a plan that is right, but
// not what was approved: of other signals, or of another pin, or with a verdict on
// a signal that nobody proposed.
// Draft: SCO-5a.
func TestApprovedIsWhatIsAuthorized(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	more := w.put(w.signal("m", entry.StandingMonitor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	approval := w.put(w.answer("p1", id, "approve")).Index
	unbelieved := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	unbelieved.Dismissed = []entry.Dismissal{{Index: more, Reason: "nobody proposed that"}}
	w.refuse(w.sign(unbelieved), entry.ScopeMismatch, "rollback_set")

	later := func() *entry.Decision {
		d := w.order("k", Order{Incident: id, Act: entry.ActEscalate})
		d.Act, d.Epoch, d.Approvals = entry.ActAuthorize, w.incident(id).epoch, []uint64{approval}
		d.DeadlineAt = w.at + hourMS
		d.Exp = d.DeadlineAt / 1000
		return d
	}
	w.refuse(w.sign(later()), entry.ScopeMismatch, "rollback_set") // another pin alone
	w.put(w.signal("b", entry.StandingDownstream, "a#make"))
	w.refuse(w.sign(later()), entry.ScopeMismatch, "rollback_set") // one more signal
	w.put(w.order("p2", Order{Incident: id, Act: entry.ActAuthorize}))
	w.is(id, entry.IncidentAuthorized)
	w.checkAll()

	w, id = reported(t)
	w.at += 10 * minuteMS
	w.decide("a", entry.ActEscalate, id) // a signaler's proposal fences nothing
	w.put(w.answer("p1", id, "approve"))
	w.done("c", "late", entry.EffectNone, "a#make") // and so the plan grows
	grown, p := w.order("k", Order{Incident: id, Act: entry.ActAuthorize}), w.incident(id).proposal
	if *grown.Pin = p.pin; *grown.Signals != p.signals || grown.RollbackSet.Head == p.rollbackSet || len(grown.Approvals) != 1 {
		t.Fatalf("not the members alone differ: %+v", grown)
	}
	w.refuse(w.sign(grown), entry.ScopeMismatch, "rollback_set")
	w.checkAll()
}

// TestApprovedAmendRestsOnItsSignals has people approve an amend that takes up a
// second incident inside the plan in force, and dismiss that incident before the
// amend: the members are the same, but not the signals that were approved.
func TestApprovedAmendRestsOnItsSignals(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	older := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	younger := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	w.decide("k", entry.ActAuthorize, older)
	w.decide("k", entry.ActEscalate, older)
	w.put(w.answer("p1", older, "approve"))
	w.decide("p2", entry.ActDeny, younger)
	amend := w.order("k", Order{Incident: older, Act: entry.ActAmend})
	if p := w.incident(older).proposal; amend.RollbackSet.Head != p.rollbackSet || *amend.Pin != p.pin || *amend.Signals == p.signals || len(amend.Approvals) != 1 {
		t.Fatalf("not the signals alone differ: %+v", amend)
	}
	w.refuse(w.sign(amend), entry.ScopeMismatch, "rollback_set")
	w.checkAll()
}

// TestApprovalEndsWithItsGround shows what makes an approval count no more: its
// key is revoked, its principal signals, the proposal is over.
func TestApprovalEndsWithItsGround(t *testing.T) {
	t.Run("revoked", func(t *testing.T) {
		w, id, authorize := approved(t)
		r := w.enrol("root", "p1", entry.RoleApprover)
		r.Op = entry.Revoke
		w.put(r)
		w.refuse(authorize(func(d *entry.Decision) {
			p := w.incident(id).proposal
			*d.Pin, *d.Signals, d.RollbackSet.Head = p.pin, p.signals, p.rollbackSet
		}), entry.StateConflict, "approvals")
		w.checkAll()
	})
	t.Run("signals", func(t *testing.T) {
		w := newWorld(t)
		w.put(w.enrol("root", "watcher", entry.RoleMonitor, entry.RoleApprover))
		w.pipeline()
		id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("watcher", id, "approve"))
		drafted := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		w.put(w.signal("watcher", entry.StandingMonitor, "a#make"))
		w.refuse(w.sign(drafted), entry.StateConflict, "approvals")
		w.refuse(w.sign(w.answer("watcher", id, "approve")), entry.NoStanding, "iss")
		w.checkAll()
	})
	t.Run("proposal expired", func(t *testing.T) {
		w, id := escalated(t)
		answer := w.answer("p1", id, "approve")
		answer.Exp = w.at/1000 + 24*3600
		w.put(answer)
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		w.at = w.incident(id).proposal.exp
		d.Iat = w.at / 1000
		w.refuse(w.sign(d), entry.StateConflict, "approvals")
		w.refuse(w.sign(w.answer("p2", id, "approve")), entry.StateConflict, "proposal")
		w.checkAll()
	})
	t.Run("approval expired", func(t *testing.T) {
		w, id := escalated(t)
		answer := w.answer("p1", id, "approve")
		answer.Exp = w.at/1000 + 60
		w.put(answer)
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		w.at = answer.Exp * 1000
		d.Iat = w.at / 1000
		w.refuse(w.sign(d), entry.StateConflict, "approvals")
		w.at--
		must(t, w.admit(w.sign(d)))
		w.checkAll()
	})
	t.Run("kept", func(t *testing.T) {
		w, id, authorize := approved(t)
		if of := w.state.IncidentsOf("p1", 0, 2, w.at); len(of) != 1 || of[0].ID != id {
			t.Errorf("p1 has to do with %+v", of)
		}
		must(t, w.admit(authorize(func(*entry.Decision) {})))
		w.is(id, entry.IncidentAuthorized)
		w.checkAll()
	})
}

// TestApprovalNamesTheProposal refuses an answer to the right place with other
// bytes, and one before anything is proposed.
func TestApprovalNamesTheProposal(t *testing.T) {
	w, id := reported(t)
	w.refuse(w.sign(w.answer("p1", id, "approve")), entry.StateConflict, "incident")
	w, id = escalated(t)
	other := w.answer("p1", id, "approve")
	other.Proposal.LeafHash[0] ^= 1
	w.refuse(w.sign(other), entry.UnknownSubject, "proposal")
	w.checkAll()
}

// TestOwnersOfPlansDoNotCount has somebody who owns a member, but no subject, vote
// to stop an incident in force, and answer a proposal that fences nothing.
func TestOwnersOfPlansDoNotCount(t *testing.T) {
	world := func() *world {
		w := newWorld(t)
		w.put(w.enrol("root", "owner", entry.RoleAgent, entry.RoleApprover))
		w.pipeline()
		w.done("owner", "use", entry.EffectNone, "a#make")
		return w
	}
	w := world()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActOverride})), entry.NoStanding, "iss")
	w.checkAll()

	w = world()
	id = w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.at += 10 * minuteMS
	w.decide("a", entry.ActEscalate, id) // a signaler's proposal fences nothing new
	w.refuse(w.sign(w.answer("owner", id, "approve")), entry.NoStanding, "iss")
	w.checkAll()
}

// TestWhoCouldStillApprove denies for refusals only when those who have not
// refused are too few, whether they have written anything or not; and lets nobody
// but the coordinator say so who could not deny otherwise.
func TestWhoCouldStillApprove(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Quorum.Approve = 2
	w.put(p)
	w.put(w.enrol("root", "owner", entry.RoleAgent, entry.RoleApprover))
	w.pipeline()
	w.done("owner", "use", entry.EffectNone, "a#make")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.put(w.answer("p2", id, "refuse"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act") // p1 and p3 are two
	w.put(w.answer("p3", id, "refuse"))
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	w.decide("k", entry.ActDeny, id)
	w.is(id, entry.IncidentDismissed)
	w.checkAll()
}

// TestRefusalsAgainstAQuorum has the coordinator deny because of refusals: it may
// where somebody refused, and those who could still approve are too few.
func TestRefusalsAgainstAQuorum(t *testing.T) {
	revoke := func(w *world) {
		r := w.enrol("root", "p3", entry.RoleApprover)
		r.Op = entry.Revoke
		w.put(r)
	}
	for name, in := range map[string]struct {
		quorum   int64
		keys     []string // more keys of p1
		answers  []string // by p1, p2, p3: all of them have written something
		after    func(w *world)
		possible bool
	}{
		"all must approve, one refuses":      {quorum: 3, answers: []string{"approve", "refuse", "approve"}},
		"two must approve, one refuses":      {quorum: 2, answers: []string{"approve", "refuse", "approve"}, possible: true},
		"two must approve, one has two keys": {quorum: 2, keys: []string{"p1 again"}, answers: []string{"approve", "refuse", "refuse"}},
		"too few are left, nobody refuses":   {quorum: 3, answers: []string{"approve", "approve", "approve"}, after: revoke, possible: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.nextPolicy()
			p.Quorum.Approve = in.quorum
			w.put(p)
			for _, seed := range in.keys {
				more := w.enrol("root", "p1", entry.RoleApprover)
				more.Key = public(t, seed)
				w.put(more)
			}
			w.pipeline()
			id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
			w.decide("k", entry.ActEscalate, id)
			for i, verdict := range in.answers {
				w.put(w.answer([]entry.Principal{"p1", "p2", "p3"}[i], id, verdict))
			}
			if in.after != nil {
				in.after(w)
			}
			deny := w.order("k", Order{Incident: id, Act: entry.ActDeny})
			if in.possible {
				w.refuse(w.sign(deny), entry.StateConflict, "act")
			} else {
				must(t, w.admit(w.sign(deny)))
			}
			w.checkAll()
		})
	}
}

// TestNewApproversAreNobodyElse has approvers decide who have written nothing before,
// where the first of all principals may not: it signaled, it owns a member, it refused,
// or it has voted already.
func TestNewApproversAreNobodyElse(t *testing.T) {
	first := func() *world {
		w := newWorld(t)
		e := w.enrol("root", "root", entry.RoleAgent, entry.RoleMonitor, entry.RoleApprover)
		e.Key = public(t, "root as an agent")
		w.put(e)
		w.keys["root"] = "root as an agent"
		w.pipeline()
		return w
	}
	w := first()
	id := w.put(w.signal("root", entry.StandingMonitor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	w.refuse(w.sign(w.answer("root", id, "approve")), entry.NoStanding, "iss")
	w.put(w.answer("p1", id, "approve"))
	w.checkAll()

	w = first()
	w.done("root", "use", entry.EffectNone, "a#make")
	id = w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.refuse(w.sign(w.order("root", Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	w.decide("p1", entry.ActDeny, id)
	w.is(id, entry.IncidentDismissed)
	w.checkAll()

	w = first()
	id = w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("root", id, "refuse"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActDeny})), entry.StateConflict, "act")
	w.checkAll()

	w = first()
	id = w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.decide("root", entry.ActOverride, id)
	w.refuse(w.sign(w.order("root", Order{Incident: id, Act: entry.ActOverride})), entry.StateConflict, "iss")
	w.decide("p1", entry.ActOverride, id)
	if w.incident(id).current.override == 0 {
		t.Error("two approvers have not overridden it")
	}
	w.checkAll()
}

// TestOwnersOfWhatIsNotProposedDoNotCount has a proposal leave a signal out: who owns
// what that signal is about, or what a fence from before still holds, does not answer.
func TestOwnersOfWhatIsNotProposedDoNotCount(t *testing.T) {
	for _, in := range []struct {
		subject  entry.Ref
		proposer entry.Principal
	}{{"owner#x", "k"}, {"a#x", "b"}} { // the coordinator's proposal replaces the fence
		w, subject := newWorld(t), in.subject
		w.put(w.enrol("root", "owner", entry.RoleAgent, entry.RoleApprover))
		if subject == "owner#x" {
			w.done("owner", "x", entry.EffectNone)
		} else {
			w.done("a", "x", entry.EffectNone)
			w.done("owner", "z", entry.EffectNone, subject)
		}
		w.done("b", "y", entry.EffectNone, subject)
		left := w.put(w.signal("m", entry.StandingMonitor, subject)).Index
		w.decide("k", entry.ActContain, left)
		w.put(w.signal("b", entry.StandingExecutor, "b#y"))
		w.at += 10 * minuteMS
		w.put(w.order(in.proposer, Order{Incident: left, Act: entry.ActEscalate, Dismissed: []entry.Dismissal{{Index: left, Reason: "not believed"}}}))
		if p := w.incident(left).proposal; len(p.members) != 1 {
			t.Fatalf("proposed are %v", p.members)
		}
		w.refuse(w.sign(w.answer("owner", left, "approve")), entry.NoStanding, "iss")
		w.put(w.answer("p1", left, "approve"))
		w.checkAll()
	}
}

// TestReleaseIsOfMembers releases what is there, in the plan and settled, by an
// approver, in an incident in force or after.
func TestReleaseIsOfMembers(t *testing.T) {
	w, id := chain(t)
	release := func(iss entry.Principal, exec entry.Ref) *entry.Entry {
		return w.sign(w.order(iss, Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{exec}}))
	}
	w.done("b", "apart", entry.EffectNone)
	w.refuse(release("p1", "b#nothing"), entry.UnknownSubject, "members")
	w.refuse(release("p1", "b#apart"), entry.UnknownSubject, "members")
	w.refuse(release("p1", "c#3"), entry.StateConflict, "members")
	w.compensate(id, "c#3")
	for _, iss := range []entry.Principal{"k", "o", "a"} {
		w.refuse(release(iss, "c#3"), entry.UnauthorizedRole, "iss")
	}
	w.refuse(w.sign(w.exec("a", "more", "c#3")), entry.FencedDependency, "parents[0].exec")
	must(t, w.admit(release("p1", "c#3")))
	w.put(w.exec("a", "more", "c#3"))
	w.checkAll()
}
