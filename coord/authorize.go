package coord

import (
	"fmt"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// admitAuthorize checks INC-2, or a quorum of approvals that waives INC-2.
func (s *State) admitAuthorize(d *decisionOf, a *assessment) error {
	if d.Supersedes != nil {
		return conflict("supersedes", "an authorize is the first decision in force").WithRemedy("leave the signal out: it belongs to an earlier incident")
	}
	if err := s.checkTimes(d, a); err != nil {
		return err
	}
	if other, overlap := s.overlap(d.number, a.plan); overlap {
		return conflict("rollback_set", "incident %d is AUTHORIZED and has members in common", other.opened).
			WithRemedy("amend the older incident with these signals")
	}
	if d.inc.state == entry.IncidentEscalated {
		return s.checkQuorum(d, a)
	}
	if !d.has(entry.RoleCoordinator) {
		return entry.Refuse(entry.UnauthorizedRole, "iss", "%s may authorize only a plan that a quorum approved", d.Iss)
	}
	if len(d.Approvals) > 0 {
		return conflict("approvals", "the incident has no proposal to answer")
	}
	return s.automatic(d.number, a, d.now)
}

// admitAmend checks every guard of authorize on the new scope. The new scope is a superset,
// because of how it is computed (SCO-5).
func (s *State) admitAmend(d *decisionOf, a *assessment) error {
	f := d.inc.current
	if d.Supersedes == nil || d.Supersedes.Index != f.index {
		return conflict("supersedes", "not the decision in force, which is entry %d", f.index)
	}
	if err := s.checkTimes(d, a); err != nil {
		return err
	}
	if other, overlap := s.overlap(d.number, a.plan); overlap {
		return conflict("rollback_set", "incident %d is AUTHORIZED and has members in common", other.opened)
	}
	if len(d.Approvals) > 0 {
		return s.checkQuorum(d, a)
	}
	if !d.has(entry.RoleCoordinator) {
		return entry.Refuse(entry.UnauthorizedRole, "iss", "%s may amend only by a plan that a quorum approved", d.Iss)
	}
	if s.pending(d.inc, d.now) != nil {
		return conflict("act", "an amend is proposed and waits for answers").WithRemedy("wait for them")
	}
	return s.automatic(d.number, a, d.now)
}

// checkTimes checks exp ≤ deadline_at ≤ now + deadline_max_ms (INC-7).
func (s *State) checkTimes(d *decisionOf, a *assessment) error {
	switch {
	case d.DeadlineAt <= d.now:
		return entry.Refuse(entry.Stale, "deadline_at", "%d has passed", d.DeadlineAt)
	case d.DeadlineAt > d.now+a.policy.windows.DeadlineMaxMS:
		return entry.Refuse(entry.ScopeExceedsPolicy, "deadline_at", "%d ms from now, the policy allows %d", d.DeadlineAt-d.now, a.policy.windows.DeadlineMaxMS)
	case d.Exp*1000 > d.DeadlineAt:
		return conflict("exp", "%d is later than deadline_at", d.Exp)
	}
	return nil
}

// overlap returns another incident in force that has a member of the plan.
func (s *State) overlap(number uint32, p *scope.Plan) (*incident, bool) {
	for i := range p.Members {
		for _, other := range s.incidentsByExecution[p.Members[i].Exec] {
			inc := s.incidents[other]
			if other == number || inc.state != entry.IncidentAuthorized {
				continue
			}
			if _, common := inc.current.find(p.Members[i].Exec); common {
				return inc, true
			}
		}
	}
	return nil, false
}

// automatic checks INC-2: the error is why the coordinator may not authorize the plan alone.
func (s *State) automatic(number uint32, a *assessment, now int64) error {
	exceeds := func(format string, args ...any) error {
		return entry.Refuse(entry.ScopeExceedsPolicy, "act", format, args...).WithRemedy("escalate: approvers may authorize a plan that the coordinator may not")
	}
	if why := s.stopped(number, a.plan); why != "" {
		return exceeds("%s: only people may go on (OVR-3)", why)
	}
	founded, others := s.splitBySubject(a, func(about []uint32) bool { return s.believed(about, a.policy.quorum.Signalers) && s.hasCause(about) })
	if len(founded) == 0 {
		return exceeds("no signal comes from an executor, from a monitor or operator with evidence, or from %d signalers over early edges, "+
			"or the signalled executions have not failed", a.policy.quorum.Signalers)
	}
	if exec, beyond := s.subjectOutside(s.incidents[number], founded, others, now+a.policy.windows.DeadlineMaxMS); beyond {
		return exceeds("too few signalers reported %s, and the other signals do not lead to it", s.refOf(exec))
	}
	if domain, silent := s.domainWithoutQuorum(a); silent {
		return exceeds("the plan touches %d domains, and fewer than %d signalers of domain %q support it", a.impact.Domains, a.policy.quorum.Signalers, domain)
	}
	for i := range a.plan.Members {
		m := &a.plan.Members[i]
		effect := s.graph.Node(m.Exec).Effect
		switch {
		case m.Method == scope.Residual:
			return exceeds("%s cannot be undone", s.refOf(m.Exec))
		case !m.Direct && m.Method == scope.Compensate:
			return exceeds("%s is %s, and is a member only because its line goes back to a checkpoint", s.refOf(m.Exec), effects[effect])
		}
	}
	if refusal := s.checkLimits(number, a, s.chargeOf(execsOf(a.plan.Members), s.incidents[number].fencedUntil(0, now), now), toUndo); refusal != nil {
		return refusal
	}
	return nil
}

// stopped returns why an override keeps the coordinator from putting a plan in force alone
// (OVR-3): the override stopped the incident, or withheld a member in another incident. It is empty
// if no override does. An amend after a quorum's would otherwise reopen what people left withheld.
func (s *State) stopped(number uint32, p *scope.Plan) string {
	inc := s.incidents[number]
	if inc.stopped != 0 {
		return fmt.Sprintf("the override at entry %d stopped the incident", inc.stopped)
	}
	for i := range p.Members {
		exec := p.Members[i].Exec
		if inc.current != nil {
			if _, kept := inc.current.find(exec); kept {
				continue // people have approved it since
			}
		}
		for _, number := range s.incidentsByExecution[exec] {
			other := s.incidents[number]
			if other.stopped == 0 {
				continue
			}
			if m, member := other.current.find(exec); member && m.result == entry.Withheld {
				return fmt.Sprintf("the override at entry %d withheld %s", other.stopped, s.refOf(exec))
			}
		}
	}
	return ""
}

// splitBySubject splits the believed signals into those about subjects for which a rule
// holds and the others. Each subject counts by itself: a signal of an agent about its
// own work is no support for its accusation of another agent.
func (s *State) splitBySubject(a *assessment, holds func(about []uint32) bool) (yes, no []uint32) {
	about := map[uint32][]uint32{}
	for _, n := range a.signals {
		if sig := &s.signals[n]; !slices.Contains(a.dismissed, sig.index) {
			about[sig.subject] = append(about[sig.subject], n)
		}
	}
	for _, n := range a.signals {
		sig := &s.signals[n]
		switch {
		case slices.Contains(a.dismissed, sig.index):
		case holds(about[sig.subject]):
			yes = append(yes, n)
		default:
			no = append(no, n)
		}
	}
	return yes, no
}

// subjectOutside returns a subject of the other signals that the founded signals do not
// lead to.
func (s *State) subjectOutside(inc *incident, founded, others []uint32, until int64) (exec uint32, beyond bool) {
	if len(others) == 0 {
		return 0, false
	}
	plan := s.graph.Plan(s.request(inc, founded, nil, until))
	for _, n := range others {
		for exec := range s.executionsOf(s.signals[n].subject) {
			if _, member := plan.Find(exec); !member && !s.graph.Node(exec).Undone {
				return exec, true
			}
		}
	}
	return 0, false
}

// believed reports whether the right principals have signaled a subject (INC-2): its executor, a
// monitor or operator with evidence, or a quorum over early edges.
func (s *State) believed(about []uint32, quorum int64) bool {
	var third []uint32
	for _, n := range about {
		sig := &s.signals[n]
		switch {
		case !sig.countsForAutomatic():
		case !sig.byNeighbor():
			return true
		case !slices.Contains(third, sig.issuer):
			third = append(third, sig.issuer)
		}
	}
	return int64(len(third)) >= quorum
}

// byNeighbor reports whether the signaler has no standing but an edge to the subject.
func (sig *signal) byNeighbor() bool {
	return sig.standing == entry.StandingUpstream || sig.standing == entry.StandingDownstream
}

// countsForAutomatic reports whether a signal speaks for an automatic decision, alone or with
// others. An executor speaks for its own executions. A signal of an executor about a task is for
// people, because other agents may have worked on the task.
func (sig *signal) countsForAutomatic() bool {
	switch sig.standing {
	case entry.StandingExecutor:
		return sig.subject&taskBit == 0
	case entry.StandingMonitor, entry.StandingOperator:
		return sig.evidence
	}
	return sig.early
}

// domainWithoutQuorum returns a domain in which no quorum of signalers supports a plan
// that covers several domains (INC-2). So one domain alone cannot have the work of another domain
// undone.
func (s *State) domainWithoutQuorum(a *assessment) (domain string, silent bool) {
	if a.impact.Domains <= 1 {
		return "", false
	}
	speakers := s.signalersOf(slices.DeleteFunc(slices.Clone(a.signals), func(n uint32) bool {
		return slices.Contains(a.dismissed, s.signals[n].index) || !s.signals[n].countsForAutomatic()
	}))
	for _, domain := range s.domains(a.plan.Agents) {
		own := int64(0)
		for _, speaker := range speakers {
			if slices.Contains(s.domains([]uint32{speaker}), domain) {
				own++
			}
		}
		if own < a.policy.quorum.Signalers {
			return domain, true
		}
	}
	return "", false
}

// hasCause reports whether one of the signals gives a cause for which the coordinator may
// authorize a plan (INC-2). There are four causes. The subject is, or belongs to, a task that is
// FAILED with its retries spent. The subject failed for good without a task (SIG-1: its executor
// signals when retries are spent). Its confirmed output is bad. A monitor or operator says so with
// evidence.
func (s *State) hasCause(about []uint32) bool {
	return slices.ContainsFunc(about, func(n uint32) bool {
		sig := &s.signals[n]
		switch sig.standing {
		case entry.StandingMonitor, entry.StandingOperator:
			return sig.evidence
		}
		if t, is := s.taskOf(sig.subject); is {
			return t.retriesSpent()
		}
		number, of := s.tasks.of[sig.subject]
		switch progress := s.graph.Node(sig.subject).Progress; {
		case progress == scope.Confirmed:
			return true
		case of:
			return s.tasks.list[number].retriesSpent()
		default:
			return progress == scope.Failed && sig.standing == entry.StandingExecutor
		}
	})
}

// applyForce puts a plan in force. Members of the plan before keep their state, except members
// that are reopened.
func (s *State) applyForce(d *decisionOf, a *assessment, as decided) {
	old := d.inc.current
	f := &decisionInForce{
		decided: as, epoch: d.Epoch, first: as.index, decisions: []uint64{as.index}, expMax: as.exp, deadline: d.DeadlineAt,
		pin: d.Pin.Size, dismissed: a.dismissed, review: a.plan.Review, approvals: slices.Sorted(slices.Values(d.Approvals)),
	}
	if old != nil {
		f.consents = old.consents
	}
	if len(f.approvals) > 0 {
		f.proposal = d.inc.proposal.index
		f.consents = append(slices.Clip(f.consents), s.consentOf(d.inc.proposal, f.approvals, a))
	}
	if old != nil {
		f.first, f.decisions, f.expMax = old.first, append(slices.Clone(old.decisions), as.index), max(old.expMax, as.exp)
	}
	seeds := s.named(a)
	for i := range a.plan.Members {
		m := s.memberOf(old, &a.plan.Members[i], as.index, d.now)
		m.why = reasonOf(old, seeds, &a.plan.Members[i])
		f.members = append(f.members, m)
	}
	for i := range a.plan.AlreadyUndone {
		m := &a.plan.AlreadyUndone[i]
		f.alreadyUndone = append(f.alreadyUndone, alreadyUndone{m.Exec, reasonOf(old, seeds, m)})
	}
	for _, other := range a.merges {
		s.incidents[other].mergedInto = d.inc.opened
	}
	if d.inc.missed = s.missedAnswerOf(d.inc, d.now); f.proposal != 0 { // people have answered
		d.inc.missed = missedAnswer{}
	}
	signals := slices.Concat(d.inc.signals, a.signals)
	slices.Sort(signals)
	d.inc.signals = slices.Compact(signals)
	d.inc.fencedMS = d.inc.fencedUntil(0, d.now)
	d.inc.state, d.inc.current, d.inc.hold, d.inc.notFenced, d.inc.proposal = entry.IncidentAuthorized, f, hold{}, "", nil
	d.inc.charge = s.chargeOf(execsOf(a.plan.Members), d.inc.fencedMS, d.now)
	s.indexExecutions(d.number, execsOf(a.plan.Members)...)
	s.indexLines(d.number, a.plan.Lines...)
	for _, v := range d.inc.charge.victims {
		s.involve(v.agent, d.number)
	}
	for _, n := range a.signals {
		s.involve(s.signals[n].issuer, d.number)
		s.indexExecutions(d.number, s.signals[n].subject)
	}
	s.link(f)
	s.begin(f, as.index, d.now)
}

// named returns, by execution, the signal that makes the execution a seed. A signal that names
// the execution comes before a signal whose range reaches it.
func (s *State) named(a *assessment) map[uint32]uint32 {
	seeds := map[uint32]uint32{}
	for _, ranges := range []bool{false, true} {
		for _, n := range a.signals {
			if slices.Contains(a.dismissed, s.signals[n].index) {
				continue
			}
			execs := slices.Collect(s.executionsOf(s.signals[n].subject))
			if ranges {
				execs = s.seeds(nil, []uint32{n}, nil)
			}
			for _, exec := range execs {
				if _, known := seeds[exec]; !known {
					seeds[exec] = n
				}
			}
		}
	}
	return seeds
}

// reasonOf returns why an execution is in a plan. An execution of the plan before, as a member or
// on the way to one, keeps its signal.
func reasonOf(old *decisionInForce, seeds map[uint32]uint32, planned *scope.Member) reason {
	why := reason{Why: planned.Why}
	if planned.Why.Rule != scope.Seed {
		return why
	}
	why.signal = seeds[planned.Exec]
	if old == nil {
		return why
	}
	if was, ok := old.find(planned.Exec); ok {
		why.signal = was.why.signal
	} else if i, ok := old.findAlreadyUndone(planned.Exec); ok {
		why.signal = old.alreadyUndone[i].why.signal
	}
	return why
}

// memberOf makes a member of the plan in force.
func (s *State) memberOf(old *decisionInForce, planned *scope.Member, index uint64, now int64) member {
	if old != nil {
		if was, ok := old.find(planned.Exec); ok {
			m := *was
			m.checkpoint, m.method = planned.Checkpoint, planned.Method
			if planned.Reopened {
				m.opened, m.openedAt, m.result, m.resultAt, m.own, m.releasedAt, m.releasedBy = index, now, "", 0, false, 0, 0
				m.released = false
				s.graph.Redo(m.exec)
			}
			return m
		}
	}
	x := s.graph.Node(planned.Exec)
	return member{
		exec: planned.Exec, method: planned.Method, checkpoint: planned.Checkpoint, direct: planned.Direct,
		drain: x.Progress == scope.Started, since: index, opened: index, openedAt: now,
	}
}
