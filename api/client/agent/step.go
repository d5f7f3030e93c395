package agent

import (
	"context"
	"errors"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// wait is a pause that grows with each failure.
type wait struct {
	till  int64 // Unix milliseconds
	tries int
}

// failed starts a longer pause, of least milliseconds or more.
func (w *wait) failed(now, least int64) {
	w.till = now + max(min(least, leastMax), min(pauseMin<<min(w.tries, 16), pauseMax))
	w.tries++
}

// Poke says that the ledger may have news. The next step then asks for commands.
func (a *Agent) Poke() { a.lookAt = 0 }

// Size returns the number of entries that the accepted head covers.
func (a *Agent) Size() uint64 { return a.size }

// Accepted returns the state that the agent has accepted and stored.
func (a *Agent) Accepted() bundle.Accepted { return a.accepted }

// Idle reports whether the log has the entries of every undertaking.
func (a *Agent) Idle() bool {
	for _, w := range a.works {
		if w.Phase != closed {
			return false
		}
	}
	return len(a.asks) == 0
}

// Step does at most the next thing, at the agent's own time now (Unix milliseconds). next is
// when Step wants to be called again: at once if next is not after now. [Agent.Poke] makes that
// earlier.
//
// Step tells [Config.Tell] the errors of ledger, log, source and hooks, and tries again. The
// error wraps [ErrStopped]: the store has failed, the key did not sign, or there is a [*ForkError].
// Every further call returns the same error.
func (a *Agent) Step(ctx context.Context, now int64) (next int64, err error) {
	if a.stopped != nil {
		return 0, a.stopped
	}
	next = now + a.cfg.LookMS
	a.works = slices.DeleteFunc(a.works, func(w *work) bool { return w.Phase == closed })
	todo := []func(context.Context, int64) (did bool, wake int64, err error){
		a.look, a.log, a.reconcile, a.ask, a.confirmHead, a.begin, a.followLog, a.unannounced,
	}
	if a.looked { // the rest has its turn, however often something is new
		todo = append(todo[1:], a.look)
	}
	for i, try := range todo {
		did, wake, err := try(ctx, now)
		if err != nil {
			return 0, err
		}
		if did {
			a.looked = i == 0 && !a.looked || i == len(todo)-1 && a.looked
			return now, nil
		}
		if wake > now {
			next = min(next, wake)
		}
	}
	return next, nil
}

// log submits the first entry of an outbox that has waited long enough.
func (a *Agent) log(ctx context.Context, now int64) (bool, int64, error) {
	wake := int64(0)
	for _, w := range a.works {
		if w.mem.sent >= len(w.Outbox) || w.Phase == closed {
			continue
		}
		if w.aside() && a.learned(w) > w.mem.known {
			w.mem.waitTill, w.mem.pauses, w.mem.refusals = 0, 0, 0
		}
		if w.mem.waitTill > now {
			wake = earlier(wake, w.mem.waitTill)
			continue
		}
		if w.Phase == noted && !a.mayPrepare(w, now) {
			continue // begin withdraws it, or waits for the decision
		}
		return true, 0, a.submit(ctx, w, now)
	}
	return false, wake, nil
}

// earlier returns the earlier of two instants, 0 being none.
func earlier(one, other int64) int64 {
	if one == 0 {
		return other
	}
	return min(one, other)
}

// submit sends the next entry of an outbox to the ledger.
func (a *Agent) submit(ctx context.Context, w *work, now int64) error {
	it := &w.Outbox[w.mem.sent]
	e, err := entry.Decode(it.Envelope)
	if err != nil {
		return a.stop(err) // the envelope was checked when it was read
	}
	ref, err := a.cfg.Ledger.Submit(ctx, e)
	if err != nil {
		return a.unsent(w, e, err, now)
	}
	a.cfg.Tell(Event{Kind: EventLogged, Incident: w.Incident, Exec: w.Members[0].Exec, Text: describe(e)})
	if o, ok := e.Body.(*entry.Outcome); ok {
		a.stands[stand{o.Incident, o.Exec}] = ref
	}
	return a.sent(w)
}

// sent passes over an entry that the log has, or can do without.
func (a *Agent) sent(w *work) error {
	w.mem.sent++
	w.mem.pauses, w.mem.refusals, w.mem.named = 0, 0, 0
	if w.mem.sent < len(w.Outbox) || w.Phase != done {
		return nil
	}
	w.Phase, w.Outbox, w.mem.sent = closed, nil, 0
	a.lookAt = 0 // the members after it may be released now
	return a.save(w.Name, w)
}

// unsent handles an entry that the ledger did not take, or may not have taken.
func (a *Agent) unsent(w *work, e *entry.Entry, err error, now int64) error {
	if fork, ok := errors.AsType[*verify.ForkError](err); ok {
		return a.forked(fork.Evidence())
	}
	refusal, refused := errors.AsType[*entry.Refusal](err)
	if !refused || temporary(refusal) {
		least := int64(0)
		if refused {
			least = refusal.RetryAfterMS
		}
		w.pause(now, least)
		a.cfg.Tell(Event{Kind: EventRetry, Incident: w.Incident, Exec: w.Members[0].Exec, Text: describe(e), Err: err})
		return nil
	}
	if refusal.Problem == entry.Stale {
		// It was not registered before, since that would have been told first.
		return a.again(w, now, nil)
	}
	a.cfg.Tell(Event{Kind: EventRefused, Incident: w.Incident, Exec: w.Members[0].Exec, Text: describe(e), Err: err})
	if refusal.Problem == entry.UnknownIssuer { // its key counts no more: the agent gets another one
		w.pause(now, refusal.RetryAfterMS)
		return a.again(w, now, nil)
	}
	if w.Outbox[w.mem.sent].Optional {
		return a.sent(w)
	}
	if w.Phase == noted && refusal.Problem == entry.StateConflict && refusal.Field == "progress" {
		return a.older(w, now)
	}
	w.mem.refusals++
	w.mem.known = max(w.mem.known, a.learned(w))
	w.pause(now, refusal.RetryAfterMS)
	a.wantBundle(w.Incident)
	if o, ok := e.Body.(*entry.Outcome); ok {
		return a.outcomeRefused(w, o, refusal, now)
	}
	return nil
}

// older handles a compensation that the log has and that this store was only about to announce.
// The store is an older copy, and counts as lost.
func (a *Agent) older(w *work, now int64) error {
	a.cfg.Tell(Event{Kind: EventLost, Incident: w.Incident, Exec: w.Members[0].Exec, Err: &DamageError{w.Name, "the log is ahead of the store: the store is an older copy"}})
	if err := a.repairStore(a.fresh(now), nil); err != nil {
		return err
	}
	w.Lost, w.Phase, w.Outbox, w.mem = true, started, nil, memory{}
	if err := a.save(w.Name, w); err != nil {
		return err
	}
	return a.settle()
}

// learned is the index of the newest accepted entry that a refusal may have rested on: a policy or
// key, the decision, an override, or an entry that gave a member its result.
func (a *Agent) learned(w *work) uint64 {
	newest := a.overriddenAt(w.Incident)
	if o := a.orders[w.Incident]; o != nil {
		newest = max(newest, o.verdict.Decision.Index)
	}
	if links := a.accepted.Links; len(links) > 0 {
		newest = max(newest, links[len(links)-1].Index)
	}
	for i := range w.Members {
		newest = max(newest, a.stands[stand{w.Incident, w.Members[i].Exec}].Index)
	}
	return newest
}

// temporary reports whether the same entry may be taken later.
func temporary(r *entry.Refusal) bool {
	return r.Problem == entry.RateLimited || r.Problem == entry.NotReady || r.Problem == entry.InsufficientStorage
}

// outcomeRefused sends the outcome again in the place of an entry that may stand, or the least
// certain outcome.
func (a *Agent) outcomeRefused(w *work, o *entry.Outcome, refusal *entry.Refusal, now int64) error {
	switch refusal.Field {
	case "supersedes":
		return a.otherPlace(w, o, now)
	case "comp_exec", "post_digest", "result":
		if o.Result == entry.ResultUnknown || o.Result == entry.ResultFailed {
			if refusal.Field == "result" { // the log has one already that is no less sure
				return a.sent(w)
			}
			return nil
		}
		return a.again(w, now, func(o *entry.Outcome) {
			o.Residual = text("the agent reports " + string(o.Result) + ", which the ledger does not take: " + refusal.Detail)
			o.Result, o.CompExec, o.PostDigest = entry.ResultUnknown, "", ""
		})
	}
	return nil
}

// otherPlace says the same again in the place of the next that may stand, at last
// of nothing; where none is right the log has more than is known.
func (a *Agent) otherPlace(w *work, o *entry.Outcome, now int64) error {
	known := a.standing(o)
	switch {
	case o.Supersedes != nil:
		w.mem.named = slices.Index(known, *o.Supersedes) + 1
	case w.mem.named > 0 || len(known) == 0:
		w.mem.named = 0
		a.seek(w.Incident)
		if len(known) == 0 {
			return nil
		}
		return a.again(w, now, nil) // after the pause
	}
	if !w.aside() {
		w.mem.waitTill = now
	}
	return a.again(w, now, nil)
}

// seek looks in the log, from the opening of an incident on, for the entry that gave a member its
// result. An agent that does not follow the log asks for all overrides again, because a decision
// after an override hides the override.
func (a *Agent) seek(since uint64) {
	a.follow.rewind(since)
	if a.cfg.Log == nil {
		a.wantBundle(0)
		a.asks[0].whole = true
	}
}

// again makes the next entry of an outbox under a new header, changed if there
// is a change to make, and stores it.
func (a *Agent) again(w *work, now int64, change func(*entry.Outcome)) error {
	old, err := entry.Decode(w.Outbox[w.mem.sent].Envelope)
	if err != nil {
		return a.stop(err)
	}
	if o, ok := old.Body.(*entry.Outcome); ok {
		a.supersede(o, w.mem.named)
		if change != nil {
			change(o)
		}
	}
	envelope, err := a.sign(old.Body, now)
	if err != nil {
		return err
	}
	w.Outbox[w.mem.sent].Envelope = envelope
	return a.saveWork(w)
}

// saveWork stores an undertaking without the entries of its outbox that the log has.
func (a *Agent) saveWork(w *work) error {
	if w.Phase != noted { // before the hook the whole outbox is kept: its entries show the progress
		w.Outbox, w.mem.sent = w.Outbox[w.mem.sent:], 0
	}
	return a.save(w.Name, w)
}
