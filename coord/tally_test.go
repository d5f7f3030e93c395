package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/tally"
)

// counts are those of a principal, from all entries of the world's log.
func (w *world) counts(p entry.Principal) *tally.Counts {
	w.t.Helper()
	c := &tally.Counts{Agent: p, Size: uint64(len(w.log))}
	shown := map[string]uint64{}
	for _, inc := range w.state.incidents {
		shown[entry.IncidentValue(inc.opened)] = c.Size
	}
	c.Count(shown, func(yield func(*entry.Registered) bool) {
		for i := range w.log {
			if !yield(&w.log[i]) {
				return
			}
		}
	})
	return c
}

// TestFriendsGainNothing lets an agent report its own work, and has a friend of its own
// domain, a stranger's neighbour, or nobody bear it out: the friend changes neither what
// is corroborated of the agent's signals, nor of its failures, nor of its outcomes.
func TestFriendsGainNothing(t *testing.T) {
	for _, c := range []struct {
		name              string
		friend            entry.Principal // empty: nobody
		corroborated, own int64
	}{{"nobody", "", 0, 0}, {"a friend of its own domain", "b", 0, 1}, {"a neighbour of another domain", "far", 1, 0}} {
		w, id := corroborable(t)
		if c.friend != "" {
			w.put(w.signal(c.friend, entry.StandingDownstream, "a#x"))
		}
		w.decide("k", entry.ActAuthorize, id)
		w.settle()
		if _, also := w.members(id)["b#both"]; also {
			w.compensate(id, "b#both")
			w.settle()
		}
		got := w.counts("a")
		h, _ := w.state.History("a", 0, 10, w.at)
		if s := got.Signals; s.Corroborated != c.corroborated || s.OwnDomain != c.own || s.Corroborated+s.OwnDomain+s.SelfReported != 1 || s.Corroborated != h.Independent {
			t.Errorf("%s: signals %+v, the fold counts %+v", c.name, s, h)
		}
		if len(got.Failures) != 1 || got.Failures[0].Works != 1 || got.Failures[0].Corroborated != c.corroborated || got.Failures[0].OwnDomain != c.own {
			t.Errorf("%s: failures %+v", c.name, got.Failures)
		}
		if c.friend != "" && !slices.Contains(got.Failures[0].Reporters, c.friend) {
			t.Errorf("%s: reported by %v", c.name, got.Failures[0].Reporters)
		}
		if len(got.NotShown) > 0 {
			t.Errorf("%s: incidents %v are called not shown", c.name, got.NotShown)
		}
	}
}
