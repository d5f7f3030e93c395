package act

import (
	"errors"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// YourReason stands in a draft before a person has given a reason.
const YourReason = "(your reason)"

// NeedsReason reports whether an order of the verb must give a reason.
func (v Verb) NeedsReason() bool { return v != Record }

// Suppose is [Log.Prepare] for a person who has not chosen everything yet. The draft is made as if
// the person had given a reason, and had chosen every member that can be released. If nothing tells
// which agent gets the task, the draft names any agent that may get it, and is Unnamed.
func (l *Log) Suppose(o *Order, by entry.Principal) (*Draft, error) {
	whole := *o
	if whole.Reason == "" && o.Verb.NeedsReason() {
		whole.Reason = YourReason
	}
	if o.Task == "" && o.Verb == Release && len(o.Members) == 0 {
		whole.Members = l.Releasable(o.Incident)
	}
	d, err := l.Prepare(&whole, by)
	if unfit, ok := errors.AsType[*Obstacle](err); !ok || !unfit.Unnamed {
		return d, err
	}
	t, err := l.Task(o.Task)
	if err != nil {
		return nil, err
	}
	whole.Agent = l.anyAgent(t)
	if d, err = l.Prepare(&whole, by); err == nil {
		d.Unnamed = true
	}
	return d, err
}

// Releasable returns the members of an incident whose fence a release would lift.
func (l *Log) Releasable(incident uint64) []entry.Ref {
	plan, ok := l.State.PlanInForce(incident, l.Now)
	if !ok {
		return nil
	}
	return plan.Releasable()
}

// anyAgent returns an agent of the log that may get a task; empty: there is none.
func (l *Log) anyAgent(t *api.Task) entry.Principal {
	for _, agent := range l.State.Chain().Agents() {
		excepted := t.Reassign != nil && agent.Principal == t.Reassign.Except
		if slices.Contains(agent.Roles, entry.RoleAgent) && !excepted {
			return agent.Principal
		}
	}
	return ""
}

// Key is a key that could sign, and whom it speaks for in the log.
type Key struct {
	ID        string          // as in entries
	Principal entry.Principal // empty: the key is enrolled for no principal
}

// Offer is a verb that fits the state of an incident or a task.
type Offer struct {
	Verb Verb
	// MayNot says of each key why it may not sign an order of the verb; nil: it may.
	MayNot []error
}

// Offers returns the verbs that fit the state of the incident or the task of an order, and says
// which of some keys may sign them. A verb that cannot be drafted is left out. For goroutines, a
// call counts as a change of the state.
func (l *Log) Offers(about Order, keys []Key) (list []Offer) {
	verbs, by := Verbs(), entry.Principal("")
	if about.Task != "" {
		verbs = TaskVerbs()
	}
	if len(keys) > 0 {
		by = keys[0].Principal
	}
	for _, verb := range verbs {
		about.Verb, about.Hours = verb, DefaultHours
		d, err := l.Suppose(&about, by)
		if err != nil || !d.fits() {
			continue
		}
		offer := Offer{Verb: verb}
		for _, key := range keys {
			offer.MayNot = append(offer.MayNot, l.May(d, key.Principal, key.ID))
		}
		list = append(list, offer)
	}
	return list
}

// fits reports whether the verb of a draft fits the state of its incident or its task. A task that
// no operator must answer for takes no release, although its table has one (TSK-1).
func (d *Draft) fits() bool {
	if d.Task != nil {
		return d.Order.Verb != Release || d.Task.GivenBy == entry.TaskRelease
	}
	if decision, is := d.Bodies[0].(*entry.Decision); is {
		return coord.Takes(d.Incident.State, decision.Act)
	}
	return d.Incident.State.Open()
}
