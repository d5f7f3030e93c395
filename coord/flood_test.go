package coord

import (
	"errors"
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestFalseSignals lets one enrolled agent try 100,000 signals, or 4,000 in short, over executions
// of another, while the coordinator and an approver do their work: incidents
// and fences stay few, the victim works on, and the history shows it.
func TestFalseSignals(t *testing.T) {
	const subjects = 500
	tries := budget.Budget{Short: 4_000, Usual: 100_000}.Now()
	w := newWorld(t)
	p := w.nextPolicy()
	p.Quotas.SignalsPerHour = 200
	w.put(p)
	w.put(w.enrol("root", "liar", entry.RoleAgent))
	for i := range subjects {
		victim := w.step(w.exec("a", fmt.Sprint("v", i)), entry.Confirmed)
		w.apply(victim)
		w.apply(w.exec("liar", fmt.Sprint("l", i), victim.Ref()))
	}
	refused, fences := map[entry.Problem]int{}, 0
	for i := range tries {
		s := w.signal("liar", entry.StandingDownstream, entry.NewRef("a", fmt.Sprint("v", i%subjects)))
		e, err := entry.New(s)
		must(t, err)
		e.SignatureChecked, e.KeyID = true, public(t, "liar").KeyID()
		err = w.state.Admit(e, w.state.Size(), w.at)
		if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
			refused[refusal.Problem]++
		} else {
			w.apply(s)
		}
		if i%1000 == 999 {
			w.at += 5 * minuteMS
			fences = max(fences, w.judge())
		}
	}
	incidents := len(w.state.incidents)
	u := w.state.usage[w.mustPrincipal("liar")]
	t.Logf("%d incidents, at most %d executions fenced, refused %v, judged %d unfounded", incidents, fences, refused, u.unfounded)
	if incidents > 400 || fences > 300 {
		t.Errorf("%d incidents, %d executions fenced", incidents, fences)
	}
	if u.unfounded == 0 || u.corroborated != 0 {
		t.Errorf("history: %d unfounded, %d corroborated", u.unfounded, u.corroborated)
	}
	if limit := u.signalLimit(200); limit > 2 {
		t.Errorf("may still write %d signals an hour", limit)
	}
	honest := w.sign(w.exec("a", "goes-on"))
	must(t, w.state.Admit(honest, w.state.Size(), w.at))
	h, _, _ := w.state.History("liar", 0, 1000)
	if int64(len(h.Signals)) < u.unfounded || h.Unfounded != u.unfounded {
		t.Errorf("history shows %d signals, %d unfounded", len(h.Signals), h.Unfounded)
	}
}

// TestFalseSignalsThroughTheLedgerChaos is the same through a real ledger and its
// coordinator, every signal signed and submitted: it creates a bounded number of
// incidents and fences, what was said of the signals shows in the history of
// whoever sent them, and an audit of the log agrees. ARL_CHAOS=1 sends 100,000.
func TestFalseSignalsThroughTheLedgerChaos(t *testing.T) {
	tries := budget.Budget{Short: 1_500, Usual: 3_000, Chaos: 100_000}.Now()
	const subjects, hourly = 100, 200
	s := newSite(t)
	p := s.genesis()
	p.Quotas.SignalsPerHour = hourly
	s.submit(5, "", s.signed(p, s.enrol("root", "a", entry.RoleAgent), s.enrol("root", "liar", entry.RoleAgent),
		s.enrol("root", "k", entry.RoleCoordinator), s.enrol("root", "p1", entry.RoleApprover))...)
	for i := range subjects {
		victim := s.step(s.exec("a", fmt.Sprint("v", i)), entry.Confirmed)
		s.submit(2, "", s.signed(victim, s.exec("liar", fmt.Sprint("l", i), victim.Ref()))...)
	}
	coordinator, taken, fences := s.coordinator(), 0, 0
	coordinator.Refused = nil // one contain uses up what the next was to have
	for i := range tries {
		answer, err := s.log.Submit(t.Context(), s.sign(s.signal("liar", entry.StandingDownstream, entry.NewRef("a", fmt.Sprint("v", i%subjects)))))
		must(t, err)
		taken += len(answer.Registered)
		if i%500 < 499 {
			continue
		}
		s.later.Add(5 * minuteMS)
		s.at += 5 * minuteMS
		_, _, err = coordinator.Step(t.Context())
		must(t, err)
		fences = max(fences, s.dismiss())
	}
	s.submit(1, "", s.sign(s.exec("a", "goes-on")))
	s.c.Read(func(state *State) {
		h, _, _ := state.History("liar", 0, tries)
		t.Logf("%d of %d signals taken, %d incidents, at most %d executions fenced, %d of %d judged unfounded", taken, tries, len(state.incidents), fences, h.Unfounded, h.Judged)
		if len(state.incidents) > subjects+hourly || fences > 2*hourly || taken > tries/5 {
			t.Errorf("%d incidents, %d executions fenced by %d signals", len(state.incidents), fences, taken)
		}
		shown := int64(0)
		for _, sig := range h.Signals {
			if sig.Verdict.Disposition == "unfounded" {
				shown++
			}
		}
		if shown == 0 || h.Unfounded != min(shown, judgedMax) || h.Corroborated != 0 || len(h.Signals) != taken || h.SignalLimit > hourly/10 {
			t.Errorf("history: %d of %d signals shown as unfounded, counted %d; %d signals an hour left", shown, len(h.Signals), h.Unfounded, h.SignalLimit)
		}
	})
	s.check()
}

// dismiss lets an approver deny what was proposed, as unfounded; it returns how
// many executions were fenced before.
func (s *site) dismiss() (fenced int) {
	s.t.Helper()
	var denials []*entry.Entry
	s.c.Read(func(state *State) {
		s.state = state
		for _, v := range state.Incidents(0, len(state.incidents), s.at) {
			if v.Fence != nil {
				fenced += v.Fence.Members
			}
			if v.State != Contained && v.State != Escalated {
				continue
			}
			o := Order{Incident: v.ID, Act: entry.ActDeny}
			for _, sig := range v.Signals {
				o.Signals = append(o.Signals, entry.Disposition{Index: sig.Index, Disposition: "unfounded"})
			}
			denials = append(denials, s.sign(s.order("p1", o)))
		}
	})
	s.submit(len(denials), "", denials...)
	return fenced
}

// apply registers an entry without the checks of put.
func (w *world) apply(body entry.Body) {
	w.t.Helper()
	e := w.sign(body)
	w.state.Apply(e, w.state.Size(), w.at)
	w.log = append(w.log, entry.Registered{Entry: e, Index: uint64(len(w.log)), RegisteredAt: w.at})
}

// judge lets the coordinator write what it would, and an approver deny what is
// escalated as unfounded; it returns how many executions are fenced.
func (w *world) judge() (fenced int) {
	w.t.Helper()
	todo, _ := w.state.Next(w.at)
	for _, body := range todo {
		w.head("k", body)
		if e := w.sign(body); w.state.Admit(e, w.state.Size(), w.at) == nil {
			w.apply(body)
		}
	}
	for _, number := range w.state.openIncidents() {
		inc := w.state.incidents[number]
		if w.state.holding(inc, w.at) {
			fenced += len(inc.hold.members)
		}
		if inc.state != Escalated {
			continue
		}
		o := Order{Incident: inc.opened, Act: entry.ActDeny}
		for _, n := range inc.signals {
			o.Signals = append(o.Signals, entry.Disposition{Index: w.state.signals[n].index, Disposition: "unfounded"})
		}
		d := w.order("p1", o)
		if e := w.sign(d); w.state.Admit(e, w.state.Size(), w.at) == nil {
			w.apply(d)
		}
	}
	return fenced
}
