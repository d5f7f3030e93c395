package simulation

import (
	"slices"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// mischief asks for what hostile parties do, at times spread over the first
// minutes.
func (w *world) mischief() {
	plan := &w.plan
	for _, rogue := range []struct {
		there bool
		name  string
		do    func()
	}{
		{plan.rogueAgent, "rogue agent", w.rogueAgent},
		{plan.rogueApprover, "rogue approver", w.rogueApprover},
		{plan.rogueCoordinator, "rogue coordinator", w.rogueCoordinator},
	} {
		if !rogue.there {
			continue
		}
		for range 3 + w.rng.IntN(12) {
			w.after(w.between(60*second, 290*second), rogue.name, rogue.do)
		}
	}
}

// try signs a body as somebody, with a key that may be another's, and submits it.
func (w *world) try(body entry.Body, iss entry.Principal, wid entry.WorkflowID, key string) {
	w.header(body, iss, wid, w.now)
	w.retry(body, key)
}

// retry is try for a body with a header.
func (w *world) retry(body entry.Body, key string) {
	e, err := entry.New(body)
	if err != nil {
		return // it cannot even be written
	}
	w.keys.sign(e, key)
	_, _ = w.ledger.submit(e)
}

// affair returns an incident, if there is one.
func (w *world) affair() *affair {
	var ids []uint64
	for id := range w.observer.incidents {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return w.observer.incidents[pick(w, ids)]
}

// rogueAgent is what agent a0 does beside its runtime: it speaks for others,
// complains without standing, builds on what is undone, and says again what it
// or others have said.
func (w *world) rogueAgent() {
	name := w.nodes[0].name
	o := w.observer
	if len(o.order) == 0 {
		return
	}
	x := pick(w, o.order)
	switch w.rng.IntN(6) {
	case 0:
		w.rogueOutcome(name)
	case 1: // an entry of the log once more, or another under its identity
		old := pick(w, w.ledger.log)
		if w.chance(500) {
			_, _ = w.ledger.submit(old.Entry)
			return
		}
		if body, ok := old.Body.(*entry.Execution); ok {
			forged := *body
			forged.Progress = entry.Failed
			w.retry(&forged, string(pick(w, []entry.Principal{name, body.Iss})))
		}
	case 2: // it claims an execution of another as its own, or parents that nobody has
		body := &entry.Execution{Exec: "forged", Parents: []entry.Parent{{Exec: pick(w, []entry.Ref{x.ref, "nobody#nothing"}), Dep: entry.Hard}},
			Effect: entry.EffectNone, Progress: entry.Planned}
		w.try(body, pick(w, []entry.Principal{name, x.agent}), x.wid, string(name))
	case 3:
		w.try(&entry.Signal{Subject: x.ref, Class: "tool", Code: "error", Standing: pick(w, []entry.Standing{entry.StandingExecutor,
			entry.StandingUpstream, entry.StandingDownstream, entry.StandingMonitor}), Effects: entry.EffectsNone, ReplaySafety: entry.ReplayUnknown,
			ObservedAt: w.now}, name, x.wid, string(name))
	case 4: // a compensation nobody released
		if a := w.affair(); a != nil && a.decision != nil {
			w.try(&entry.Execution{Exec: "early", Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable, Progress: entry.Planned,
				IdempotencyKey: digest("early"), Compensates: &entry.Compensates{Incident: a.id, Decision: a.decision.ref, Exec: x.ref}}, name, x.wid, string(name))
		}
	case 5: // it goes on with what is fenced
		if x.agent == name && x.progress == entry.Planned && !x.comp {
			w.try(&entry.Execution{Exec: string(x.ref[len(name)+1:]), Parents: x.parents, Effect: x.effect, Progress: entry.Started}, name, x.wid, string(name))
		}
	}
}

func (w *world) rogueOutcome(name entry.Principal) {
	a := w.affair()
	if a == nil || a.decision == nil || len(a.decision.members) == 0 {
		return
	}
	m := pick(w, a.decision.members)
	body := &entry.Outcome{Incident: a.id, Decision: a.decision.ref, Exec: m.Exec, ObservedAt: w.now,
		Result: pick(w, []entry.Result{entry.Restored, entry.NotExecuted, entry.ResultFailed, entry.ResultUnknown, entry.ResultIrrevocable})}
	switch body.Result {
	case entry.Restored:
		body.PostDigest = digest("anything")
	case entry.NotExecuted:
	default:
		body.Residual = "so it says"
	}
	w.try(body, pick(w, []entry.Principal{name, m.Agent}), w.observer.execs[m.Exec].wid, string(name))
}

// rogueApprover is what p2 and p3 do: they approve twice, with two keys, in their
// own cause, what was replaced, and decide without a quorum.
func (w *world) rogueApprover() {
	a := w.affair()
	if a == nil {
		return
	}
	wid := w.wid(a.id)
	switch w.rng.IntN(4) {
	case 0:
		if a.proposal != nil {
			for _, key := range []string{"p2", "p2 again"} {
				w.try(&entry.Approval{Incident: a.id, Proposal: a.proposal.ref, Verdict: "approve", Exp: w.now/1000 + 600, Reason: "as one"}, "p2", wid, key)
			}
		}
	case 1: // p3 signals, and approves what follows
		s := w.observer.signals[a.id]
		w.try(&entry.Signal{Subject: s.Subject, Class: "tool", Code: "error", Standing: entry.StandingMonitor, Effects: entry.EffectsUnknown,
			ReplaySafety: entry.ReplayUnknown, ObservedAt: w.now}, "p3", wid, "p3")
		if a.proposal != nil {
			w.try(&entry.Approval{Incident: a.id, Proposal: a.proposal.ref, Verdict: "approve", Exp: w.now/1000 + 600, Reason: "mine"}, "p3", wid, "p3")
		}
	case 2: // what was proposed about another incident, or before
		if other := w.affair(); other.proposal != nil {
			w.try(&entry.Approval{Incident: a.id, Proposal: other.proposal.ref, Verdict: "approve", Exp: w.now/1000 + 1, Reason: "whatever"}, "p2", wid, "p2")
		}
	case 3:
		w.people.decide("p2", coord.Order{Incident: a.id, Act: pick(w, []entry.Act{entry.ActAuthorize, entry.ActEscalate, entry.ActDeny, entry.ActAmend}),
			Reason: "alone"})
	}
}

func (w *world) wid(incident uint64) entry.WorkflowID { return w.observer.signals[incident].Wid }

// rogueCoordinator signs, with the coordinator's key, decisions that the rules do
// not give.
func (w *world) rogueCoordinator() {
	a := w.affair()
	if a == nil {
		return
	}
	if w.chance(200) { // a record before its time
		if r, err := w.ledger.state.DraftRecord(a.id); err == nil {
			w.try(r, "k", w.wid(a.id), "k")
		}
		return
	}
	act := pick(w, []entry.Act{entry.ActAuthorize, entry.ActAuthorize, entry.ActAmend, entry.ActContain, entry.ActEscalate, entry.ActOverride, entry.ActDeny})
	d, err := w.ledger.state.Draft(coord.Order{Incident: a.id, Act: act, Reason: "because"}, w.now)
	if err != nil {
		return
	}
	w.spoil(a, d)
	w.header(d, pick(w, []entry.Principal{"k", "k", "k", "p1"}), d.Wid, w.now)
	w.retry(d, string(d.Iss))
}

// spoil changes a decision in one way.
func (w *world) spoil(a *affair, d *entry.Decision) {
	other := merkle.HashLeaf([]byte("another"))
	switch w.rng.IntN(10) {
	case 0:
		d.Epoch += pick(w, []int64{-1, 1, 5})
	case 1:
		d.Exp = w.now/1000 - w.between(0, 100)
	case 2:
		d.Policy.Index = 1
	case 3:
		if d.RollbackSet != nil {
			d.RollbackSet.Root = other
		}
	case 4:
		if d.RollbackSet != nil {
			d.RollbackSet.Size++
		}
	case 5:
		if d.Signals != nil {
			d.Signals.Root = other
		}
	case 6:
		if d.Impact != nil {
			d.Impact.Members, d.Impact.Irrevocable = 1, 0
		}
	case 7:
		if d.Pin != nil && d.Pin.Size > 0 {
			d.Pin.Size--
			d.Pin.Root = w.ledger.tree.Head(d.Pin.Size).Root
		}
	case 8:
		if b := w.affair(); b != nil {
			d.Incident = b.id
		}
	case 9:
		for index := range w.observer.approvals {
			d.Approvals = append(d.Approvals, index)
		}
		slices.Sort(d.Approvals)
	}
}
