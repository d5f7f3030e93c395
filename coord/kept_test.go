package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestFencesEndAsWritten replaces a fence by a smaller one, and lifts those of a
// plan in force by an outcome and by a release (INC-4).
// Draft: INC-4d.
func TestFencesEndAsWritten(t *testing.T) {
	t.Run("replaced", func(t *testing.T) {
		w, id := reported(t)
		waiting := w.planned("a", "waiting", entry.EffectReversible)
		w.decide("k", entry.ActContain, id)
		w.put(w.signal("b", entry.StandingExecutor, "b#pay"))
		w.refuse(w.sign(w.exec("b", "x", "a#make")), entry.FencedDependency, "parents[0].exec")
		w.refuse(w.sign(w.exec("a", "x")), entry.FencedDependency, "exec")
		w.refuse(w.sign(w.step(waiting, entry.Started)), entry.FencedDependency, "progress") // no member, but on the line
		w.put(w.order("k", Order{Incident: id, Act: entry.ActContain, Dismissed: []entry.Dismissal{{Index: id, Reason: "no"}}}))
		w.refuse(w.sign(w.exec("b", "x", "b#pay")), entry.FencedDependency, "parents[0].exec")
		w.put(w.exec("b", "x", "a#make"))
		w.put(w.exec("a", "x"))
		w.put(w.step(waiting, entry.Started))
		w.checkAll()
	})
	t.Run("not executed after all", func(t *testing.T) {
		w := newWorld(t)
		w.put(w.checkpoint("a", "cp", ""))
		x := w.flying("a", "busy", entry.EffectReversible)
		id := w.put(w.signal("m", entry.StandingMonitor, "a#busy")).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		w.put(w.step(x, entry.Cancelled))
		w.refuse(w.sign(w.exec("a", "next")), entry.FencedDependency, "exec")
		w.put(w.outcome("a", id, "a#busy", entry.NotExecuted))
		w.put(w.exec("a", "next"))
		w.checkAll()
	})
	t.Run("released", func(t *testing.T) {
		w, id := reported(t)
		failing := w.planned("b", "failing", entry.EffectIrrevocable, "a#make")
		w.decide("k", entry.ActAuthorize, id)
		w.put(w.step(failing, entry.Failed)) // it never began
		w.put(w.outcome("a", id, "a#make", entry.Restored))
		w.put(w.outcome("a", id, "a#make", entry.ResultFailed))
		w.refuse(w.sign(w.exec("a", "next")), entry.FencedDependency, "exec")
		w.put(w.order("p1", Order{Incident: id, Act: entry.ActRelease, Members: []entry.Ref{"a#make"}}))
		w.put(w.exec("a", "next"))
		w.checkAll()
	})
}

// TestRecordsSayWhatTheLogDoes spoils each member of a record, and writes one too
// early.
// Draft: REC-1.
func TestRecordsSayWhatTheLogDoes(t *testing.T) {
	w, id := reported(t)
	w.decide("k", entry.ActAuthorize, id)
	record := func(spoil func(r *entry.Record)) *entry.Entry {
		r, err := w.state.DraftRecord(id)
		must(t, err)
		delete(r.Tally, "")
		w.head("k", r)
		spoil(r)
		return w.sign(r)
	}
	w.put(w.outcome("a", id, "a#make", entry.Restored))
	w.refuse(record(func(r *entry.Record) { r.State = "PARTIAL" }), entry.StateConflict, "tally") // b#pay has no outcome
	w.compensate(id, "b#pay")
	for _, c := range []struct {
		field string
		spoil func(r *entry.Record)
	}{
		{"decision", func(r *entry.Record) { r.Decision = w.state.logRef(id) }},
		{"state", func(r *entry.Record) { r.State = "PARTIAL" }},
		{"tally", func(r *entry.Record) { r.Tally[entry.Restored]++ }},
		{"tally", func(r *entry.Record) { delete(r.Tally, entry.Compensated) }},
		{"unresolved", func(r *entry.Record) { r.Unresolved.Size = 1 }},
		{"unresolved", func(r *entry.Record) { r.Unresolved.Root[0] ^= 1 }},
		{"review", func(r *entry.Record) { r.Review = 0 }},
		{"dispositions", func(r *entry.Record) { r.Dispositions = r.Dispositions[:0] }},
		{"dispositions[0].disposition", func(r *entry.Record) { r.Dispositions[0].Disposition = "dismissed" }},
	} {
		w.refuse(record(c.spoil), entry.StateConflict, c.field)
	}
	must(t, w.admit(record(func(*entry.Record) {})))
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestVerdicts is the state that outcomes make, where nothing has an effect to
// undo: FAILED if nothing ended well, PARTIAL if something did.
func TestVerdicts(t *testing.T) {
	for done, want := range map[bool]entry.IncidentState{false: entry.IncidentFailed, true: entry.IncidentPartial} {
		w := newWorld(t)
		seed := w.planned("b", "plan", entry.EffectCompensable)
		if done {
			w.put(w.step(w.exec("c", "seen", seed.Ref()), entry.Confirmed))
		}
		id := w.put(w.signal("m", entry.StandingMonitor, "b#plan")).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		w.put(w.outcome("b", id, "b#plan", entry.ResultFailed))
		w.next()
		w.is(id, want)
		w.checkAll()
	}
}

// TestCompensationsAreOfThePlan refuses the start of a compensation of what the
// plan does not have, has otherwise, or has done.
func TestCompensationsAreOfThePlan(t *testing.T) {
	w, id := reported(t)
	w.done("b", "apart", entry.EffectCompensable)
	w.decide("k", entry.ActAuthorize, id)
	for _, exec := range []entry.Ref{"b#apart", "b#note", "a#make"} {
		w.refuse(w.sign(w.compensation(id, exec)), entry.StateConflict, "compensates.exec")
	}
	x := w.compensation(id, "b#pay")
	w.put(x)
	w.put(w.signal("b", entry.StandingExecutor, "b#apart"))
	x = w.step(x, entry.Started)
	named := *x.Compensates
	named.Incident = w.state.Size() - 1
	x.Compensates = &named
	w.refuse(w.sign(x), entry.StateConflict, "compensates") // of another incident
	named.Incident = id
	w.put(x)
	w.put(w.step(x, entry.Confirmed))
	w.put(w.outcome("b", id, "b#pay", entry.Compensated))
	again := w.compensation(id, "b#pay")
	again.Exec = "again"
	w.refuse(w.sign(again), entry.StateConflict, "compensates.exec")
	w.checkAll()
}

// TestSignalsSupersedeTheirOwn names signals that are none of the issuer's about
// the subject, and after a record another than the one that opened the incident.
func TestSignalsSupersedeTheirOwn(t *testing.T) {
	w, id := reported(t)
	w.done("a", "other", entry.EffectNone)
	other := w.put(w.signal("a", entry.StandingExecutor, "a#other"))
	opening := w.state.logRef(id)
	for _, c := range []struct {
		iss      entry.Principal
		standing entry.Standing
		ref      entry.LogRef
	}{
		{"b", entry.StandingDownstream, opening}, {"a", entry.StandingExecutor, other},
		{"a", entry.StandingExecutor, w.state.logRef(0)}, {"a", entry.StandingExecutor, entry.LogRef{Index: id, LeafHash: other.LeafHash}},
	} {
		s := w.signal(c.iss, c.standing, "a#make")
		s.Supersedes = &c.ref
		w.refuse(w.sign(s), entry.UnknownSubject, "supersedes")
	}
	s := w.signal("a", entry.StandingExecutor, "a#make")
	s.Supersedes = &opening
	second := w.put(s)
	w.decide("k", entry.ActAuthorize, id)
	w.finish(id, entry.ResultFailed)
	w.next()
	w.is(id, entry.IncidentPartial)
	s = w.signal("a", entry.StandingExecutor, "a#make")
	s.Supersedes = &second // its own, and not the opening
	w.refuse(w.sign(s), entry.StateConflict, "supersedes")
	w.put(w.signal("a", entry.StandingExecutor, "a#make"))
	w.checkAll()
}

// TestEdgesBeforeTheEnd lets those count who signal while the subject runs (INC-2).
func TestEdgesBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	x := w.flying("a", "run", entry.EffectCompensable)
	w.put(w.exec("b", "use", "a#run"))
	w.put(w.exec("c", "use", "a#run"))
	id := w.put(w.signal("b", entry.StandingDownstream, "a#run")).Index
	w.put(w.signal("c", entry.StandingDownstream, "a#run"))
	w.put(w.step(x, entry.Confirmed))
	w.decide("k", entry.ActAuthorize, id)
	w.is(id, entry.IncidentAuthorized)
	w.checkAll()
}

// TestVoidForEver has a checkpoint that was passed over when its line went back:
// it holds what came before the restore, and is never gone back to, even once it
// would last long enough; nor is there one after what was compensated (SCO-2,
// CHK-1).
func TestVoidForEver(t *testing.T) {
	w := newWorld(t)
	w.put(w.checkpoint("a", "old", ""))
	brief := w.checkpoint("a", "brief", "")
	brief.ExpiresAt = w.at + hourMS
	w.put(brief)
	w.done("a", "one", entry.EffectReversible)
	back := func(subject entry.Ref) {
		t.Helper()
		id := w.put(w.signal("a", entry.StandingExecutor, subject)).Index
		w.decide("k", entry.ActAuthorize, id)
		m, _ := w.incident(id).current.find(w.state.mustResolve(w.state.executions.names, subject))
		if got := w.state.ref(w.state.checkpoints.names, m.checkpoint-1); got != "a#old" {
			t.Errorf("%s goes back to %s", subject, got)
		}
		w.put(w.outcome("a", id, subject, entry.Restored))
	}
	back("a#one")
	p := w.nextPolicy()
	p.Windows.DeadlineMaxMS = minuteMS
	w.put(p)
	w.done("a", "two", entry.EffectReversible)
	back("a#two")
	w.checkAll()

	w, id := chain(t)
	w.compensate(id, "c#3")
	w.refuse(w.sign(w.checkpoint("c", "cp", "c#3")), entry.StateConflict, "after")
	w.checkAll()
}

// TestWhoFencesMoreThanAnEdge contains for a monitor without evidence, and for as
// many third parties as may speak together (section 8).
// Draft: INC-4f.
func TestWhoFencesMoreThanAnEdge(t *testing.T) {
	for _, signalers := range [][]entry.Principal{{"m"}, {"b", "c"}, {"b"}} {
		w := newWorld(t)
		x := w.flying("a", "run", entry.EffectCompensable)
		w.done("b", "use", entry.EffectNone, "a#run")
		w.done("c", "use", entry.EffectNone, "a#run")
		w.done("a", "far", entry.EffectNone, "c#use")
		w.put(w.step(x, entry.Confirmed))
		for _, iss := range signalers {
			standing := entry.StandingDownstream
			if iss == "m" {
				standing = entry.StandingMonitor
			}
			w.put(w.signal(iss, standing, "a#run"))
		}
		w.decide("k", entry.ActContain, w.state.incidents[0].opened)
		whole := signalers[0] == "m" || len(signalers) > 1
		if err := w.admit(w.sign(w.exec("b", "more", "a#far"))); (err != nil) != whole {
			t.Errorf("%v: %v", signalers, err)
		}
		w.refuse(w.sign(w.exec("b", "more2", "a#run")), entry.FencedDependency, "parents[0].exec")
		w.checkAll()
	}
}
