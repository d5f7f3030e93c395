package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// inForce returns the order about an incident if the agent may start work on it now. Its time
// is not over, it was checked against all accepted policies and keys, and no newer act is known
// (AGT-2, checked again before every start).
func (a *Agent) inForce(incident uint64, now int64) *order {
	o := a.orders[incident]
	if o == nil || !a.accepted.Confirmed || o.over(now) || o.links != len(a.accepted.Links) {
		return nil
	}
	if epoch, known := a.accepted.Epoch(incident, now); known && epoch > o.verdict.Epoch || a.ended(incident, o, now) != "" {
		return nil
	}
	return o
}

// over reports whether the time of a decision has passed.
func (o *order) over(now int64) bool {
	return now >= o.verdict.ExpiresAt || now >= o.verdict.DeadlineAt
}

// mayPrepare reports whether the entries that come before a hook may be logged now.
func (a *Agent) mayPrepare(w *work, now int64) bool {
	o := a.inForce(w.Incident, now)
	if o == nil || o.verdict.Decision != w.Decision {
		return false
	}
	c := o.command(w.Members[0].Exec)
	return c != nil && c.Result == "" && c.Refused == nil && c.Released
}

// begin starts one undertaking that may start, or answers one member that may not.
func (a *Agent) begin(ctx context.Context, now int64) (bool, int64, error) {
	wake := int64(0)
	for _, w := range a.works {
		if w.Phase != noted {
			continue
		}
		if did, err := a.prepared(ctx, w, now); did || err != nil {
			return did, 0, err
		}
		if w.mem.waitTill > now { // the undertaking is tried again
			wake = earlier(wake, w.mem.waitTill)
		}
	}
	for _, incident := range slices.Sorted(maps.Keys(a.orders)) {
		o := a.orders[incident]
		if why := a.ended(incident, o, now); why != "" {
			if did, err := a.withhold(o, why, now); did || err != nil {
				return did, 0, err
			}
			delete(a.orders, incident)
			continue
		}
		if a.inForce(incident, now) == nil {
			a.stale(incident, o)
			continue
		}
		wake = earlier(wake, min(o.verdict.ExpiresAt, o.verdict.DeadlineAt))
		o.waiting = map[entry.Ref]bool{}
		for i := range o.commands {
			if did, err := a.command(ctx, o, &o.commands[i], now); did || err != nil {
				return did, 0, err
			}
		}
	}
	return false, wake, nil
}

// stale asks again for a bundle that was checked before newer policies or keys were accepted.
func (a *Agent) stale(incident uint64, o *order) {
	if a.accepted.Confirmed && o.links != len(a.accepted.Links) {
		a.wantBundle(incident)
	}
}

// ended returns why the agent will start nothing more on an order; empty if it still may.
func (a *Agent) ended(incident uint64, o *order, now int64) string {
	if at := a.overriddenAt(incident); at > o.verdict.Decision.Index {
		return overridden(at)
	}
	if o.over(now) {
		return "not started: the time of the decision is over"
	}
	return ""
}

func overridden(at uint64) string {
	return "not started: overridden at entry " + strconv.FormatUint(at, 10)
}

// withheld reports whether an override gave a member its result. Then no amend has opened the
// member again.
func (a *Agent) withheld(incident uint64, c *bundle.Command) bool {
	return c.Result == entry.Withheld && slices.ContainsFunc(a.overrides[incident], func(at entry.LogRef) bool { return at.Index == c.Outcome })
}

// withhold answers the next open member that was not started.
func (a *Agent) withhold(o *order, why string, now int64) (bool, error) {
	for i := range o.commands {
		c := &o.commands[i]
		if c.Result != "" || c.Method == entry.MethodNone || a.covering(o, c) != nil {
			continue
		}
		return true, a.unstarted(o, c, why, now)
	}
	return false, nil
}

// unstarted answers a member that will not be started.
func (a *Agent) unstarted(o *order, c *bundle.Command, why string, now int64) error {
	if a.lost(o.verdict.Incident, o.openedAt) {
		return a.answer(o, c, entry.ResultUnknown, "the agent lost its store: nobody knows whether this was started", now)
	}
	return a.answer(o, c, entry.Withheld, why, now)
}

// prepared starts a compensation that the log knows of, or withdraws it.
func (a *Agent) prepared(ctx context.Context, w *work, now int64) (bool, error) {
	o := a.orders[w.Incident]
	ended := ""
	switch {
	case o != nil:
		ended = a.ended(w.Incident, o, now)
	case now >= w.ExpiresAt || now >= w.DeadlineAt:
		ended = "not started: the time of the decision is over"
	}
	if at := a.overriddenAt(w.Incident); at > w.Decision.Index && ended == "" {
		ended = overridden(at)
	}
	if ended != "" {
		return true, a.withdraw(w, entry.Withheld, ended, now)
	}
	if a.inForce(w.Incident, now) == nil {
		return false, nil
	}
	c := o.command(w.Members[0].Exec)
	switch {
	case c != nil && a.withheld(w.Incident, c):
		return true, a.withdraw(w, entry.Withheld, overridden(c.Outcome), now)
	case c == nil || c.Result != "":
		return true, a.withdraw(w, "", "", now)
	case c.Refused != nil:
		return true, a.withdraw(w, entry.Refused, c.Refused.Error(), now)
	case w.Hook != Drain && !w.does(c): // the line must go further back
		return true, a.withdraw(w, "", "", now)
	case o.verdict.Decision != w.Decision: // amended meanwhile
		return true, a.renew(w, o, now)
	case w.mem.waitTill > now || w.mem.sent < len(w.Outbox) || !c.Released && w.Hook != Drain:
		return false, nil
	}
	return true, a.start(ctx, w, now)
}

// withdraw ends an undertaking that was not started.
func (a *Agent) withdraw(w *work, result entry.Result, why string, now int64) error {
	w.Outbox, w.mem.sent = nil, 0
	if w.Hook == Compensate {
		if err := a.compensation(w, entry.Cancelled, true, now); err != nil {
			return err
		}
	}
	if w.Status == NoEffect && result == entry.Withheld {
		why += " again; the attempt before had no effect"
	}
	for i := range w.Members {
		if result == "" {
			break
		}
		if err := a.outcome(w, &w.Members[i], result, Report{Residual: why}, now); err != nil {
			return err
		}
	}
	if w.Phase = done; len(w.Outbox) == 0 {
		w.Phase = closed
	}
	return a.save(w.Name, w)
}

// renew puts an undertaking that was not started under the decision that replaced its own
// decision.
func (a *Agent) renew(w *work, o *order, now int64) error {
	v := &o.verdict
	w.Decision, w.Epoch, w.ExpiresAt, w.DeadlineAt = v.Decision, v.Epoch, v.ExpiresAt, v.DeadlineAt
	w.Outbox, w.mem.sent, w.mem.refusals = nil, 0, 0
	if w.Hook == Compensate {
		if err := a.prepare(w, now); err != nil {
			return err
		}
	}
	return a.save(w.Name, w)
}

// prepare fills the outbox with the entries that the log must have before a compensation acts
// (EXE-2). The name of the compensation's execution contains the decision, so that another
// decision has a new execution.
func (a *Agent) prepare(w *work, now int64) error {
	if w.CompExec != "" { // of an earlier attempt or decision
		if err := a.compensation(&work{Members: w.Members, CompExec: w.CompExec, Attempt: w.Attempt, Incident: w.Incident, Decision: w.Decision},
			entry.Cancelled, true, now); err != nil {
			return err
		}
	}
	w.CompExec = fmt.Sprintf("undo-%d-%d-%d", w.Decision.Index, w.Members[0].Index, w.Attempt)
	if err := a.compensation(w, entry.Planned, false, now); err != nil {
		return err
	}
	return a.compensation(w, entry.Started, false, now)
}

// command does the next thing about a member.
func (a *Agent) command(ctx context.Context, o *order, c *bundle.Command, now int64) (bool, error) {
	switch {
	case a.covering(o, c) != nil:
		return false, nil
	case a.withheld(o.verdict.Incident, c) && c.Method != entry.MethodNone:
		return true, a.unstarted(o, c, overridden(c.Outcome), now)
	case c.Result != "":
		return false, nil
	}
	if c.Refused != nil {
		return a.refuse(o, c, now)
	}
	drain := a.find(o.verdict.Incident, c.Exec, Drain)
	if c.Method != entry.MethodCancel && a.cfg.Hooks.Drain != nil && drain == nil {
		return true, a.addWork(ctx, a.newWork(o, Drain, c), o, now)
	}
	if drain != nil && drain.Phase != closed {
		return false, nil
	}
	ended := drain != nil && drain.Progress == entry.Cancelled
	switch c.Method {
	case entry.MethodCancel:
		if a.cfg.Hooks.Cancel == nil {
			return true, a.answer(o, c, entry.NotExecuted, "", now)
		}
		return true, a.addWork(ctx, a.newWork(o, Cancel, c), o, now)
	case entry.MethodResidual:
		if ended {
			return true, a.answer(o, c, entry.NotExecuted, "", now)
		}
		return a.residual(o, c, now)
	case entry.MethodCompensate:
		switch {
		case ended:
			return true, a.answer(o, c, entry.NotExecuted, "", now)
		case a.cfg.Hooks.Compensate == nil:
			return true, a.answer(o, c, entry.Withheld, "not started: the agent has nothing to compensate it with", now)
		case !c.Released:
			return false, nil
		}
		return true, a.addWork(ctx, a.newWork(o, Compensate, c), o, now)
	case entry.MethodRestore:
		return a.restore(ctx, o, c, now)
	}
	return false, nil
}

// residual answers that an effect stands which cannot be undone. If the line of a reversible
// effect went back before an amend found no checkpoint that is old enough, the effect stands no
// more, yet nothing is restored. The store knows whether the line went back. After the store
// was lost, that is not known.
func (a *Agent) residual(o *order, c *bundle.Command, now int64) (bool, error) {
	if before := a.wentBack(o, c); before != nil {
		return a.answerNotRestored(before, o, c, "was to go further", now)
	}
	if c.Effect == entry.EffectReversible && a.lost(o.verdict.Incident, o.openedAt) {
		return true, a.answer(o, c, entry.ResultUnknown, "the agent lost its store: nobody knows whether the line went back before", now)
	}
	return true, a.answer(o, c, entry.ResultIrrevocable, fmt.Sprintf("the effect (%s) stands: nothing can undo it", c.Effect), now)
}

// refuse answers a command that does not hold. Work under an earlier decision is done all the
// same.
func (a *Agent) refuse(o *order, c *bundle.Command, now int64) (bool, error) {
	why := c.Refused.Error()
	if before := a.wentBack(o, c); before != nil {
		return a.answerNotRestored(before, o, c, "the agent refuses the present command: "+why, now)
	}
	if c.Method != entry.MethodNone && a.lost(o.verdict.Incident, o.openedAt) {
		return true, a.answer(o, c, entry.ResultUnknown, "the agent lost its store, and nobody knows whether anything was done before; the agent refuses the present command: "+why, now)
	}
	return true, a.answer(o, c, entry.Refused, why, now)
}

// wentBack returns the newest restore of the incident that may have taken an execution back,
// although the execution's command does not ask for that restore now; nil: there is none.
func (a *Agent) wentBack(o *order, c *bundle.Command) *work {
	for _, before := range slices.Backward(a.restores[o.verdict.Incident]) {
		itself := slices.ContainsFunc(before.Members, func(m CallMember) bool { return m.Exec == c.Exec })
		sameLine := c.Effect == entry.EffectReversible && (c.Line == "" || c.Line == before.Members[0].Wid)
		if before.acted() && (itself || sameLine) {
			return before
		}
	}
	return nil
}

// answerNotRestored answers a member whose line already went back, if no further restore is due. It
// waits until the result of the earlier restore is known.
func (a *Agent) answerNotRestored(before *work, o *order, c *bundle.Command, why string, now int64) (bool, error) {
	if before.Phase == started {
		return false, nil
	}
	return true, a.answer(o, c, entry.ResultFailed, fmt.Sprintf("the line went back to %s by decision %d (%s), and %s",
		before.Checkpoint, before.Decision.Index, before.Status, why), now)
}

// restore takes a line back: all of its open members at once, after every drain
// of the incident.
func (a *Agent) restore(ctx context.Context, o *order, c *bundle.Command, now int64) (bool, error) {
	if a.cfg.Hooks.Restore == nil {
		return true, a.answer(o, c, entry.Withheld, "not started: the agent cannot restore", now)
	}
	if o.waiting[c.Checkpoint] {
		return false, nil
	}
	o.waiting[c.Checkpoint] = true
	group := []*bundle.Command{}
	for i := range o.commands {
		other := &o.commands[i]
		if drain := a.find(o.verdict.Incident, other.Exec, Drain); drain != nil {
			switch {
			case drain.Phase != closed:
				return false, nil
			case drain.Status != Done && other.Line == c.Line:
				return true, a.answer(o, c, entry.Withheld, fmt.Sprintf("not started: %s, of the same line, did not end", other.Exec), now)
			}
		} else if a.cfg.Hooks.Drain != nil && other.Method != entry.MethodCancel && other.Refused == nil {
			switch {
			case other.Result == "" && a.covering(o, other) == nil:
				return false, nil // its turn comes
			case other.Line == c.Line && !other.Result.Undone(): // a withheld outcome, for example, may be in flight
				return true, a.addWork(ctx, a.newWork(o, Drain, other), o, now)
			}
		}
		if done := a.covering(o, other); other.Method == entry.MethodCompensate && other.Result == "" && (done == nil || done.Phase != closed) {
			return false, nil // it comes first, whichever page it came on
		}
		if other.Method != entry.MethodRestore || other.Checkpoint != c.Checkpoint || other.Result != "" || other.Refused != nil || a.covering(o, other) != nil {
			continue
		}
		if !other.Released {
			return false, nil
		}
		group = append(group, other)
	}
	return true, a.addWork(ctx, a.newWork(o, Restore, group...), o, now)
}

// addWork records an undertaking and starts it, unless an entry must be logged first. An
// undertaking that an earlier store may have started counts as started.
func (a *Agent) addWork(ctx context.Context, w *work, o *order, now int64) error {
	lost := a.lost(o.verdict.Incident, o.openedAt)
	if w.Hook == Compensate {
		for _, before := range a.about[w.Members[0].Exec] {
			if before.Hook != Compensate { // EXE-4: across decisions
				continue
			}
			w.Attempt = max(w.Attempt, before.Attempt)
			if before.Status == NoEffect && before.Phase != started {
				w.Attempt = max(w.Attempt, min(before.Attempt+1, keysMax-1)) // the last key, if it had no effect, serves again
			}
			lost = lost || before.Lost && before.Status != Done
		}
		// An incident that was over when the store was lost may have had it made,
		// if the execution is from before: the log tells that, no clock is asked.
		lost = lost || a.lost(o.command(w.Members[0].Exec).Index, a.identity.MadeAt)
		if err := a.prepare(w, now); err != nil {
			return err
		}
	}
	a.add(w)
	switch {
	case lost:
		w.Lost, w.Phase, w.Outbox = true, started, nil
		a.cfg.Tell(Event{Kind: EventLost, Incident: w.Incident, Exec: w.Members[0].Exec})
		return a.save(w.Name, w)
	case w.Hook == Compensate:
		return a.save(w.Name, w)
	}
	return a.start(ctx, w, now)
}

// start is AGT-4: it notes on disk that the hook may run, runs the hook, and notes the result. A
// compensation that an earlier incident has begun under the same key is not begun again. Its result
// is known, or is found out as after a crash.
func (a *Agent) start(ctx context.Context, w *work, now int64) error {
	before := a.begun(w)
	if before != nil && before.Phase != started && (before.Status == Done || before.Status == Failed && !a.findable(w)) {
		return a.finish(w, &Report{Status: before.Status, Residual: fmt.Sprintf("as in incident %d: %s", before.Incident, before.Status)}, now)
	}
	w.Phase, w.Outbox, w.mem = started, nil, memory{fresh: before == nil, vain: w.mem.vain}
	if err := a.save(w.Name, w); err != nil || before != nil {
		return err
	}
	a.cfg.Tell(Event{Kind: EventStarted, Incident: w.Incident, Exec: w.Members[0].Exec, Text: string(w.Hook)})
	err := a.run(ctx, w, w.Hook, now)
	w.mem.fresh = false
	return err
}

// begun returns another undertaking by which a compensation may have had its
// effect under the key that it has now (EXE-4).
func (a *Agent) begun(w *work) *work {
	for _, other := range slices.Backward(a.about[w.Members[0].Exec]) {
		if w.Hook == Compensate && other != w && other.Hook == Compensate && other.Attempt == w.Attempt && other.acted() {
			return other
		}
	}
	return nil
}

// covering returns the undertaking that has seen to a member, or is about it.
func (a *Agent) covering(o *order, c *bundle.Command) *work {
	for _, w := range slices.Backward(a.about[c.Exec]) {
		if w.Incident != o.verdict.Incident {
			continue
		}
		if w.Hook == Drain && (w.Phase != closed || w.Status == Done) {
			continue // it comes before
		}
		if w.Hook != Drain && !w.does(c) {
			continue // reopened: the line is to go further back
		}
		return w
	}
	return nil
}

// does reports whether an undertaking is the one that a command asks for now.
func (w *work) does(c *bundle.Command) bool {
	return w.Checkpoint == c.Checkpoint && slices.ContainsFunc(w.Members, func(m CallMember) bool { return m.Exec == c.Exec && m.Method == c.Method })
}

// find returns the newest undertaking of a hook about a member.
func (a *Agent) find(incident uint64, exec entry.Ref, hook Hook) *work {
	for _, w := range slices.Backward(a.about[exec]) {
		if w.Incident == incident && w.Hook == hook {
			return w
		}
	}
	return nil
}

// newWork returns an undertaking about members.
func (a *Agent) newWork(o *order, hook Hook, commands ...*bundle.Command) *work {
	v, c := &o.verdict, commands[0]
	w := &work{Hook: hook, Number: a.number + 1, Phase: noted, Incident: v.Incident, Wid: o.wid, Decision: v.Decision, Epoch: v.Epoch, ExpiresAt: v.ExpiresAt, DeadlineAt: v.DeadlineAt,
		Checkpoint: c.Checkpoint, Digest: c.Digest}
	for _, c := range commands {
		w.Members = append(w.Members, CallMember{Exec: c.Exec, Index: c.Index, Wid: c.Wid, Effect: c.Effect, Method: c.Method})
		for _, ref := range c.Standing {
			if !slices.Contains(w.Standing, ref) {
				w.Standing = append(w.Standing, ref)
			}
		}
	}
	if hook == Drain {
		w.First = o.firsts[c.Exec]
	}
	w.Name = w.name()
	return w
}

// answer notes the outcome of a member without a hook.
func (a *Agent) answer(o *order, c *bundle.Command, result entry.Result, why string, now int64) error {
	w := a.newWork(o, "", c)
	w.Phase = done
	if err := a.outcome(w, &w.Members[0], result, Report{Residual: why}, now); err != nil {
		return err
	}
	a.add(w)
	return a.save(w.Name, w)
}
