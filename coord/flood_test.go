package coord

import (
	"errors"
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestFalseSignals lets one enrolled agent try 100,000 signals over executions
// of another, while the coordinator and an approver do their work: incidents
// and fences stay few, the victim works on, and the history shows it.
func TestFalseSignals(t *testing.T) {
	const tries, subjects = 100_000, 500
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
	if u.unfounded == 0 || u.confirmed != 0 {
		t.Errorf("history: %d unfounded, %d confirmed", u.unfounded, u.confirmed)
	}
	if limit := u.signalLimit(200, entry.StandingDownstream); limit > 2 {
		t.Errorf("may still write %d signals an hour", limit)
	}
	honest := w.sign(w.exec("a", "goes-on"))
	must(t, w.state.Admit(honest, w.state.Size(), w.at))
	h, _, _ := w.state.History("liar", 0, 1000)
	if int64(len(h.Signals)) < u.unfounded || h.Unfounded != u.unfounded {
		t.Errorf("history shows %d signals, %d unfounded", len(h.Signals), h.Unfounded)
	}
}

// apply registers an entry without the checks of put.
func (w *world) apply(body entry.Body) {
	w.t.Helper()
	e := w.sign(body)
	w.state.Apply(e, w.state.Size(), w.at)
	w.log = append(w.log, AuditEntry{e, uint64(len(w.log)), w.at})
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
