package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// order is a verified decision: the permission of the agent to act on an incident.
type order struct {
	verdict  bundle.Verdict   // without Next
	openedAt int64            // Unix milliseconds, of the opening signal
	wid      entry.WorkflowID // of that
	size     uint64           // of the head that it was checked under
	links    int              // policies and keys known then
	complete bool             // all pages are there
	commands []bundle.Command
	waiting  map[entry.Ref]bool  // checkpoints of lines that cannot go back yet, in this step
	firsts   map[entry.Ref]value // envelopes of the first entries of the members
}

func (o *order) command(exec entry.Ref) *bundle.Command {
	for i := range o.commands {
		if o.commands[i].Exec == exec {
			return &o.commands[i]
		}
	}
	return nil
}

// ask is a question for a bundle.
type ask struct {
	wait
	after  uint64 // where the page before ended
	whole  bool   // with all policies and keys
	doubts int    // times that a member would have been refused for what the log does not prove
	order  *order // of the pages so far
}

// wantBundle asks for the bundle of an incident; 0 asks for news.
func (a *Agent) wantBundle(incident uint64) {
	if a.asks[incident] == nil {
		a.asks[incident] = &ask{}
	}
}

// look asks for commands when it is time.
func (a *Agent) look(ctx context.Context, now int64) (bool, int64, error) {
	if due := max(a.lookAt, a.looking.till); due > now {
		return false, due, nil
	}
	hints, err := a.cfg.Ledger.Commands(ctx)
	if err == nil && len(hints.Commands) > MaxHints {
		err = errors.New("agent: commands: more incidents than there may be")
	}
	if err != nil {
		return true, 0, a.postpone(&a.looking, 0, err, now)
	}
	a.lookAt, a.looking = now+a.cfg.LookMS, wait{}
	clear(a.hinted)
	a.hintedAt = hints.Size
	if a.stored == "" || hints.News != 0 && hints.News >= a.size {
		a.wantBundle(0)
	}
	for _, h := range hints.Commands {
		a.hinted[h.Incident] = h.Decision
		o := a.orders[h.Incident]
		if o == nil || o.verdict.Decision.Index != h.Decision || o.links != len(a.accepted.Links) || h.Changed >= o.size && a.waits(o) {
			a.wantBundle(h.Incident)
		}
	}
	return true, 0, nil
}

// waits reports whether a member of an order is not released yet, so that the order can change.
func (a *Agent) waits(o *order) bool {
	for i := range o.commands {
		c := &o.commands[i]
		if w := a.covering(o, c); c.Result == "" && !c.Released && c.Method != entry.MethodNone && (w == nil || w.Phase == noted) {
			return true
		}
	}
	return false
}

// postpone delays a question that the ledger did not answer. Proof of two logs stops
// the agent.
func (a *Agent) postpone(w *wait, incident uint64, err error, now int64) error {
	if fork, ok := errors.AsType[*verify.ForkError](err); ok {
		return a.forked(fork.Evidence())
	}
	least := int64(0)
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		least = refusal.RetryAfterMS
	}
	w.failed(now, least)
	a.cfg.Tell(Event{Kind: EventRetry, Incident: incident, Err: err})
	return nil
}

// ask fetches one page of one bundle, checks it, and stores the accepted state.
func (a *Agent) ask(ctx context.Context, now int64) (bool, int64, error) {
	wake := int64(0)
	for _, incident := range slices.Sorted(maps.Keys(a.asks)) {
		q := a.asks[incident]
		if q.till > now {
			wake = earlier(wake, q.till)
			continue
		}
		return true, 0, a.fetch(ctx, incident, q, now)
	}
	return false, wake, nil
}

func (a *Agent) fetch(ctx context.Context, incident uint64, q *ask, now int64) error {
	page, next, err := a.cfg.Ledger.Bundle(ctx, Query{Incident: incident, Head: a.accepted.Head, From: a.size, After: q.after, Whole: q.whole && a.size > 0,
		Absences: a.cfg.Absences, Anew: q.doubts > 0 || q.tries > 0})
	if err != nil {
		if refusal, ok := errors.AsType[*entry.Refusal](err); ok && !temporary(refusal) {
			delete(a.asks, incident) // it is hinted at again, if there is anything
			a.cfg.Tell(Event{Kind: EventRefused, Incident: incident, Err: err})
			return nil
		}
		return a.postpone(&q.wait, incident, err, now)
	}
	verdict, err := page.Check(a.accepted, now)
	if err == nil && a.cfg.Absences {
		err = verdict.RequireWhole()
	}
	if keepErr := a.keep(verdict.Next); keepErr != nil { // first, on an error too
		return keepErr
	}
	stands := page.Head == a.accepted.Head // whatever the decision is worth, the entries stand in the log
	if stands {
		a.noteResults(verdict.Entries)
	}
	switch {
	case err != nil && stands && next > q.after && verdict.ExpiresAt != 0 && now >= verdict.ExpiresAt:
		q.after, q.order, q.till = next, nil, now+pauseMin // outcomes of the other members are all that there is to learn
		return nil
	case err != nil:
		return a.distrust(incident, q, err, now)
	}
	a.mistrust = 0
	if page.Decision == 0 || verdict.Incident != incident {
		q.after = next
		return a.onlyNews(incident, q)
	}
	if q.after != 0 && (q.order == nil || q.order.verdict.Decision != verdict.Decision) {
		q.after, q.order, q.till = 0, nil, now+pauseMin // the pages before were of another decision, or none that holds
		return nil
	}
	q.after = next
	return a.takePage(q, &verdict, now)
}

// distrust handles a bundle that does not verify. The agent asks for the bundle again, unless the
// bundle shows that there are two logs. Before every start, the agent checks earlier orders against
// the state that is accepted now.
func (a *Agent) distrust(incident uint64, q *ask, err error, now int64) error {
	q.after, q.order = 0, nil
	rule, ok := errors.AsType[*bundle.RuleError](err)
	if ok && len(rule.Heads) == 2 {
		_, proven := errors.AsType[*verify.ForkError](err)
		if a.mistrust++; proven || a.mistrust >= proofsMax {
			return a.forked((&verify.ForkError{First: rule.Heads[0], Second: rule.Heads[1], Detail: rule.Error()}).Evidence())
		}
	}
	if ok && (rule.Rule == "TRU-2" || rule.Rule == "TRU-3") {
		q.whole = true
	}
	if q.failed(now, 0); q.tries >= distrustMax { // it is hinted at again, for as long as there is anything to do
		delete(a.asks, incident)
	}
	a.cfg.Tell(Event{Kind: EventRefused, Incident: incident, Err: err})
	return nil
}

// onlyNews ends a question if the answer has no decision to obey.
func (a *Agent) onlyNews(incident uint64, q *ask) error {
	if q.after != 0 {
		return nil
	}
	delete(a.asks, incident)
	if a.overriddenAt(incident) == 0 { // members that were not started are withheld then
		delete(a.orders, incident)
	}
	return nil
}

// noteResults takes the entries that gave the agent's members their results, for example an entry
// that says that the result is unknown. After a decision has expired, a bundle says no more than
// this. An override counts even if its key was compromised later, because the log counts it.
func (a *Agent) noteResults(entries []entry.Registered) {
	for _, e := range entries {
		ref := entry.LogRef{Index: e.Index, LeafHash: e.LeafHash()}
		switch body := e.Body.(type) {
		case *entry.Outcome:
			of := stand{body.Incident, body.Exec}
			if agent, _ := body.Exec.Split(); agent == a.cfg.Agent && a.stands[of].Index < e.Index {
				a.stands[of] = ref
			}
		case *entry.Decision:
			if body.Act == entry.ActOverride {
				a.override(body.Incident, ref)
			}
		}
	}
}

func (a *Agent) override(incident uint64, at entry.LogRef) {
	known := a.overrides[incident]
	i, there := slices.BinarySearchFunc(known, at.Index, func(one entry.LogRef, index uint64) int { return compare(one.Index, index) })
	if !there {
		a.overrides[incident] = slices.Insert(known, i, at)
	}
}

// overriddenAt returns the index of the newest override of an incident; 0: none
// is known.
func (a *Agent) overriddenAt(incident uint64) uint64 {
	known := a.overrides[incident]
	if len(known) == 0 {
		return 0
	}
	return known[len(known)-1].Index
}

// takePage takes up a page of a bundle that verified.
func (a *Agent) takePage(q *ask, v *bundle.Verdict, now int64) error {
	incident, o := v.Incident, q.order
	if o == nil || o.verdict.Decision != v.Decision {
		o = &order{firsts: map[entry.Ref]value{}}
		q.order = o
	}
	o.verdict, o.size, o.links, o.complete = *v, a.size, len(a.accepted.Links), q.after == 0
	o.verdict.Next = bundle.Accepted{}
	a.evidence(o, incident)
	var doubt error // who carried the bundle may have altered it, or left something out
	for i := range v.Commands {
		c := &v.Commands[i]
		if c.Refused != nil && !c.Refused.Proven && doubt == nil {
			doubt = c.Refused
		}
		if old := o.command(c.Exec); old != nil {
			*old = *c // it came on another page too
		} else {
			o.commands = append(o.commands, *c)
		}
	}
	if q.after == 0 && o.keep(a.orders[incident]) {
		doubt = bundle.ErrMissing
	}
	if doubt != nil && q.doubts < doubtsMax { // an outcome refused can hardly be taken back
		q.doubts++
		q.after, q.order = 0, nil
		q.failed(now, 0)
		a.cfg.Tell(Event{Kind: EventRefused, Incident: incident, Err: doubt})
		return nil
	}
	if q.after != 0 {
		return nil
	}
	delete(a.asks, incident)
	slices.SortFunc(o.commands, func(x, y bundle.Command) int { return -compare(x.Index, y.Index) })
	a.orders[incident] = o
	a.cfg.Tell(Event{Kind: EventAccepted, Incident: incident, Text: strings.Join(v.Warnings, "; ")})
	return nil
}

// keep takes over the members that an earlier order of the same decision showed, and reports
// whether there were any. A member that was proven once stays in the plan, even if a later bundle
// does not show it.
func (o *order) keep(before *order) (lacked bool) {
	if before == nil || before.verdict.Decision != o.verdict.Decision {
		return false
	}
	for i := range before.commands {
		if c := &before.commands[i]; o.command(c.Exec) == nil {
			o.commands, o.firsts[c.Exec], lacked = append(o.commands, *c), before.firsts[c.Exec], true
		}
	}
	return lacked
}

func compare(x, y uint64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// evidence keeps the facts that the commands do not have: the opening of the incident, the
// declarations of the members, and the places of outcomes.
func (a *Agent) evidence(o *order, incident uint64) {
	byIndex := map[uint64]entry.Ref{}
	results := map[uint64][]entry.Ref{} // an override has many
	for i := range o.verdict.Commands {
		c := &o.verdict.Commands[i]
		byIndex[c.Index] = c.Exec
		if c.Result != "" {
			results[c.Outcome] = append(results[c.Outcome], c.Exec)
		} else {
			delete(a.stands, stand{incident, c.Exec})
		}
	}
	for _, e := range o.verdict.Entries {
		if exec, first := byIndex[e.Index]; first {
			o.firsts[exec] = e.AppendEnvelope(nil)
		}
		for _, of := range results[e.Index] {
			a.stands[stand{incident, of}] = entry.LogRef{Index: e.Index, LeafHash: e.LeafHash()}
		}
		if e.Index == incident {
			o.openedAt, o.wid = e.RegisteredAt, e.Header.Wid
		}
	}
	o.verdict.Entries = nil
}

// confirmHead asks the second source to confirm the head of a first contact.
func (a *Agent) confirmHead(ctx context.Context, now int64) (bool, int64, error) {
	switch {
	case a.accepted.Confirmed || a.stored == "" || a.cfg.Second == nil:
		return false, 0, nil
	case a.second.till > now:
		return false, a.second.till, nil
	}
	proof, err := a.cfg.Second.Confirm(ctx, a.accepted.Head)
	next := a.accepted
	if err == nil {
		next, err = a.accepted.Confirm(proof)
	}
	if err != nil {
		return true, 0, a.postpone(&a.second, 0, err, now)
	}
	return true, 0, a.keep(next)
}
