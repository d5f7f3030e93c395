package coord

import (
	"errors"
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestFalseSignalsChaos lets one enrolled agent try 20,000 signals, 4,000 in short and 100,000 with
// ARL_CHAOS, over executions of another, while the coordinator and an approver do their work:
// incidents and fences stay few, the victim works on, and the history shows it.
func TestFalseSignalsChaos(t *testing.T) {
	const subjects = 500
	tries := budget.Budget{Short: 4_000, Usual: 10_000, Chaos: 100_000}.Now()
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
	t.Logf("%d incidents, at most %d executions fenced, refused %v, judged %d dismissed", incidents, fences, refused, u.dismissed)
	if incidents > 400 || fences > 300 {
		t.Errorf("%d incidents, %d executions fenced", incidents, fences)
	}
	if u.dismissed == 0 || u.corroborated != 0 {
		t.Errorf("history: %d dismissed, %d corroborated", u.dismissed, u.corroborated)
	}
	if limit := u.signalLimit(200); limit > 2 {
		t.Errorf("may still write %d signals an hour", limit)
	}
	honest := w.sign(w.exec("a", "goes-on"))
	must(t, w.state.Admit(honest, w.state.Size(), w.at))
	h, _ := w.state.History("liar", 0, 1000, w.at)
	if int64(len(h.Signals)) < u.dismissed || h.Dismissed != u.dismissed {
		t.Errorf("history shows %d signals, %d dismissed", len(h.Signals), h.Dismissed)
	}
}

// apply registers an entry without the checks of put.
func (w *world) apply(body entry.Body) {
	w.t.Helper()
	e := w.sign(body)
	w.state.Apply(e, w.state.Size(), w.at)
	w.log = append(w.log, entry.Registered{Entry: e, Index: uint64(len(w.log)), RegisteredAt: w.at})
}

// judge lets the coordinator write what it would, and an approver deny what is
// escalated as dismissed; it returns how many executions are fenced.
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
		if inc.state != entry.IncidentEscalated {
			continue
		}
		o := Order{Incident: inc.opened, Act: entry.ActDeny}
		for _, n := range inc.signals {
			o.Signals = append(o.Signals, entry.Disposition{Index: w.state.signals[n].index, Disposition: "dismissed"})
		}
		d := w.order("p1", o)
		if e := w.sign(d); w.state.Admit(e, w.state.Size(), w.at) == nil {
			w.apply(d)
		}
	}
	return fenced
}
