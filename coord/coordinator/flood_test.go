package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestFalseSignalsThroughTheLedgerChaos is the same through a real ledger and its
// coordinator, every signal signed and submitted: it creates a bounded number of
// incidents and fences, what was said of the signals shows in the history of
// whoever sent them, and an audit of the log agrees. ARL_CHAOS=1 sends 100,000.
func TestFalseSignalsThroughTheLedgerChaos(t *testing.T) {
	synctest.Test(t, falseSignals) // a narrow lane lets 40 refusals a second through
}

func falseSignals(t *testing.T) {
	tries := budget.Budget{Short: 1_500, Usual: 1_500, Chaos: 100_000}.Now()
	const subjects, hourly, judged = 100, 200, 256 // the last 256 verdicts count
	s := newSite(t)
	p := s.genesis()
	p.Quotas.SignalsPerHour = hourly
	s.submit(5, "", s.signed(p, s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "liar", entry.RoleAgent),
		s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "p1", entry.RoleApprover))...)
	for i := range subjects {
		victim := s.Step(s.Exec("a", fmt.Sprint("v", i)), entry.Confirmed)
		s.submit(2, "", s.signed(victim, s.Exec("liar", fmt.Sprint("l", i), victim.Ref()))...)
	}
	coordinator, taken, fences := s.coordinator(), 0, 0
	for i := range tries {
		answer, err := s.log.Submit(t.Context(), s.Sign(s.Signal("liar", entry.StandingDownstream, entry.NewRef("a", fmt.Sprint("v", i%subjects)))))
		must(t, err)
		taken += len(answer.Registered)
		if i%500 < 499 {
			continue
		}
		s.later.Add(5 * minute)
		s.at += 5 * minute
		_, _, err = coordinator.Step(t.Context())
		must(t, err)
		fences = max(fences, s.dismiss())
	}
	s.submit(1, "", s.Sign(s.Exec("a", "goes-on")))
	s.c.Read(func(state *coord.State) {
		h, _ := state.History("liar", 0, tries, s.at)
		t.Logf("%d of %d signals taken, %d incidents, at most %d executions fenced, %d of %d judged dismissed", taken, tries, count(state), fences, h.Dismissed, h.Judged)
		if count(state) > subjects+hourly || fences > 2*hourly || taken > tries/5 {
			t.Errorf("%d incidents, %d executions fenced by %d signals", count(state), fences, taken)
		}
		shown := int64(0)
		for _, sig := range h.Signals {
			if sig.Disposition == "dismissed" {
				shown++
			}
		}
		if shown == 0 || h.Dismissed != min(shown, judged) || h.Corroborated != 0 || len(h.Signals) != taken || h.SignalLimit > hourly/10 {
			t.Errorf("history: %d of %d signals shown as dismissed, counted %d; %d signals an hour left", shown, len(h.Signals), h.Dismissed, h.SignalLimit)
		}
	})
	s.check()
}

// dismiss lets an approver deny what was proposed, as dismissed; it returns how
// many executions were fenced before.
func (s *site) dismiss() (fenced int) {
	s.t.Helper()
	var denials []*entry.Entry
	s.c.Read(func(state *coord.State) {
		s.state = state
		for _, v := range state.Incidents(0, count(state), s.at) {
			if v.Fence != nil {
				fenced += v.Fence.Members
			}
			if v.State != entry.IncidentContained && v.State != entry.IncidentEscalated {
				continue
			}
			o := coord.Order{Incident: v.ID, Act: entry.ActDeny}
			for _, sig := range v.Signals {
				o.Signals = append(o.Signals, entry.Disposition{Index: sig.Index, Disposition: "dismissed"})
			}
			denials = append(denials, s.Sign(s.order("p1", o)))
		}
	})
	s.submit(len(denials), "", denials...)
	return fenced
}

// count returns how many incidents there are.
func count(s *coord.State) (n int) {
	for _, some := range s.Census(0).States {
		n += some
	}
	return n
}
