package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// chain registers compensable executions that depend on each other: a#1 → b#2 →
// c#3, and puts their rollback in force.
func chain(t *testing.T) (w *world, id uint64) {
	t.Helper()
	w = newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	w.done("c", "3", entry.EffectCompensable, "b#2")
	id = w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, id)
	return w, id
}

// TestOrderOfCompensations shows that what depends on others is compensated
// before them (INC-7, EXE-4).
// Draft: INC-7a.
func TestOrderOfCompensations(t *testing.T) {
	w, id := chain(t)
	for _, early := range []entry.Ref{"a#1", "b#2"} {
		w.refuse(w.sign(w.compensation(id, early)), entry.StateConflict, "compensates.exec")
	}
	w.compensate(id, "c#3")
	w.refuse(w.sign(w.compensation(id, "a#1")), entry.StateConflict, "compensates.exec")
	failed := w.compensation(id, "b#2")
	w.put(failed)
	w.put(w.step(failed, entry.Started))
	w.put(w.step(failed, entry.Failed))
	w.refuse(w.sign(w.outcome("b", id, "b#2", entry.Compensated)), entry.StateConflict, "comp_exec")
	w.put(w.outcome("b", id, "b#2", entry.ResultFailed)) // releases the next
	w.compensate(id, "a#1")
	w.next()
	w.is(id, entry.IncidentPartial)
	again := w.compensation(id, "b#2")
	again.Exec = "2.undo.1"
	w.refuse(w.sign(again), entry.StateConflict, "compensates")
	w.checkAll()
}

// TestCompensationRules shows EXE-4: under the decision in force, unexpired, and
// no business of signals, fences and plans.
// Draft: EXE-4a.
func TestCompensationRules(t *testing.T) {
	w, id := chain(t)
	x := w.compensation(id, "c#3")
	x.Compensates.Decision = w.state.logRef(id)
	w.refuse(w.sign(x), entry.StateConflict, "compensates.decision")
	x = w.compensation(id, "c#3")
	x.Compensates.Incident = 1
	w.refuse(w.sign(x), entry.UnknownSubject, "compensates.incident")
	x = w.compensation(id, "c#3")
	w.put(x)
	w.put(w.step(x, entry.Started))
	other := w.step(x, entry.Confirmed)
	other.Compensates = &entry.Compensates{Incident: id, Decision: x.Compensates.Decision, Exec: "b#2"}
	w.refuse(w.sign(other), entry.StateConflict, "compensates")
	w.refuse(w.sign(w.signal("c", entry.StandingExecutor, x.Ref())), entry.StateConflict, "subject")
	w.refuse(w.sign(w.checkpoint("c", "cp", x.Ref())), entry.StateConflict, "after")
	w.at += dayMS // the decision has expired: what was begun may end, nothing may begin
	w.put(w.step(x, entry.Confirmed))
	second := w.compensation(id, "c#3")
	second.Exec = "3.undo.1"
	w.refuse(w.sign(second), entry.StateConflict, "compensates.decision")
	w.put(w.outcome("c", id, "c#3", entry.Compensated))
	w.checkAll()
}

// TestUnknownAfterTheDeadline lets the coordinator close what nobody reports,
// one member after the other, and the agent tell the truth later.
// Draft: INC-7c.
func TestUnknownAfterTheDeadline(t *testing.T) {
	w, id := chain(t)
	deadline := w.incident(id).current.deadline
	if _, wake := w.state.Next(w.at); wake != deadline+skewMS+1 {
		t.Fatalf("wakes at %d, want %d", wake-w.at, deadline+skewMS+1-w.at)
	}
	w.at += 15*minuteMS + 1 // its time is over, but the decision is not
	w.refuse(w.sign(w.outcome("k", id, "c#3", entry.ResultUnknown)), entry.StateConflict, "exec")
	w.at = deadline + skewMS
	w.refuse(w.sign(w.outcome("k", id, "c#3", entry.ResultUnknown)), entry.StateConflict, "exec")
	w.refuse(w.sign(w.outcome("k", id, "c#3", entry.Compensated)), entry.UnauthorizedRole, "iss")
	w.at++
	if written := w.next(); len(written) < 3 {
		t.Fatalf("%d entries", len(written))
	}
	w.next()
	w.is(id, entry.IncidentFailed)
	truth := w.outcome("c", id, "c#3", entry.ResultIrrevocable)
	w.refuse(w.sign(truth), entry.StateConflict, "result") // does not fit
	w.put(w.outcome("c", id, "c#3", entry.ResultFailed))
	if u := w.state.usage[w.mustPrincipal("c")]; u.corrections != 1 {
		t.Errorf("%d corrections", u.corrections)
	}
	w.refuse(w.sign(w.outcome("k", id, "b#2", entry.ResultUnknown)), entry.StateConflict, "incident")
	w.checkAll()
}

// TestLateTruth corrects an outcome after the record: what was not undone after
// all can be a member again.
func TestLateTruth(t *testing.T) {
	w, id := chain(t)
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} {
		w.compensate(id, exec)
	}
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.refuse(w.sign(w.signal("b", entry.StandingExecutor, "b#2")), entry.StateConflict, "subject")
	without := w.outcome("b", id, "b#2", entry.ResultFailed)
	without.Supersedes = nil
	w.refuse(w.sign(without), entry.StateConflict, "supersedes")
	w.put(w.outcome("b", id, "b#2", entry.ResultFailed))
	w.refuse(w.sign(w.outcome("b", id, "b#2", entry.Refused)), entry.StateConflict, "result") // for the worse only
	w.is(id, entry.IncidentRecovered)
	for _, other := range []*entry.LogRef{nil, {Index: 1, LeafHash: w.state.logRef(1).LeafHash}, {Index: id}} { // names the incident before, by its signal
		s := w.signal("b", entry.StandingExecutor, "b#2")
		if s.Supersedes = other; other == nil {
			w.refuse(w.sign(s), entry.StateConflict, "supersedes")
			continue
		}
		w.refuse(w.sign(s), entry.UnknownSubject, "supersedes")
	}
	second := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	authorize := w.order("k", Order{Incident: second, Act: entry.ActAuthorize})
	named := w.state.logRef(id)
	authorize.Supersedes = &named
	w.refuse(w.sign(authorize), entry.StateConflict, "supersedes")
	w.decide("k", entry.ActAuthorize, second)
	if got := w.members(second); len(got) != 1 {
		t.Fatalf("members %v", got)
	}
	w.checkAll()
}

// TestOutcomesFit tries every result for every method.
// Draft: INC-6c.
func TestOutcomesFit(t *testing.T) {
	fits := map[entry.Method][]entry.Result{
		entry.MethodNone:       {},
		entry.MethodCancel:     {entry.NotExecuted, entry.ResultFailed, entry.Refused, entry.Withheld, entry.ResultUnknown},
		entry.MethodRestore:    {entry.Restored, entry.ResultFailed, entry.Refused, entry.Withheld, entry.ResultUnknown},
		entry.MethodCompensate: {entry.ResultFailed, entry.Refused, entry.Withheld, entry.ResultUnknown}, // compensated: needs its compensation
		entry.MethodResidual:   {entry.ResultIrrevocable, entry.ResultFailed, entry.Refused, entry.Withheld, entry.ResultUnknown},
	}
	execs := map[entry.Method]entry.Ref{entry.MethodNone: "b#note", entry.MethodCancel: "c#plan", entry.MethodRestore: "a#make",
		entry.MethodCompensate: "b#pay", entry.MethodResidual: "c#mail"}
	for method, exec := range execs {
		for _, r := range results {
			w := newWorld(t)
			w.pipeline()
			w.planned("c", "plan", entry.EffectIrrevocable, "a#make")
			w.done("c", "mail", entry.EffectIrrevocable, "a#make")
			id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
			w.decide("k", entry.ActEscalate, id)
			w.put(w.answer("p1", id, "approve"))
			w.next()
			if got := w.members(id)[exec]; got != method {
				t.Fatalf("%s is %s", exec, got)
			}
			agent, _ := exec.Split()
			o := w.outcome(agent, id, exec, r)
			err, want := w.admit(w.sign(o)), false
			for _, fit := range fits[method] {
				want = want || fit == r
			}
			if (err == nil) != want {
				t.Errorf("%s of %s: %v", r, method, err)
			}
		}
	}
}

// TestLateCheckpoint holds a checkpoint back until its line has gone back: what it
// says to be after still stands, but it was made of a state that does not.
// Draft: CHK-1a.
func TestLateCheckpoint(t *testing.T) {
	w := newWorld(t)
	cp := w.checkpoint("a", "first", "")
	cp.Digest = someDigest("first")
	w.put(cp)
	w.done("a", "edit", entry.EffectReversible)
	w.done("a", "mail", entry.EffectIrrevocable, "a#edit")
	late := w.sign(w.checkpoint("a", "late", "a#mail"))
	id := w.put(w.signal("a", entry.StandingExecutor, "a#edit")).Index
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	if err := w.admit(late); err != nil {
		t.Errorf("before: %v", err)
	}
	o := w.outcome("a", id, "a#edit", entry.Restored)
	o.PostDigest = someDigest("first")
	w.put(o)
	w.refuse(late, entry.StateConflict, "after")
	w.put(w.outcome("a", id, "a#mail", entry.ResultIrrevocable))
	w.refuse(late, entry.StateConflict, "after")
	w.next()
	w.refuse(late, entry.StateConflict, "after")
	w.put(w.checkpoint("a", "fresh", ""))
	w.done("a", "note", entry.EffectReversible)
	w.put(w.checkpoint("a", "new", "a#note"))
	w.checkAll()
}

// TestRestore shows that a line goes back to the very checkpoint of the plan,
// after its own drains and compensations, and that checkpoints in between are
// void for ever.
func TestRestore(t *testing.T) {
	w := newWorld(t)
	cp := w.checkpoint("a", "first", "")
	cp.Digest = someDigest("first")
	w.put(cp)
	w.done("a", "edit", entry.EffectReversible)
	w.done("a", "pay", entry.EffectCompensable, "a#edit")
	w.put(w.checkpoint("a", "tainted", "a#pay"))
	x := w.flying("a", "busy", entry.EffectReversible)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#edit")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.refuse(w.sign(w.checkpoint("a", "later", "a#nothing")), entry.UnknownSubject, "after")
	restored := func(exec entry.Ref) *entry.Outcome {
		o := w.outcome("a", id, exec, entry.Restored)
		o.PostDigest = someDigest("first")
		return o
	}
	w.refuse(w.sign(restored("a#edit")), entry.StateConflict, "exec")
	w.put(w.step(x, entry.Confirmed))
	w.refuse(w.sign(restored("a#edit")), entry.StateConflict, "exec")
	w.compensate(id, "a#pay")
	w.put(w.checkpoint("a", "between", "a#busy"))
	wrong := restored("a#edit")
	wrong.PostDigest = someDigest("tainted")
	w.refuse(w.sign(wrong), entry.StateConflict, "post_digest")
	w.put(restored("a#edit"))
	w.refuse(w.sign(w.exec("a", "next")), entry.FencedDependency, "exec") // one restore is missing
	w.put(restored("a#busy"))
	w.next()
	w.is(id, entry.IncidentRecovered)
	for _, late := range []entry.Ref{"a#edit", "a#pay", "a#busy"} { // made before, and kept until now
		w.refuse(w.sign(w.checkpoint("a", "late", late)), entry.StateConflict, "after")
	}
	w.put(w.checkpoint("a", "fresh", "")) // what was in between no longer counts (CHK-1)
	w.done("a", "edit2", entry.EffectReversible)
	second := w.put(w.signal("a", entry.StandingExecutor, "a#edit2")).Index
	w.decide("k", entry.ActAuthorize, second)
	m := w.incident(second).current.members[0]
	if got := w.state.ref(w.state.checkpoints.names, m.checkpoint-1); got != "a#fresh" {
		t.Errorf("goes back to %s", got)
	}
	w.checkAll()
}

// TestAnotherLineGoesBackAlone: a line that goes back leaves the agent's other line
// where it is, whose checkpoints are as good as they were.
func TestAnotherLineGoesBackAlone(t *testing.T) {
	w := newWorld(t)
	w.put(w.checkpoint("a", "first", ""))
	w.done("a", "note", entry.EffectReversible)
	mail := w.exec("a", "mail", "a#note")
	mail.Wid, mail.Effect, mail.IdempotencyKey = "w2", entry.EffectIrrevocable, someDigest("mail")
	w.put(mail)
	w.put(w.step(mail, entry.Started))
	w.put(w.step(mail, entry.Confirmed))
	id := w.put(w.signal("a", entry.StandingExecutor, "a#note")).Index
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.put(w.outcome("a", id, "a#mail", entry.ResultIrrevocable))
	w.put(w.outcome("a", id, "a#note", entry.Restored))
	w.next()
	w.is(id, entry.IncidentPartial)
	w.refuse(w.sign(w.checkpoint("a", "late", "a#note")), entry.StateConflict, "after")
	after := w.checkpoint("a", "other", "a#mail")
	after.Wid = "w2"
	w.put(after)
	w.checkAll()
}

// TestOverride lets an operator, or approvers together, stop an incident. An
// agent that had begun says so; the record waits for it.
// Draft: OVR-1.
func TestOverride(t *testing.T) {
	w, id := chain(t)
	x := w.compensation(id, "c#3")
	w.put(x)
	w.put(w.step(x, entry.Started))
	w.decide("p1", entry.ActOverride, id)
	if w.incident(id).current.override != 0 {
		t.Fatal("one approver overrides")
	}
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActOverride})), entry.StateConflict, "iss")
	w.decide("p2", entry.ActOverride, id)
	w.refuse(w.sign(w.order("o", Order{Incident: id, Act: entry.ActOverride})), entry.StateConflict, "act")
	for _, m := range w.incident(id).current.members {
		if m.result != entry.Withheld {
			t.Fatalf("%s is %s", w.state.refOf(m.exec), m.result)
		}
	}
	w.put(w.step(x, entry.Confirmed))
	w.put(w.outcome("c", id, "c#3", entry.Compensated))
	late := w.compensation(id, "b#2")
	w.refuse(w.sign(late), entry.StateConflict, "compensates")
	if written := w.next(); len(written) != 0 {
		t.Fatal("recorded while others may have begun")
	}
	w.at = w.incident(id).current.expMax
	w.next()
	w.is(id, entry.IncidentPartial)
	w.checkAll()
}

// TestMerge gives a signal about what leads to a plan in force: the older
// incident is amended, and only then the younger dismissed.
func TestMerge(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectCompensable)
	w.done("a", "1", entry.EffectCompensable, "a#0")
	w.done("b", "2", entry.EffectCompensable, "a#1")
	older := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActAuthorize, older)
	younger := w.put(w.signal("a", entry.StandingExecutor, "a#0")).Index
	w.refuse(w.sign(w.order("k", Order{Incident: younger, Act: entry.ActAuthorize})), entry.StateConflict, "rollback_set")
	w.refuse(w.sign(w.order("k", Order{Incident: younger, Act: entry.ActDeny})), entry.StateConflict, "act")
	w.next()
	if got := w.members(older); len(got) != 3 {
		t.Fatalf("members %v", got)
	}
	w.is(younger, entry.IncidentReported)
	must(t, w.state.Admit(w.sign(w.order("p1", Order{Incident: younger, Act: entry.ActDeny})), w.state.Size(), w.at)) // if the coordinator is silent
	w.refuse(w.sign(w.order("k", Order{Incident: younger, Act: entry.ActContain})), entry.StateConflict, "incident")
	judged := w.order("k", Order{Incident: younger, Act: entry.ActDeny})
	judged.Dispositions[0].Disposition = "dismissed"
	w.refuse(w.sign(judged), entry.StateConflict, "dispositions")
	w.next()
	w.is(younger, entry.IncidentDismissed)
	for _, exec := range []entry.Ref{"b#2", "a#1", "a#0"} {
		w.compensate(older, exec)
	}
	w.next()
	w.is(older, entry.IncidentRecovered)
	if u := w.state.usage[w.mustPrincipal("a")]; u.selfReported != 2 || u.corroborated != 0 {
		t.Errorf("verdicts %+v, want both self-reported", u.verdicts)
	}
	w.checkAll()
}

// TestStricterOfTwoPolicies shows INC-3 both ways: neither loosening nor
// tightening the policy helps an open incident.
func TestStricterOfTwoPolicies(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	tight := w.nextPolicy()
	tight.Limits.Incident.Members, tight.Quorum.Approve = 2, 2
	w.put(tight)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "rollback_set")
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	if written := w.next(); len(written) != 0 {
		t.Fatal("one approval was enough")
	}
	w.done("b", "other", entry.EffectCompensable)
	w.done("c", "next", entry.EffectCompensable, "b#other")
	w.done("c", "last", entry.EffectCompensable, "c#next")
	second := w.put(w.signal("b", entry.StandingExecutor, "b#other")).Index
	loose := w.nextPolicy()
	loose.Limits.Incident.Members = 100
	loose.Quorum.Approve = 1
	w.put(loose)
	w.refuse(w.sign(w.order("k", Order{Incident: second, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "rollback_set")
	w.decide("k", entry.ActEscalate, second)
	w.put(w.answer("p1", second, "approve"))
	w.next()
	w.is(second, entry.IncidentEscalated) // two were needed when it opened
	longer := w.nextPolicy()
	longer.Windows.DeadlineMaxMS *= 2
	w.put(longer)
	w.put(w.answer("p2", second, "approve"))
	late := w.order("k", Order{Incident: second, Act: entry.ActAuthorize})
	late.DeadlineAt = w.at + dayMS + 1
	w.refuse(w.sign(late), entry.ScopeExceedsPolicy, "deadline_at")
	w.next()
	w.is(second, entry.IncidentAuthorized)
	w.checkAll()
}

// TestLineAlone asks people before a compensable execution is undone that is in
// the plan only because its line goes back (INC-2).
func TestLineAlone(t *testing.T) {
	w := newWorld(t)
	w.put(w.checkpoint("a", "cp", ""))
	w.done("a", "edit", entry.EffectReversible)
	w.done("a", "pay", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#edit")).Index
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.next()
	w.is(id, entry.IncidentEscalated)
	w.checkAll()
}

// TestCompromisedKey voids what a key decided and approved since it was stolen
// (TRU-4): nothing begins until another key amends.
func TestCompromisedKey(t *testing.T) {
	revoke := func(w *world, who entry.Principal, since uint64, roles ...entry.Role) {
		r := w.enrol("root", who, roles...)
		r.Op, r.CompromisedSince = entry.Revoke, &entry.Compromised{Index: since}
		w.put(r)
	}
	t.Run("decision", func(t *testing.T) {
		w, id := chain(t)
		revoke(w, "k", w.incident(id).current.index, entry.RoleCoordinator)
		w.refuse(w.sign(w.compensation(id, "c#3")), entry.StateConflict, "compensates")
		w.keys["k"] = "k's second key"
		w.put(w.enrol("root", "k", entry.RoleCoordinator))
		w.next()
		if f := w.incident(id).current; len(f.decisions) != 2 || f.epoch != 1 {
			t.Fatalf("%+v", f)
		}
		w.compensate(id, "c#3")
		w.checkAll()
	})
	t.Run("started", func(t *testing.T) { // goes on, and nothing after it begins
		w, id := chain(t)
		begun := w.compensation(id, "c#3")
		w.put(begun)
		revoke(w, "k", w.incident(id).current.index, entry.RoleCoordinator)
		w.put(w.step(begun, entry.Started))
		w.put(w.step(begun, entry.Confirmed))
		w.put(w.outcome("c", id, "c#3", entry.Compensated))
		w.refuse(w.sign(w.compensation(id, "b#2")), entry.StateConflict, "compensates")
		w.keys["k"] = "k's second key"
		w.put(w.enrol("root", "k", entry.RoleCoordinator))
		w.next()
		w.compensate(id, "b#2")
		w.compensate(id, "a#1")
		w.next()
		w.is(id, entry.IncidentRecovered)
		w.checkAll()
	})
	t.Run("before it was stolen", func(t *testing.T) {
		w, id := chain(t)
		revoke(w, "k", w.state.Size(), entry.RoleCoordinator)
		w.compensate(id, "c#3")
		w.checkAll()
	})
	t.Run("fence", func(t *testing.T) {
		w, id := reported(t)
		since := w.decide("k", entry.ActContain, id).Index
		w.refuse(w.sign(w.exec("a", "x")), entry.FencedDependency, "exec")
		revoke(w, "k", since, entry.RoleCoordinator)
		w.put(w.exec("a", "x"))
		w.checkAll()
	})
	t.Run("approval", func(t *testing.T) {
		w, id := escalated(t)
		since := w.put(w.answer("p1", id, "approve")).Index
		revoke(w, "p1", since, entry.RoleApprover)
		if written := w.next(); len(written) != 0 {
			t.Fatal("a void approval counts")
		}
		w.put(w.answer("p2", id, "approve"))
		w.next()
		w.is(id, entry.IncidentAuthorized)
		w.checkAll()
	})
	t.Run("proposal", func(t *testing.T) {
		w, id := escalated(t)
		w.put(w.answer("p1", id, "approve"))
		revoke(w, "k", id, entry.RoleCoordinator)
		w.keys["k"] = "k's second key"
		w.put(w.enrol("root", "k", entry.RoleCoordinator))
		w.next()
		w.is(id, entry.IncidentEscalated)
		if p := w.incident(id).proposal; len(p.approvals) != 0 {
			t.Fatal("approvals of a void proposal count")
		}
		w.checkAll()
	})
}
