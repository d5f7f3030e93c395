package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestQuota fills an issuer's hour entry by entry, then lets time pass.
func TestQuota(t *testing.T) {
	w := newWorld(t)
	next := w.nextPolicy()
	next.Quotas = entry.Quotas{EntriesPerHour: 3, SignalsPerHour: 1}
	w.put(next)
	w.at += hourMS // what populated the world is forgotten
	w.put(w.exec("a", "x"))
	first := w.at
	w.put(w.signal("a", entry.StandingExecutor, "a#x"))
	got := w.refused(w.sign(w.signal("a", entry.StandingExecutor, "a#x")), entry.RateLimited, "iss")
	if want := first - first%minuteMS + hourMS - w.at; got.RetryAfterMS != want {
		t.Errorf("retry after %d ms, want %d", got.RetryAfterMS, want)
	}
	w.at += 10 * minuteMS
	w.put(w.exec("a", "y")) // the refused signal cost nothing
	got = w.refused(w.sign(w.exec("a", "z")), entry.RateLimited, "iss")
	w.refuse(w.sign(w.exec("a", "z", "a#nothing")), entry.RateLimited, "iss") // before REG-8
	stale := w.exec("a", "z")
	stale.Iat = 1
	w.refuse(w.sign(stale), entry.Stale, "iat") // behind REG-6
	w.put(w.exec("b", "x"))                     // others have their own
	w.at += got.RetryAfterMS - 1
	w.refuse(w.sign(w.exec("a", "z")), entry.RateLimited, "iss")
	w.at++
	w.put(w.exec("a", "z"))
	w.put(w.signal("a", entry.StandingExecutor, "a#x"))
	w.refuse(w.sign(w.exec("a", "z2")), entry.RateLimited, "iss")
	w.put(w.nextPolicy()) // root has its own, too
	w.checkAll()
}

// TestSignalLimit is the formula of protocol.md, section 8.
func TestSignalLimit(t *testing.T) {
	for _, c := range []struct{ base, independent, dismissed, want int64 }{
		{60, 0, 0, 60}, {60, 10, 0, 60}, {60, 0, 1, 12}, {60, 0, 14, 1}, {60, 0, 15, 0}, {60, 1, 1, 20},
		{60, 0, 256, 0}, {1, 256, 0, 1}, {entry.MaxInteger, 256, 0, entry.MaxInteger},
	} {
		u := usage{verdicts: verdicts{corroborated: 256, independent: c.independent, selfReported: 256, dismissed: c.dismissed}}
		if got := u.signalLimit(c.base); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestExecutorIsAlwaysHeard lets an agent use up its signals on the work of
// another: about its own it is heard all the same, once an hour, also by a state
// that was restored.
// Draft: REG-7a.
func TestExecutorIsAlwaysHeard(t *testing.T) {
	w := newWorld(t)
	next := w.nextPolicy()
	next.Quotas.SignalsPerHour = 1
	w.put(next)
	w.done("a", "1", entry.EffectNone)
	w.done("b", "2", entry.EffectNone, "a#1")
	w.put(w.signal("b", entry.StandingDownstream, "a#1"))
	w.refuse(w.sign(w.signal("b", entry.StandingDownstream, "a#1")), entry.RateLimited, "iss")
	w.at += minuteMS
	first := w.at
	w.put(w.signal("b", entry.StandingExecutor, "b#2"))
	free := first - first%minuteMS + hourMS
	w.at += minuteMS
	got := w.refused(w.sign(w.signal("b", entry.StandingExecutor, "b#2")), entry.RateLimited, "iss")
	if want := free - w.at; got.RetryAfterMS != want {
		t.Errorf("retry after %d ms, want %d", got.RetryAfterMS, want)
	}
	w.at = free - 1
	again := w.sign(w.signal("b", entry.StandingExecutor, "b#2"))
	w.refuse(again, entry.RateLimited, "iss")
	if err := restored(t, w.snapshot()).Admit(again, w.state.Size(), w.at); err == nil {
		t.Error("a restored state has forgotten the signal")
	}
	w.at = free
	w.put(w.signal("b", entry.StandingExecutor, "b#2"))
	w.checkAll()
}
