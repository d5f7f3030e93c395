package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestSince shows whose since counts as seeds (SCO-3).
func TestSince(t *testing.T) {
	for _, c := range []struct {
		name     string
		standing entry.Standing
		iss      entry.Principal
		evidence bool
		since    entry.Ref
		later    int64
		want     int
	}{
		{"executor", entry.StandingExecutor, "a", false, "a#1", 0, 3},
		{"monitor with evidence", entry.StandingMonitor, "m", true, "a#2", 0, 2},
		{"monitor without", entry.StandingMonitor, "m", false, "a#1", 0, 1},
		{"downstream", entry.StandingDownstream, "b", true, "a#1", 0, 1},
		{"of another workflow", entry.StandingExecutor, "a", false, "a#0", 0, 1},
		{"after the subject", entry.StandingExecutor, "a", false, "a#4", 0, 1},
		{"the longest ago", entry.StandingExecutor, "a", false, "a#1", 7 * dayMS, 3},
		{"too long ago", entry.StandingExecutor, "a", false, "a#1", 7*dayMS + 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			zero := w.exec("a", "0")
			zero.Wid, zero.Progress = "w2", entry.Confirmed
			w.put(zero)
			for _, x := range []string{"1", "2", "3", "4"} {
				w.done("a", x, entry.EffectCompensable)
			}
			w.put(w.exec("b", "use", "a#3"))
			w.at += c.later
			s := w.signal(c.iss, c.standing, "a#3")
			s.Since = c.since
			if c.evidence {
				s.Evidence = []entry.Evidence{{Digest: someDigest("e")}}
			}
			id := w.put(s).Index
			v, _ := w.state.Preview(id, nil, w.at)
			seeds := 0
			for _, m := range v.Members {
				if m.Rule == "seed" {
					seeds++
				}
			}
			if seeds != c.want {
				t.Errorf("%d seeds, want %d", seeds, c.want)
			}
		})
	}
}

// TestSinceACompensationIsNoRange: a compensation stands on no line, so that a since
// that names one reaches over nothing.
func TestSinceACompensationIsNoRange(t *testing.T) {
	for since, want := range map[entry.Ref]int{"a#1.undo": 1, "a#2": 2} {
		w := newWorld(t)
		w.done("a", "1", entry.EffectCompensable)
		first := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
		w.decide("k", entry.ActAuthorize, first)
		w.compensate(first, "a#1")
		w.next()
		w.is(first, entry.IncidentRecovered)
		w.done("a", "2", entry.EffectCompensable)
		w.done("a", "3", entry.EffectCompensable)
		sig := w.signal("a", entry.StandingExecutor, "a#3")
		sig.Since = since
		id := w.put(sig).Index
		w.decide("k", entry.ActAuthorize, id)
		if got := len(w.members(id)); got != want {
			t.Errorf("since %s: %d members, want %d", since, got, want)
		}
		w.checkAll()
	}
}
