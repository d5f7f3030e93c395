package act

import (
	"fmt"

	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// Consequence says what the draft does once its entries are registered.
func (d *Draft) Consequence() string {
	if d.Task != nil {
		if d.Order.Verb == Cancel {
			return fmt.Sprintf("cancel task %s: nobody works on it any more", d.Task.Task)
		}
		return fmt.Sprintf("%s task %s to %s", d.Order.Verb, d.Task.Task, d.Order.Agent)
	}
	v := d.Incident
	switch d.Order.Verb {
	case Approve, Refuse:
		return fmt.Sprintf("%s proposal %d by %s: %s", d.Order.Verb, v.Proposal.Ref.Index, v.Proposal.Issuer, words.Counted(v.Proposal.RollbackSet.Size, "member"))
	case Escalate:
		return "propose to the approvers to undo " + words.Counted(len(d.Plan.Members), "member") + "; an earlier proposal becomes void, and so do the answers to it"
	case Authorize:
		return fmt.Sprintf("put proposal %d in force: %s", v.Proposal.Ref.Index, words.Counted(len(d.Plan.Members), "member"))
	case Amend:
		return fmt.Sprintf("extend the plan in force by proposal %d: %s", v.Proposal.Ref.Index, words.Counted(len(d.Plan.Members), "member"))
	case Deny:
		return fmt.Sprintf("dismiss incident %d: nothing is undone, and its fence is lifted", v.ID)
	case Override:
		return d.stopped()
	case Release:
		return "lift the fence around " + words.Counted(len(d.Order.Members), "member")
	case Record:
		r := d.Bodies[len(d.Bodies)-1].(*entry.Record) // as Prepare has made it
		return fmt.Sprintf("incident %d ends %s: %s", v.ID, r.State, words.Tally(r.Tally))
	}
	return fmt.Sprintf("take note that nobody answered about incident %d in time", v.ID)
}

// Follows says what happens once a principal has signed the draft and its entries are
// registered; empty: nothing that Consequence does not say.
func (d *Draft) Follows(by entry.Principal) string {
	if d.Incident == nil || d.Incident.Proposal == nil {
		return ""
	}
	p := d.Incident.Proposal
	switch d.Order.Verb {
	case Approve:
		have := int64(1)
		for i := range p.Approve {
			if p.Approve[i].Principal != by { // the newest answer of a principal counts
				have++
			}
		}
		if have < p.Quorum {
			return fmt.Sprintf("%d of %d approvals then: the proposal waits for more", have, p.Quorum)
		}
		return fmt.Sprintf("%d of %d approvals then: the coordinator puts the plan in force, and the agents undo their members", have, p.Quorum)
	case Refuse:
		return "the coordinator denies the proposal once so many approvers have refused that no quorum is left"
	}
	return ""
}

// stopped says what a stop of the plan in force does to its members.
func (d *Draft) stopped() string {
	if d.InForce == nil {
		return "stop the plan in force"
	}
	open, begun := 0, 0
	for i := range d.InForce.Members {
		if m := &d.InForce.Members[i]; m.Result == "" {
			open++
			if m.Released {
				begun++
			}
		}
	}
	return fmt.Sprintf("stop the plan in force: %s without an outcome are withheld, and %d of these may have begun", words.Counted(open, "member"), begun)
}

// Silent returns the members whose agents reported nothing in time, and which Record
// calls unknown.
func (d *Draft) Silent() (silent []entry.Ref) {
	for _, body := range d.Bodies {
		if o, ok := body.(*entry.Outcome); ok {
			silent = append(silent, o.Exec)
		}
	}
	return silent
}

// Ends returns the state in which the draft ends the incident; empty: the draft does not
// close it with a record.
func (d *Draft) Ends() entry.IncidentState {
	if r, ok := d.Bodies[len(d.Bodies)-1].(*entry.Record); ok {
		return r.State
	}
	return ""
}
