package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
)

// work asks for executions, checkpoints and signals, at times spread over the
// first minutes.
func (w *world) work() {
	for _, n := range w.nodes {
		for i := range w.plan.workflows {
			wid := wid(i)
			w.after(w.between(0, 5*second), "checkpoint", func() { n.checkpoint(wid) })
		}
	}
	for i := range w.plan.executions {
		n, id := pick(w, w.nodes), fmt.Sprintf("x%d", i)
		w.after(w.between(0, 90*second), "work", func() { n.start(id) })
		if w.chance(300) {
			w.after(w.between(10*second, 90*second), "checkpoint", func() { n.checkpoint(wid(w.rng.IntN(w.plan.workflows))) })
		}
	}
	for range w.plan.signals {
		w.after(w.between(60*second, 150*second), "signal", w.complain)
	}
}

func wid(i int) entry.WorkflowID { return entry.WorkflowID(fmt.Sprintf("w%d", i)) }

// start begins an execution that builds on some that there are.
func (n *node) start(id string) {
	w := n.w
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{}, Progress: entry.Planned,
		Effect: pick(w, []entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectReversible, entry.EffectReversible,
			entry.EffectCompensable, entry.EffectCompensable, entry.EffectIrrevocable})}
	x.Wid = wid(w.rng.IntN(w.plan.workflows))
	if w.chance(900) && x.Effect == entry.EffectIrrevocable { // they are rare, so that many incidents end well
		x.Effect = entry.EffectCompensable
	}
	if x.Effect != entry.EffectNone {
		x.IdempotencyKey = digest(id)
	}
	known := w.observer.order
	for range w.rng.IntN(3) {
		if len(known) == 0 {
			break
		}
		parent := known[max(0, len(known)-1-w.rng.IntN(4))]
		dep := entry.Hard
		if w.chance(150) {
			dep = entry.Soft
		}
		if !slices.ContainsFunc(x.Parents, func(p entry.Parent) bool { return p.Exec == parent.ref }) && !parent.comp {
			x.Parents = append(x.Parents, entry.Parent{Exec: parent.ref, Dep: dep})
		}
	}
	x.Iss = n.name
	j := &job{x: x, final: entry.Confirmed, hangs: w.chance(80)}
	if w.chance(70) {
		j.final = entry.Failed
	}
	n.machine.jobs[x.Ref()] = j
	n.advance(j, entry.Planned)
}

// advance logs the next step of an execution, again and again until the ledger
// answers.
func (n *node) advance(j *job, to entry.Progress) {
	x := *j.x
	x.Progress = to
	n.w.header(&x, n.name, j.x.Wid, n.now())
	e := n.w.seal(&x, n.w.signer(n.name))
	n.push(e, func(err error) { n.advanced(j, to, err) })
}

// push submits an entry of the agent's own work until it is answered.
func (n *node) push(e *entry.Entry, then func(err error)) {
	again := func() {
		n.w.after(n.w.between(second, 10*second), fmt.Sprintf("%s pushes", n.name), func() { n.push(e, then) })
	}
	if n.core == nil { // the process is down
		if !n.forked {
			again()
		}
		return
	}
	_, err := n.Submit(context.Background(), e)
	if _, refused := errors.AsType[*entry.Refusal](err); err != nil && !refused {
		again()
		return
	}
	then(err)
}

// advanced is what follows an answer.
func (n *node) advanced(j *job, to entry.Progress, err error) {
	w := n.w
	if err != nil {
		j.tries++
		if to != entry.Planned && !j.stopped && j.tries < 5 { // it is fenced: later, perhaps
			w.after(w.between(10*second, minute), "again", func() {
				if !j.stopped {
					n.advance(j, to)
				}
			})
			return
		}
		j.over = true
		return
	}
	if j.sent = to; to.Final() {
		j.over = true
		return
	}
	w.after(w.between(10, 5*second), fmt.Sprintf("%s goes on", n.name), func() { n.proceed(j, to) })
}

// proceed acts, when the receipt for that is there (EXE-2).
func (n *node) proceed(j *job, after entry.Progress) {
	switch {
	case j.stopped || j.over:
	case after == entry.Planned && j.hangs && n.w.chance(300):
		j.over = false // it stays planned
	case after == entry.Planned && j.x.Effect != entry.EffectNone:
		n.advance(j, entry.Started)
	case j.hangs:
		if n.w.chance(500) {
			n.machine.act(j)
		}
	default:
		n.machine.act(j)
		n.advance(j, j.final)
	}
}

// checkpoint saves the state of a line as it is by what the log has as final.
func (n *node) checkpoint(wid entry.WorkflowID) {
	w := n.w
	c := &entry.Checkpoint{Checkpoint: fmt.Sprintf("c%d", n.machine.turn)}
	n.machine.turn++
	var newest *record
	var state []entry.Ref
	for _, x := range w.observer.order {
		if x.agent == n.name && !x.comp && w.observer.line(x.agent, x.wid) == w.observer.line(n.name, wid) && x.final != 0 && !x.undone && (newest == nil || x.final > newest.final) {
			newest = x
		}
	}
	l := n.machine.lineOf(wid)
	for _, ref := range l.state {
		if x := w.observer.execs[ref]; x.final != 0 {
			state = append(state, ref)
		}
	}
	if newest != nil {
		c.After = &newest.ref
	}
	if w.chance(100) {
		c.ExpiresAt = w.now + w.between(minute, 20*minute)
	}
	c.Digest = stateDigest(state)
	w.header(c, n.name, wid, n.now())
	l.saved[entry.NewRef(n.name, c.Checkpoint)] = restorePoint{state, c.Digest}
	n.push(w.seal(c, w.signer(n.name)), func(error) {})
}

// complain has somebody signal that an execution went wrong.
func (w *world) complain() {
	if len(w.observer.order) == 0 {
		return
	}
	x := pick(w, w.observer.order)
	s := &entry.Signal{Subject: x.ref, Class: "tool", Code: "error", Standing: entry.StandingExecutor, Effects: entry.EffectsUnknown,
		ReplaySafety: entry.ReplayUnknown, ObservedAt: w.now}
	iss := x.agent
	switch w.rng.IntN(8) {
	case 0, 1:
		iss, s.Standing, s.Evidence = "m", entry.StandingMonitor, []entry.Evidence{{Digest: digest("evidence")}}
	case 2:
		iss, s.Standing = "p3", entry.StandingMonitor
	case 3:
		for _, child := range w.observer.order {
			if slices.ContainsFunc(child.parents, func(p entry.Parent) bool { return p.Exec == x.ref }) {
				iss, s.Standing = child.agent, entry.StandingDownstream
			}
		}
	case 4:
		for _, first := range w.observer.order {
			if first.agent == x.agent && first.wid == x.wid && !first.comp {
				s.Since = first.ref
				break
			}
		}
	}
	if x.progress == entry.Failed && w.chance(500) {
		s.Effects = entry.EffectsNone
	}
	if before, ok := w.observer.recordedOf(x.ref); ok {
		ref := w.ledger.ref(before)
		s.Supersedes = &ref
	}
	w.header(s, iss, x.wid, w.now)
	w.deliver(w.seal(s, w.signer(iss)), 0)
}

// deliver submits an entry of a party without a runtime, over a network that
// loses, delays and doubles; who is not answered tries again.
func (w *world) deliver(e *entry.Entry, tries int) {
	again := func() {
		if tries < 20 {
			w.after(w.between(second, 10*second), fmt.Sprintf("%s tries again", e.Header.Iss), func() { w.deliver(e, tries+1) })
		}
	}
	if w.fault(w.plan.loss) {
		again()
		return
	}
	if w.fault(w.plan.double) {
		w.after(w.between(1, minute), fmt.Sprintf("%s of %s arrives again", e.Kind, e.Header.Iss), func() { _, _ = w.ledger.submit(e) })
	}
	_, _ = w.ledger.submit(e)
	if w.fault(w.plan.loss) {
		again()
	}
}
