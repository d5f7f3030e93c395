package simulation

import (
	"fmt"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// people are the approvers and the operator. They recompute what they are asked
// about, and answer after a while, or not at all.
type people struct{ w *world }

func (p *people) hear(e *entry.Entry) {
	if r, ok := e.Body.(*entry.Record); ok {
		p.takeNote(r.Incident)
	}
	d, ok := e.Body.(*entry.Decision)
	if !ok {
		return
	}
	w := p.w
	p.takeNote(d.Incident)
	ref := w.ledger.ref(w.ledger.size() - 1)
	switch d.Act {
	case entry.ActEscalate:
		for _, who := range []entry.Principal{"p1", "p2", "p3"} {
			w.after(w.between(second, 100*second), fmt.Sprintf("%s looks", who), func() { p.answer(who, d, ref) })
		}
	case entry.ActDeny:
		if w.chance(2) {
			w.after(w.between(second, minute), "o takes note", func() { p.decide("o", coord.Order{Incident: d.Incident, Act: entry.ActDeny, Reason: "noted"}) })
		}
	case entry.ActAuthorize, entry.ActAmend:
		if w.fault(40) {
			w.after(w.between(second, minute), "o overrides", func() { p.decide("o", coord.Order{Incident: d.Incident, Act: entry.ActOverride, Reason: "stop"}) })
		}
		if w.fault(30) {
			for _, who := range []entry.Principal{"p1", "p2"} {
				w.after(w.between(second, minute), "p overrides", func() { p.decide(who, coord.Order{Incident: d.Incident, Act: entry.ActOverride, Reason: "stop"}) })
			}
		}
	}
}

// takeNote has the operator acknowledge, of every other incident, that nobody answered
// an amend.
func (p *people) takeNote(incident uint64) {
	if v, ok := p.w.ledger.state.Incident(incident, p.w.now); ok && v.Lapsed != nil && v.Unacknowledged() && incident%2 == 0 {
		p.w.after(minute/2, "o takes note of an amend", func() { p.decide("o", coord.Order{Incident: incident, Act: entry.ActDeny, Reason: "noted"}) })
	}
}

// answer recomputes a plan and answers the proposal.
func (p *people) answer(who entry.Principal, d *entry.Decision, proposal entry.LogRef) {
	w := p.w
	var dismissed []uint64
	for i := range d.Dismissed {
		dismissed = append(dismissed, d.Dismissed[i].Index)
	}
	verdict := "approve"
	plan, ok := w.ledger.state.Preview(d.Incident, dismissed, w.now)
	switch {
	case !ok || w.chance(100): // silence
		return
	case plan.RollbackSet != d.RollbackSet.Head || w.chance(60):
		verdict = "refuse"
	}
	a := &entry.Approval{Incident: d.Incident, Proposal: proposal, Verdict: verdict, Exp: w.now/1000 + 600, Reason: "recomputed"}
	w.header(a, who, d.Wid, w.now)
	w.deliver(w.seal(a, w.signer(who)), 0)
}

// decide submits what somebody orders.
func (p *people) decide(who entry.Principal, o coord.Order) {
	w := p.w
	d, err := w.ledger.state.Draft(o, w.now)
	if err != nil {
		return
	}
	w.header(d, who, d.Wid, w.now)
	e, err := entry.New(d)
	if err != nil {
		return // there is no such decision
	}
	w.keys.sign(e, w.signer(who))
	w.deliver(e, 0)
}

// standIn is what approver p1 does where the coordinator is silent, every half
// minute: it asks people, and writes what the state says is to be written, as far
// as an approver may.
func (p *people) standIn() {
	w := p.w
	todo, _ := w.ledger.state.Next(w.now)
	for _, body := range todo {
		w.try(body, "p1", entry.HeaderOf(body).Wid, "p1")
	}
	for _, v := range w.ledger.state.Incidents(0, 1<<10, w.now) {
		switch {
		case v.State == entry.IncidentReported, v.State == entry.IncidentContained:
			p.decide("p1", coord.Order{Incident: v.ID, Act: entry.ActEscalate, Reason: "the coordinator is silent"})
		case v.State == entry.IncidentAuthorized && v.Decision.DeadlineAt < w.now:
			p.conclude(v.ID)
		}
	}
	w.after(minute/2, "p1 stands in", p.standIn)
}

// conclude ends an incident whose deadline is over, though the coordinator would
// amend it first, which no approver may do alone.
func (p *people) conclude(id uint64) {
	w := p.w
	open, r, err := w.ledger.state.DraftClosing(id, w.now)
	switch {
	case err != nil:
	case len(open) > 0:
		w.try(open[0], "p1", open[0].Wid, "p1")
	default:
		w.try(r, "p1", r.Wid, "p1")
	}
}
