package coord

import (
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestFences shows INC-4: at once with contain, over at its exp, lifted by a
// dismissal; kept from authorize on.
// Draft: INC-4a.
func TestFences(t *testing.T) {
	w, id := reported(t)
	waiting := w.planned("b", "waiting", entry.EffectIrrevocable, "a#make")
	w.put(w.exec("c", "early", "b#note"))
	flying := w.flying("a", "flying", entry.EffectReversible)
	d := w.order("k", Order{Incident: id, Act: entry.ActContain, Exp: w.at/1000 + 600})
	w.put(d)
	soft := w.exec("c", "x", "a#make")
	soft.Parents[0].Dep = entry.Soft
	w.refuse(w.sign(soft), entry.FencedDependency, "parents[0].exec")
	w.refuse(w.sign(w.exec("a", "x")), entry.FencedDependency, "exec")
	w.refuse(w.sign(w.step(waiting, entry.Started)), entry.FencedDependency, "progress")
	w.put(w.step(flying, entry.Confirmed)) // what was started may end
	w.put(w.exec("b", "free"))             // its line goes nowhere
	other := w.exec("a", "other workflow")
	other.Exec, other.Wid = "elsewhere", "w2"
	w.put(other)
	w.at = d.Exp * 1000
	w.put(w.exec("c", "x", "a#make"))
	w.put(w.exec("a", "x"))
	w.decide("k", entry.ActContain, id)
	w.refuse(w.sign(w.exec("a", "y")), entry.FencedDependency, "exec")
	w.decide("p1", entry.ActDeny, id)
	w.put(w.exec("a", "y"))
	w.put(w.step(waiting, entry.Started))
	w.checkAll()
}

// TestCancelledBehindFence lets an agent give up what is fenced, and nothing
// else.
// Draft: INC-4b.
func TestCancelledBehindFence(t *testing.T) {
	w, id := reported(t)
	x := w.planned("b", "waiting", entry.EffectNone, "a#make")
	y := w.planned("b", "hoping", entry.EffectNone, "a#make")
	w.decide("k", entry.ActAuthorize, id)
	w.refuse(w.sign(w.step(y, entry.Confirmed)), entry.FencedDependency, "progress")
	w.put(w.step(x, entry.Cancelled))
	w.put(w.outcome("b", id, "b#waiting", entry.NotExecuted))
	w.put(w.outcome("b", id, "b#hoping", entry.NotExecuted))
	w.finish(id, entry.Restored)
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestRaceOfDispatchAndPlan shows both orders of a dispatch and a plan: the log
// has one of them, and the loser starts again from there.
// Draft: INC-4b, INC-4c.
func TestRaceOfDispatchAndPlan(t *testing.T) {
	t.Run("started first", func(t *testing.T) {
		w, id := reported(t)
		x := w.planned("b", "mail", entry.EffectCompensable, "a#make")
		d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
		w.put(w.step(x, entry.Started))
		w.refuse(w.sign(d), entry.ScopeMismatch, "rollback_set.root")
		w.decide("k", entry.ActAuthorize, id)
		if got := w.members(id)["b#mail"]; got != entry.MethodCompensate {
			t.Fatalf("method %s", got)
		}
		w.refuse(w.sign(w.compensation(id, "b#mail")), entry.StateConflict, "compensates.exec") // drain first
		w.put(w.step(x, entry.Confirmed))
		w.compensate(id, "b#mail")
		w.checkAll()
	})
	t.Run("plan first", func(t *testing.T) {
		w, id := reported(t)
		x := w.planned("b", "mail", entry.EffectIrrevocable, "a#make")
		w.decide("k", entry.ActAuthorize, id)
		w.refuse(w.sign(w.step(x, entry.Started)), entry.FencedDependency, "progress")
		if got := w.members(id)["b#mail"]; got != entry.MethodCancel {
			t.Fatalf("method %s", got)
		}
		w.checkAll()
	})
}

// TestFencedTime bounds for how long an incident may fence without a verdict.
func TestFencedTime(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.FencedMS = hourMS
	w.put(p)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	contain := func(seconds int64) *entry.Entry {
		return w.sign(w.order("k", Order{Incident: id, Act: entry.ActContain, Exp: w.at/1000 + seconds}))
	}
	w.refuse(contain(3601), entry.ScopeExceedsPolicy, "rollback_set")
	must(t, w.admit(contain(1800)))
	w.at += 900_000
	must(t, w.admit(contain(2700))) // 900 are used, 2,700 more make an hour
	w.at += 60_000
	w.refuse(contain(2641), entry.ScopeExceedsPolicy, "rollback_set")
	must(t, w.admit(contain(60))) // giving time back is always right
	w.at += 10 * minuteMS
	must(t, w.admit(contain(2580)))
	w.at += hourMS
	w.refuse(contain(1), entry.ScopeExceedsPolicy, "rollback_set")
	w.checkAll()
}

// TestWeakSignals shows that downstream and upstream alone fence just their
// edge, until enough of them speak (section 8).
func TestWeakSignals(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	w.done("c", "look", entry.EffectNone, "a#make")
	id := w.put(w.signal("b", entry.StandingDownstream, "a#make")).Index
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.next()
	w.is(id, entry.IncidentContained)
	w.refuse(w.sign(w.exec("c", "x", "a#make")), entry.FencedDependency, "parents[0].exec")
	w.refuse(w.sign(w.exec("c", "x", "b#pay")), entry.FencedDependency, "parents[0].exec") // the other end
	w.put(w.exec("c", "x", "b#note"))
	w.put(w.exec("a", "x"))
	w.put(w.signal("c", entry.StandingDownstream, "a#make")) // after the subject's end: its edge is late
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.at += 5 * minuteMS
	w.next()
	w.is(id, entry.IncidentEscalated)
	w.checkAll()
}

// TestEarlySignalers shows that k signalers count whose edges were logged before
// the subject was final (INC-2).
func TestEarlySignalers(t *testing.T) {
	w := newWorld(t)
	x := w.flying("a", "stream", entry.EffectReversible)
	w.put(w.exec("b", "one", "a#stream"))
	w.put(w.exec("c", "two", "a#stream"))
	w.put(w.step(x, entry.Confirmed))
	id := w.put(w.signal("b", entry.StandingDownstream, "a#stream")).Index
	w.put(w.signal("b", entry.StandingDownstream, "a#stream")) // the same again is one
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.put(w.signal("c", entry.StandingDownstream, "a#stream"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act") // no checkpoint: residual
	w.decide("k", entry.ActContain, id)
	w.refuse(w.sign(w.exec("c", "x", "b#one")), entry.FencedDependency, "parents[0].exec") // the whole closure now
	w.checkAll()
}

// TestCoalescing bounds the signals of an incident, together and from one.
func TestCoalescing(t *testing.T) {
	w, id := reported(t)
	for range principalSignalsMax - 1 {
		w.put(w.signal("a", entry.StandingExecutor, "a#make"))
	}
	w.refuse(w.sign(w.signal("a", entry.StandingExecutor, "a#make")), entry.StateConflict, "subject")
	for range principalSignalsMax {
		w.put(w.signal("b", entry.StandingDownstream, "a#make"))
	}
	w.refuse(w.sign(w.signal("m", entry.StandingMonitor, "a#make")), entry.StateConflict, "subject")
	if len(w.state.incidents) != 1 || len(w.incident(id).signals) != incidentSignalsMax {
		t.Fatalf("%d incidents", len(w.state.incidents))
	}
	w.checkAll()
}

// TestCooldown refuses what was dismissed as dismissed, from the same principal
// about the same subject, for a while.
func TestCooldown(t *testing.T) {
	w, id := reported(t)
	w.put(w.signal("b", entry.StandingDownstream, "a#make"))
	d := w.order("p1", Order{Incident: id, Act: entry.ActDeny})
	d.Dispositions[0].Disposition = "dismissed"
	w.put(d)
	got := w.refused(w.sign(w.signal("a", entry.StandingExecutor, "a#make")), entry.RateLimited, "subject")
	if got.RetryAfterMS != hourMS {
		t.Errorf("retry after %d ms", got.RetryAfterMS)
	}
	w.put(w.signal("b", entry.StandingDownstream, "a#make")) // inconclusive: may speak again
	w.at += hourMS
	w.put(w.signal("a", entry.StandingExecutor, "a#make"))
	w.checkAll()
}

// TestRollingLimits adds up what one signaler causes, and what one victim
// suffers, over incidents, until the window has passed.
func TestRollingLimits(t *testing.T) {
	for _, whose := range []string{"signaler m", "victim a"} {
		w := newWorld(t)
		p := w.nextPolicy()
		if whose == "victim a" {
			fenceOf(p).Victim.Members = 2
		} else {
			fenceOf(p).Signaler.Members = 2
		}
		w.put(p)
		contain := func(i int) *entry.Entry {
			x := w.done("a", fmt.Sprint("x", i), entry.EffectCompensable)
			id := w.put(w.signal("m", entry.StandingMonitor, x.Ref())).Index
			return w.sign(w.order("k", Order{Incident: id, Act: entry.ActContain, Exp: w.at/1000 + 60}))
		}
		must(t, w.admit(contain(1)))
		must(t, w.admit(contain(2)))
		got := w.refused(contain(3), entry.ScopeExceedsPolicy, "rollback_set")
		if want := "3 members of " + whose; len(got.Detail) < len(want) || got.Detail[:len(want)] != want {
			t.Errorf("%s", got.Detail)
		}
		w.at += dayMS
		must(t, w.admit(contain(4)))
		w.checkAll()
	}
}
