package act

import (
	"errors"
	"slices"

	"recoveryledger/ledger/entry"
)

// YourReason stands in a draft before a person has given a reason.
const YourReason = "(your reason)"

// NeedsReason reports whether an order of the verb must give a reason.
func (v Verb) NeedsReason() bool { return v != Record }

// Suppose is [Log.Prepare] for a person who has not chosen everything yet. The draft is made as if
// the person had given a reason, and had chosen every member that can be released, and the agent
// that the coordinator would choose. If nothing tells that agent, the draft names any agent, and is
// Unnamed.
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
	unnamed := len(t.Candidates) == 0
	if whole.Agent = l.anyAgent(); !unnamed {
		whole.Agent = t.Candidates[0].Agent
	}
	if d, err = l.Prepare(&whole, by); err == nil {
		d.Unnamed = unnamed
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

// anyAgent returns an agent of the log that may hold a task; empty: there is none.
func (l *Log) anyAgent() entry.Principal {
	for _, agent := range l.State.Chain().Agents() {
		if slices.Contains(agent.Roles, entry.RoleAgent) {
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
// which of some keys may sign them. A verb that cannot be drafted is left out. An incident that is
// over takes a release or an acknowledgement alone (protocol.md, section 6).
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
		if err != nil {
			continue
		}
		if d.Incident != nil && !d.Incident.State.Open() && verb != Release && verb != Acknowledge {
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
