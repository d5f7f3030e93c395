package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// acts say what a decision does.
var acts = map[entry.Act]string{
	entry.ActContain:   "contained the incident",
	entry.ActEscalate:  "asked the approvers",
	entry.ActAuthorize: "ordered the undo",
	entry.ActAmend:     "changed the order",
	entry.ActDeny:      "denied the undo",
	entry.ActOverride:  "withdrew the order",
	entry.ActRelease:   "released executions",
}

// decided writes the decisions and the answers of approvers, and then the basis of each: the
// policy, the limits, and the keys.
func (a *author) decided() {
	policies, signers := map[uint64]bool{}, map[string][]uint64{}
	for _, index := range a.about {
		e := a.at[index]
		if e == nil {
			continue
		}
		switch b := e.Body.(type) {
		case *entry.Decision:
			a.decision(e, b)
			policies[b.Policy.Index] = true
		case *entry.Approval:
			a.sayf(index, "%s answered the proposal in entry %d: %s. Reason: %q.", b.Iss, b.Proposal.Index, b.Verdict, b.Reason)
		case *entry.Record:
			a.sayf(index, "%s closed the incident as %s, by the decision in entry %d. Outcomes: %s.", b.Iss, b.State, b.Decision.Index, words.Tally(b.Tally))
		default:
			continue
		}
		signers[e.KeyID] = append(signers[e.KeyID], index)
	}
	for _, index := range slices.Sorted(maps.Keys(policies)) {
		a.policy(index)
	}
	for _, id := range slices.SortedFunc(maps.Keys(signers), func(x, y string) int { return cmp.Compare(signers[x][0], signers[y][0]) }) {
		a.signer(id, signers[id])
	}
}

func (a *author) decision(e *entry.Registered, d *entry.Decision) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s under the policy in entry %d. Reason: %q.", d.Iss, acts[d.Act], d.Policy.Index, d.Reason)
	if set := d.RollbackSet; set != nil {
		fmt.Fprintf(&b, " The plan has %s, with the root %s.", words.Counted(set.Size, "execution"), set.Root)
	}
	if i := d.Impact; i != nil {
		fmt.Fprintf(&b, " It touches %s in %s; %d cannot be undone, and %d declared nothing.", words.Counted(i.Agents, "agent"), words.Counted(i.Domains, "domain"),
			i.Irrevocable, i.Undeclared)
	}
	for _, s := range d.Dismissed {
		fmt.Fprintf(&b, " The report in entry %d is not believed: %q.", s.Index, s.Reason)
	}
	for _, index := range d.Approvals {
		fmt.Fprintf(&b, " It rests on the answer in entry %d.", index)
	}
	if d.NotFenced != "" {
		fmt.Fprintf(&b, " Nothing is fenced: %s.", d.NotFenced)
	}
	for _, ref := range d.Members {
		fmt.Fprintf(&b, " It releases %s.", ref)
	}
	if d.DeadlineAt != 0 {
		fmt.Fprintf(&b, " The deadline is %s.", words.Instant(d.DeadlineAt))
	}
	a.sayf(e.Index, "%s", b.String())
}

// policy writes the part of a policy on which decisions about incidents rest.
func (a *author) policy(index uint64) {
	e := a.at[index]
	if e == nil {
		return
	}
	p, ok := e.Body.(*entry.Policy)
	if !ok {
		return
	}
	limit := p.Limits.Incident
	a.sayf(index, "The policy in entry %d was signed by %s. It wants %s for an order of people, and %d to withdraw one. Without people, the coordinator may undo %s of %s in %s.",
		index, p.Iss, words.Counted(p.Quorum.Approve, "approval"), p.Quorum.Override, words.Counted(limit.Members, "execution"), words.Counted(limit.Agents, "agent"),
		words.Counted(limit.Domains, "domain"))
}

// signer writes who let in a key that signed entries, and whether the key was revoked since.
func (a *author) signer(id string, signed []uint64) {
	for i := range a.links {
		e := &a.links[i]
		switch b := e.Body.(type) {
		case *entry.Policy:
			for _, k := range b.Authority {
				if k.Key.KeyID() == id {
					a.sayf(e.Index, "%s signed %s with the key %s. The policy in entry %d names that key as its authority.", k.Principal, entriesText(signed), id, e.Index)
				}
			}
		case *entry.Agent:
			switch {
			case b.Key.KeyID() != id:
			case b.Op == entry.Revoke && b.CompromisedSince != nil:
				a.sayf(e.Index, "%s revoked the key %s of %s, which is not believed from entry %d on.", b.Iss, id, b.Principal, b.CompromisedSince.Index)
			case b.Op == entry.Revoke:
				a.sayf(e.Index, "%s revoked the key %s of %s.", b.Iss, id, b.Principal)
			default:
				a.sayf(e.Index, "%s signed %s with the key %s. %s let that key in, for %s of the domain %s as %s.", b.Principal, entriesText(signed), id, b.Iss, b.Principal,
					b.Domain, words.JoinRoles(b.Roles))
			}
		}
	}
}

// undone writes the executions that were undone, and those that had nothing to undo.
func (a *author) undone() { a.outcomes(true) }

// left writes the executions that were not undone, with what stays in the world.
func (a *author) left() {
	a.planless("No plan is in force: nobody is asked to undo anything.")
	a.outcomes(false)
}

// planless writes a sentence if the incident has no plan in force.
func (a *author) planless(text string) {
	if a.plan == nil {
		a.derive([]uint64{a.incident.ID}, text, a.show())
	}
}

func (a *author) outcomes(undone bool) {
	for _, m := range slices.Backward(a.members()) {
		if m.Result == "" || m.Result.Undone() != undone {
			continue
		}
		a.sayf(m.ResultAt, "%s", a.outcome(&m))
	}
}

// outcome says what became of a member, by whose word.
func (a *author) outcome(m *api.PlanMember) string {
	text := fmt.Sprintf("%s of %s, to be undone by the method %s, is %s", m.Exec, m.Agent, m.Method, m.Result)
	e := a.at[m.ResultAt]
	if e == nil {
		return text + "."
	}
	o, ok := e.Body.(*entry.Outcome)
	if !ok {
		return text + fmt.Sprintf(", by the rules, from the %s of %s.", e.Kind, e.Header.Iss)
	}
	text += fmt.Sprintf(", says %s.", o.Iss)
	if o.CompExec != "" {
		text += fmt.Sprintf(" The compensation is %s.", o.CompExec)
	}
	if o.PostDigest != "" {
		text += fmt.Sprintf(" The state after it has the digest %s.", o.PostDigest)
	}
	if o.Residual != "" {
		text += fmt.Sprintf(" What stays: %q.", o.Residual)
	}
	return text + evidence(o.Evidence)
}

// cost writes what the undone work had cost. Where nobody declared a cost, it is not known.
func (a *author) cost() {
	a.planless("No plan is in force: no work is counted here.")
	var all []uint64
	for _, m := range slices.Backward(a.members()) {
		text := fmt.Sprintf("The work %s of %s had cost %s USD.", m.Exec, m.Agent, words.Dollars(m.CostMicroUSD))
		index, declared := a.priced(&m)
		switch {
		case declared:
			a.sayf(index, "%s", text)
		case m.CostMicroUSD != 0: // an entry between the first and the last declares the cost
			index = m.Index
			a.derive([]uint64{index}, text, a.whole())
		default:
			a.say(a.entriesOf(&m), fmt.Sprintf("Neither the first nor the last entry of the work %s of %s declares a cost.", m.Exec, m.Agent))
			continue
		}
		all = append(all, index)
	}
	if a.plan != nil && len(all) > 0 {
		a.derive(append(all, a.plan.Decision), fmt.Sprintf("The work of the plan had cost %s USD in all.", words.Dollars(a.plan.CostMicroUSD)), a.whole())
	}
}

// priced returns the index of the entry that declares the cost of a member, if that is its last
// entry or its first.
func (a *author) priced(m *api.PlanMember) (index uint64, declared bool) {
	for _, index := range slices.Backward(a.entriesOf(m)) {
		if e := a.at[index]; e != nil {
			if x, ok := e.Body.(*entry.Execution); ok && x.CostMicroUSD != nil && *x.CostMicroUSD == m.CostMicroUSD {
				return index, true
			}
		}
	}
	return 0, false
}

func entriesText(indexes []uint64) string {
	if len(indexes) == 1 {
		return "entry " + decimal(indexes[0])
	}
	texts := make([]string, len(indexes))
	for i, index := range indexes {
		texts[i] = decimal(index)
	}
	return "entries " + strings.Join(texts, ", ")
}
