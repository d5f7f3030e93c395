package simulation

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// judgeDecision is what has to hold of a decision that the ledger takes.
func (o *observer) judgeDecision(e *entry.Entry, d *entry.Decision, at int64) {
	w, a := o.w, o.incidents[d.Incident]
	index := w.ledger.size()
	if a == nil {
		w.fail("decision %d is about no incident: %d", index, d.Incident)
	}
	want := a.epoch
	switch d.Act {
	case entry.ActEscalate, entry.ActAmend, entry.ActOverride:
		want++
	}
	if d.Epoch != want {
		w.fail("%s %d: epoch %d, want %d", d.Act, index, d.Epoch, want)
	}
	if d.Exp*1000 <= at {
		w.fail("%s %d had expired when it was registered", d.Act, index)
	}
	if d.Policy != o.policyAt {
		w.fail("%s %d cites another policy than that in force", d.Act, index)
	}
	if d.Pin != nil && d.Pin.Root != w.ledger.tree.Head(d.Pin.Size).Root {
		w.fail("%s %d pins another log", d.Act, index)
	}
	switch d.Act {
	case entry.ActAuthorize, entry.ActAmend:
		o.judgeAuthority(e, d, a, at)
	case entry.ActDeny:
		if a.decision != nil {
			o.judgeNote(e, d, a, at)
			break
		}
		o.judgeDeny(e, d, a, index)
	case entry.ActRelease:
		if roles := o.roles[e.KeyID]; !slices.Contains(roles, entry.RoleApprover) && !slices.Contains(roles, entry.RoleCoordinator) {
			w.fail("%s %d is by %s", d.Act, index, d.Iss)
		}
	}
}

// judgeDeny is who dismisses; and that what is dismissed already is denied once more
// at most, by a person, and only where it was not an approver who decided.
func (o *observer) judgeDeny(e *entry.Entry, d *entry.Decision, a *affair, index uint64) {
	roles := o.roles[e.KeyID]
	approver, coordinator, operator := slices.Contains(roles, entry.RoleApprover), slices.Contains(roles, entry.RoleCoordinator), slices.Contains(roles, entry.RoleOperator)
	switch {
	case !a.over && !approver && !coordinator, a.over && !approver && !operator:
		o.w.fail("deny %d is by %s", index, d.Iss)
	case a.over && (a.noted || d.Supersedes == nil || *d.Supersedes != a.denied):
		o.w.fail("deny %d of incident %d, which is over", index, a.id)
	}
}

// judgeAuthority is who authorized: a quorum of distinct approvers without an
// interest, or the coordinator within its limits.
func (o *observer) judgeAuthority(e *entry.Entry, d *entry.Decision, a *affair, at int64) {
	w := o.w
	index := w.ledger.size()
	limit, quorum := o.law(a)
	if len(d.Approvals) == 0 {
		if !slices.Contains(o.roles[e.KeyID], entry.RoleCoordinator) || d.Impact.Members > limit.Members || d.Impact.Agents > limit.Agents ||
			d.Impact.Irrevocable+d.Impact.Undeclared > 0 {
			w.fail("%s %d: %s may not decide alone about %+v", d.Act, index, d.Iss, *d.Impact)
		}
		return
	}
	if a.proposal == nil || d.RollbackSet.Head != a.proposal.RollbackSet.Head || *d.Pin != *a.proposal.Pin {
		w.fail("%s %d is not what was proposed", d.Act, index)
	}
	view, _ := w.ledger.state.Incident(a.id, at)
	who := map[entry.Principal]bool{}
	for _, place := range d.Approvals {
		p := o.approvals[place]
		switch {
		case p == nil || p.Verdict != "approve" || p.Proposal != a.proposal.ref || p.Exp*1000 <= at:
			w.fail("%s %d: entry %d approves something else", d.Act, index, place)
		case o.voided(p.keyID, place, index):
			w.fail("%s %d: the key of approval %d is void", d.Act, index, place)
		case !slices.Contains(o.roles[p.keyID], entry.RoleApprover) || o.enrolled[p.keyID] >= a.id:
			w.fail("%s %d: %s was no approver before the incident", d.Act, index, p.Iss)
		case p.Iss == a.proposal.Iss || slices.ContainsFunc(view.Signals, func(s api.IncidentSignal) bool { return s.Issuer == p.Iss }):
			w.fail("%s %d: %s has an interest", d.Act, index, p.Iss)
		}
		who[p.Iss] = true
	}
	if int64(len(who)) < quorum.Approve {
		w.fail("%s %d: %d principals approve, %d have to", d.Act, index, len(who), quorum.Approve)
	}
}

// judgeStopped is OVR-3: only a quorum puts in force again what an override stopped, or what one
// withheld in another incident.
func (o *observer) judgeStopped(a *affair, now *decided) {
	if len(now.Approvals) > 0 {
		return
	}
	if a.override != 0 {
		o.w.fail("decision %d amends alone what entry %d stopped", now.ref.Index, a.override)
	}
	for i := range now.members {
		ref := now.members[i].Exec
		if a.decision != nil && o.member(a.decision, ref) != nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(o.incidents)) {
			if other := o.incidents[id]; other.override != 0 && other.results[ref] == entry.Withheld {
				o.w.fail("decision %d undoes %s alone, which entry %d withheld", now.ref.Index, ref, other.override)
			}
		}
	}
}

// judgeOutcome is who may speak of a member (INC-6, INC-7): its agent, and others
// only to say that nothing is known, when nobody can be at work on it any more.
func (o *observer) judgeOutcome(body *entry.Outcome, at int64) {
	a, x := o.incidents[body.Incident], o.execs[body.Exec]
	switch {
	case a == nil || a.decision == nil || o.member(a.decision, body.Exec) == nil:
		o.w.fail("%s says of %s that it is %s in incident %d, which has no such member", body.Iss, body.Exec, body.Result, body.Incident)
	case body.Iss == x.agent:
	case body.Result != entry.ResultUnknown || a.results[body.Exec] != "":
		o.w.fail("%s says of %s that it is %s, which is for %s to say", body.Iss, body.Exec, body.Result, x.agent)
	case at <= a.exp+5*minute:
		o.w.fail("%s says of %s that it is unknown %d ms before %s can have begun nothing any more", body.Iss, body.Exec, a.exp+5*minute-at, x.agent)
	}
}

// judgeRecord is that a record says what the outcomes in the log amount to: state,
// tally, and what is left.
func (o *observer) judgeRecord(r *entry.Record, at int64) {
	w, a := o.w, o.incidents[r.Incident]
	if a == nil || a.decision == nil || r.Decision != a.decision.ref {
		w.fail("a record of incident %d by entry %d, which is not in force", r.Incident, r.Decision.Index)
	}
	tally, left := map[entry.Result]int64{}, []merkle.Hash{}
	undone, effects, gone := 0, 0, 0 // members; those with an effect to undo; of them undone
	for i := range a.decision.members {
		m := &a.decision.members[i]
		result := a.results[m.Exec]
		if tally[result]++; result == "" {
			w.fail("incident %d is recorded, and %s has no outcome", a.id, m.Exec)
		}
		effect := m.Method != entry.MethodNone && m.Method != entry.MethodCancel
		if effect {
			effects++
		}
		switch {
		case result == entry.Withheld && !a.own[m.Exec] && at < a.exp:
			w.fail("incident %d is recorded, and %s may have begun before the override", a.id, m.Exec)
		case result != entry.Restored && result != entry.Compensated && result != entry.NotExecuted:
			left = append(left, merkle.HashLeaf(m.AppendJSON(nil)))
			continue
		}
		if undone++; effect {
			gone++
		}
	}
	state := entry.IncidentPartial
	switch {
	case tally[entry.Restored]+tally[entry.Compensated] == 0 && len(left) == 0:
		state = entry.IncidentNoEffects
	case undone == len(a.decision.members):
		state = entry.IncidentRecovered
	case undone == 0, effects > 0 && gone == 0:
		state = entry.IncidentFailed
	}
	for _, one := range r.Dispositions {
		o.judgeVerdict(a, r, one)
	}
	head := merkle.HeadOf(left)
	if r.State != state || !maps.Equal(r.Tally, tally) || head != r.Unresolved {
		w.fail("incident %d is %s with %v and %d unresolved, but the outcomes make it %s with %v and %d", a.id, r.State, r.Tally, r.Unresolved.Size, state, tally, head.Size)
	}
}

// hook judges a hook that is about to run.
func (o *observer) hook(n *node, c *agent.Call) {
	w, d := o.w, o.plans[c.Decision.Index]
	if d == nil || d.ref != c.Decision || d.Incident != c.Incident {
		w.fail("%s runs %s by entry %d, which authorizes nothing", n.name, c.Hook, c.Decision.Index)
	}
	accepted := n.core.Accepted()
	epoch, _ := accepted.Epoch(c.Incident, n.now())
	switch {
	case !accepted.Confirmed || n.core.Size() <= c.Decision.Index:
		w.fail("%s runs %s by a decision that was not proven to it", n.name, c.Hook)
	case n.now() >= d.Exp*1000 || n.now() >= d.DeadlineAt:
		w.fail("%s runs %s by decision %d after its time", n.name, c.Hook, d.ref.Index)
	case o.voided(d.keyID, d.ref.Index, n.core.Size()):
		w.fail("%s runs %s by decision %d, and knows that it is void", n.name, c.Hook, d.ref.Index)
	case epoch > d.Epoch:
		w.fail("%s runs %s by decision %d of epoch %d, and knows of %d", n.name, c.Hook, d.ref.Index, d.Epoch, epoch)
	}
	for i := range c.Members {
		o.hookOn(n, c, d, c.Members[i].Exec)
	}
}

func (o *observer) hookOn(n *node, c *agent.Call, d *decided, ref entry.Ref) {
	w, m, x := o.w, o.member(d, ref), o.execs[ref]
	if m == nil || m.Agent != n.name {
		w.fail("%s runs %s of %s, which decision %d does not have", n.name, c.Hook, ref, d.ref.Index)
	}
	fits := map[agent.Hook]bool{agent.Drain: m.Method != entry.MethodCancel, agent.Cancel: m.Method == entry.MethodCancel,
		agent.Restore: m.Method == entry.MethodRestore && m.Checkpoint == c.Checkpoint, agent.Compensate: m.Method == entry.MethodCompensate}
	if !fits[c.Hook] {
		w.fail("%s runs %s of %s: it is to %s to %s", n.name, c.Hook, ref, m.Method, m.Checkpoint)
	}
	if d.withheld[ref] && c.Hook != agent.Drain && !n.cheated {
		w.fail("%s runs %s of %s by decision %d, and an override before it withheld that", n.name, c.Hook, ref, d.ref.Index)
	}
	if c.Hook == agent.Drain || c.Hook == agent.Cancel || n.rogue { // it may say that it has drained what it has not
		return
	}
	if x.final == 0 {
		w.fail("%s runs %s of %s, which was not drained", n.name, c.Hook, ref)
	}
	o.ordered(n, c, d, x)
}

// ordered is INC-7: what comes first has an outcome.
func (o *observer) ordered(n *node, c *agent.Call, d *decided, x *record) {
	a := o.incidents[d.Incident]
	if c.Hook == agent.Compensate {
		for ref := range o.reach(map[entry.Ref]bool{x.ref: true}) {
			if m := o.member(d, ref); ref != x.ref && m != nil && m.Method == entry.MethodCompensate && a.results[ref] == "" {
				o.w.fail("%s compensates %s before %s", n.name, x.ref, ref)
			}
		}
		return
	}
	for i := range d.members {
		m := &d.members[i]
		of := o.execs[m.Exec]
		if !o.mates(of, x) {
			continue
		}
		if m.Method == entry.MethodCompensate && a.results[m.Exec] == "" || d.drains[m.Exec] && of.final == 0 {
			if n.cheated {
				continue // that it has more members may have been kept from it
			}
			o.w.fail("%s restores the line of %s before %s", n.name, x.ref, m.Exec)
		}
	}
}

// told hears what a runtime says: an honest bundle is never refused, but for
// what time changes.
func (o *observer) told(n *node, e *agent.Event) {
	rule, ok := errors.AsType[*bundle.RuleError](e.Err)
	if e.Kind != agent.EventRefused || n.cheated {
		return
	}
	if ok && !strings.Contains(rule.Error(), "has passed") && rule.Rule != "epoch" && n.w.plan.skew <= 5*minute {
		o.w.fail("%s refuses an honest bundle: %v", n.name, rule)
	}
	if errors.Is(e.Err, bundle.ErrMissing) {
		o.w.fail("%s misses something in an honest bundle", n.name)
	}
}

// end judges what is left when everything is over.
func (o *observer) end() {
	w := o.w
	if open := o.open(); open > 0 {
		for _, v := range w.ledger.state.Incidents(0, 1<<10, w.now) {
			if v.State.Open() {
				w.fail("%d incidents have not ended; %d is %s at %d", open, v.ID, v.State, w.now-start)
			}
		}
	}
	for _, n := range w.nodes {
		if n.core != nil && n.believed() && !n.core.Idle() {
			w.fail("%s has not come to an end", n.name)
		}
		if !n.rogue { // what it was served is no excuse
			o.endState(n)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.incidents)) {
		o.checkLapse(o.incidents[id], w.now)
	}
	o.audit(w.ledger.size())
	if w.chance(100) {
		o.audit(w.rng.Uint64N(w.ledger.size()))
	}
	for iss, counts := range o.judged {
		h, _ := w.ledger.state.History(iss, 0, 0, w.now)
		if h.Corroborated != counts[entry.Corroborated] || h.Independent != counts["independent"] || h.SelfReported != counts[entry.SelfReported] ||
			h.Dismissed != counts[entry.Dismissed] {
			w.fail("the history of %s says %+v, the log %v", iss, h, counts)
		}
	}
}

// audit derives everything again from a prefix of the log.
func (o *observer) audit(size uint64) {
	w := o.w
	report, err := w.ledger.auditLog(size)
	if err != nil || report.Finding != nil || report.Size != size {
		w.fail("audit of %d entries: %+v, %v", size, report.Finding, err)
	}
	if size != w.ledger.size() {
		return
	}
	var one, two bytes.Buffer
	if err := errors.Join(report.State.Snapshot(&one), w.ledger.state.Snapshot(&two)); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		w.fail("the state is not the one that follows from the log (%v)", err)
	}
	var leaves []merkle.Hash
	for i := range w.ledger.log {
		leaves = append(leaves, w.ledger.leafHash(uint64(i)))
	}
	if head := merkle.HeadOf(leaves); head != w.ledger.tree.Head(size) {
		w.fail("the tree is not that of the log")
	}
}

// endState compares an agent's state with what only its kept executions lead to.
func (o *observer) endState(n *node) {
	unsure := map[lineID]bool{}
	for _, id := range slices.Sorted(maps.Keys(o.incidents)) {
		a := o.incidents[id]
		if a.decision == nil {
			continue
		}
		for i := range a.decision.members {
			m := &a.decision.members[i]
			if x := o.execs[m.Exec]; m.Agent == n.name && !o.endMember(n, a, m, x) {
				unsure[o.line(n.name, x.wid)] = true
			}
		}
	}
	want := map[lineID]map[entry.Ref]bool{}
	for ref, j := range n.machine.jobs {
		id := o.line(n.name, j.x.Wid)
		if want[id] == nil {
			want[id] = map[entry.Ref]bool{}
		}
		if x := o.execs[ref]; j.acted && j.x.Effect == entry.EffectReversible && j.final == entry.Confirmed && !x.undone {
			want[id][ref] = true
		}
	}
	for id, kept := range want {
		if unsure[id] {
			continue
		}
		got := map[entry.Ref]bool{}
		for _, ref := range n.machine.lineOf(id.wid).state {
			got[ref] = true
		}
		if !maps.Equal(got, kept) {
			o.w.fail("%s has %v in its state, and the recovery line %v", n.name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(kept)))
		}
	}
}

// endMember compares what an agent said of a member with what it did, and
// reports whether the member's line is where it should be.
func (o *observer) endMember(n *node, a *affair, m *entry.Member, x *record) bool {
	did := n.machine.did[undoKey(a.id, x.ref, "", m.Method)]
	switch r := a.results[x.ref]; {
	case !did && (r == entry.Restored || r == entry.Compensated):
		o.w.fail("%s says that %s is %s, and did nothing", n.name, x.ref, r)
	case r == entry.ResultFailed && m.Method == entry.MethodResidual && x.effect != entry.EffectReversible:
		o.w.fail("%s says that it has failed at %s, which cannot be undone", n.name, x.ref)
	case r == entry.NotExecuted && m.Method != entry.MethodNone:
		if j := n.machine.jobs[x.ref]; j != nil && j.acted && j.x.Effect != entry.EffectNone && m.Method == entry.MethodCancel {
			o.w.fail("%s says that %s was not executed, and it was", n.name, x.ref)
		}
	case m.Method == entry.MethodRestore && r != entry.Restored && r != entry.NotExecuted:
		return false
	case r == entry.ResultUnknown, r == entry.ResultFailed, r == entry.Withheld:
		return false
	}
	return true
}

// serve sees an honest bundle before the agent does.
func (o *observer) serve(*node, *bundle.Bundle, uint64) {}
