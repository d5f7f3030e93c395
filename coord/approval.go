package coord

import (
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// admitApproval checks INC-5 for an answer to a proposal.
func (s *State) admitApproval(e *entry.Entry, a *entry.Approval, now int64) error {
	inc, _, err := s.admitIncident(a.Incident, &a.Header) // REG-8
	if err != nil {
		return err
	}
	if !s.isRef(a.Proposal) {
		return unknown("proposal", "entry %d is not in the log with that leaf hash", a.Proposal.Index)
	}
	p := s.waiting(inc, now) // REG-9
	switch {
	case inc.state != entry.IncidentEscalated && inc.state != entry.IncidentAuthorized:
		return conflict("incident", "incident %d is %s, and has no proposal", inc.opened, inc.state)
	case p == nil:
		return conflict("proposal", "no proposal of incident %d waits for answers", inc.opened)
	case p.index != a.Proposal.Index:
		return conflict("proposal", "entry %d is not the proposal in force, which is entry %d", a.Proposal.Index, p.index).
			WithRemedy("answer the newer proposal")
	case a.Exp*1000 <= now:
		return entry.Refuse(entry.Stale, "exp", "%d has passed", a.Exp)
	}
	issuer, known := s.principals.Find([]byte(a.Iss))
	return s.eligible(inc, e.KeyID, issuer, known)
}

// eligible returns why a principal may not approve, or nil (INC-5). The key must be an
// approver's, be enrolled before the incident opened, and still count. The principal must not
// have signaled the incident, must not have made the proposal, and must own no member.
func (s *State) eligible(inc *incident, keyID string, issuer uint32, known bool) error {
	key, _ := s.chain.KeyInfo(keyID)
	no := func(format string, args ...any) error {
		return entry.Refuse(entry.NoStanding, "iss", format, args...).WithRemedy("let another approver decide")
	}
	switch {
	case !slices.Contains(key.Roles, entry.RoleApprover) || key.Revoked != 0:
		return no("%s is not the key of an approver", keyID)
	case key.Enrolled >= inc.opened:
		return no("the key was enrolled at %d, after incident %d opened", key.Enrolled, inc.opened)
	case !known:
		return nil
	case s.signaled(inc, issuer):
		return no("%s signaled the incident", s.principal(issuer))
	case inc.proposal != nil && inc.proposal.issuer == issuer:
		return no("%s made the proposal", s.principal(issuer))
	case inc.proposal != nil && slices.Contains(inc.proposal.signalers, issuer):
		return no("%s sent a signal of the proposal", s.principal(issuer))
	case s.owns(inc, issuer):
		return no("%s owns a member of the plan", s.principal(issuer))
	}
	return nil
}

// owns reports whether a principal owns an execution that the incident is about.
func (s *State) owns(inc *incident, principal uint32) bool {
	is := func(exec uint32) bool { return s.graph.Node(exec).Agent == principal }
	if inc.current != nil && slices.ContainsFunc(inc.current.members, func(m member) bool { return is(m.exec) }) {
		return true
	}
	if inc.proposal != nil && slices.ContainsFunc(inc.proposal.members, is) {
		return true
	}
	return slices.ContainsFunc(inc.hold.members, is) ||
		slices.ContainsFunc(inc.signals, func(n uint32) bool { return s.ownsSome(principal, s.signals[n].subject) })
}

// ownsSome reports whether a principal owns an execution that a subject stands for.
func (s *State) ownsSome(principal, subject uint32) bool {
	for exec := range s.executionsOf(subject) {
		if s.graph.Node(exec).Agent == principal {
			return true
		}
	}
	return false
}

func (s *State) applyApproval(e *entry.Entry, a *entry.Approval, issuer uint32, index uint64) {
	number := s.mustIncident(a.Incident)
	p := s.incidents[number].proposal
	if p == nil {
		s.impossible("nothing is proposed")
	}
	p.approvals = append(p.approvals, approval{decided{index, e.KeyID, a.Exp * 1000}, issuer, a.Verdict == "refuse"})
	s.tookPart(issuer, number, index)
}

// answersTo returns the answers to a proposal that count now: the newest of
// each principal.
func (s *State) answersTo(inc *incident, p *proposal, now int64) (approve, refuse []approval) {
	for i := range p.approvals {
		a := &p.approvals[i]
		newer := slices.ContainsFunc(p.approvals[i+1:], func(b approval) bool { return b.issuer == a.issuer })
		if newer || now >= a.exp || s.void(&a.decided) || s.eligible(inc, a.keyID, a.issuer, true) != nil {
			continue
		}
		if a.refuse {
			refuse = append(refuse, *a)
		} else {
			approve = append(approve, *a)
		}
	}
	return approve, refuse
}

// checkQuorum checks that a decision carries out exactly the proposal, and that the decision
// names enough approvals of the proposal.
func (s *State) checkQuorum(d *decisionOf, a *assessment) error {
	p := s.waiting(d.inc, d.now)
	if p == nil {
		return conflict("approvals", "no proposal of incident %d waits for answers", d.inc.opened)
	}
	if int64(len(d.Approvals)) < a.policy.quorum.Approve {
		return conflict("approvals", "%d of %d approvals", len(d.Approvals), a.policy.quorum.Approve).WithRemedy("wait for more approvals")
	}
	if *d.Pin != p.pin || *d.Signals != p.signals || !slices.Equal(a.dismissed, p.dismissed) || d.RollbackSet.Head != p.rollbackSet {
		return entry.Refuse(entry.ScopeMismatch, "rollback_set", "not the rollback set of the proposal, entry %d", p.index).
			WithRemedy("carry out the proposal as it is, or propose again")
	}
	approve, _ := s.answersTo(d.inc, p, d.now)
	for i, index := range d.Approvals {
		counts := slices.ContainsFunc(approve, func(a approval) bool { return a.index == index })
		if !counts || slices.Contains(d.Approvals[:i], index) {
			return conflict("approvals", "entry %d is not a valid approval of the proposal", index)
		}
	}
	return nil
}

// quorumImpossible reports whether refusals make the quorum for an incident impossible.
func (s *State) quorumImpossible(inc *incident, now int64) bool {
	p := s.waiting(inc, now)
	return p != nil && s.proposalRefused(inc, p, now)
}

// proposalRefused reports whether the refusals of a proposal make its quorum
// impossible.
func (s *State) proposalRefused(inc *incident, p *proposal, now int64) bool {
	_, refuse := s.answersTo(inc, p, now)
	if len(refuse) == 0 {
		return false
	}
	possible := int64(0)
	for _, info := range s.chain.Agents() {
		issuer, known := s.principals.Find([]byte(info.Principal))
		if known && slices.ContainsFunc(refuse, func(a approval) bool { return a.issuer == issuer }) {
			continue
		}
		if is, why := s.MayApprove(inc.opened, &info); is && why == nil {
			possible++
		}
	}
	return possible < s.policyFor(inc).quorum.Approve
}

// MayApprove reports whether a principal has the key of an approver, and why its answer to a
// proposal for an incident would not count (INC-5); nil: it would.
func (s *State) MayApprove(id uint64, p *verify.AgentInfo) (approver bool, why error) {
	_, inc, ok := s.findIncident(id)
	if !ok {
		return false, nil
	}
	issuer, known := s.principals.Find([]byte(p.Principal))
	for _, key := range p.Keys {
		if !slices.Contains(key.Roles, entry.RoleApprover) || key.Revoked != 0 {
			continue
		}
		if approver, why = true, s.eligible(inc, key.Key.KeyID(), issuer, known); why == nil {
			break
		}
	}
	return approver, why
}

// admitDeny checks who may dismiss an incident, and that every signal gets a disposition. An
// incident that is decided already is not denied. A deny of it acknowledges an unanswered proposal.
func (s *State) admitDeny(d *decisionOf) error {
	if d.inc.state.Decided() {
		return s.admitAcknowledgement(d)
	}
	if d.Supersedes != nil {
		return conflict("supersedes", "the incident is not denied yet").WithRemedy("leave supersedes out: only the acknowledgement of an incident that no approver answered has it")
	}
	if err := s.mayDeny(d); err != nil {
		return err
	}
	if err := s.checkDispositions(d.inc, d.Dispositions); err != nil {
		return err
	}
	if d.inc.mergedInto == 0 && s.mayJudge(d) == nil {
		return s.checkVouched(d)
	}
	return s.checkUnjudged(d, "give the disposition inconclusive: only an approver without a part in the incident judges its signals, and the older incident judges the signals of a merged incident")
}

func (s *State) mayDeny(d *decisionOf) error {
	switch {
	case d.inc.mergedInto != 0, s.unanswered(d.inc, d.now), d.has(entry.RoleCoordinator) && s.quorumImpossible(d.inc, d.now):
		return nil
	case !d.has(entry.RoleApprover):
		return conflict("act", "the coordinator denies only after answer_ms, when refusals make a quorum impossible, or when the incident was merged")
	}
	return s.mayJudge(d)
}

// mayJudge checks that the issuer of a decision may judge signals. The issuer must be an
// eligible approver, and must own no member of the plan as of now.
func (s *State) mayJudge(d *decisionOf) error {
	issuer, known := s.principals.Find([]byte(d.Iss))
	if err := s.eligible(d.inc, d.entry.KeyID, issuer, known); err != nil || !known {
		return err
	}
	if slices.Contains(s.assess(d.number, s.size, nil, d.now).plan.Agents, issuer) {
		return entry.Refuse(entry.NoStanding, "iss", "%s owns a member of the plan", d.Iss).WithRemedy("let another approver decide")
	}
	return nil
}

// checkDispositions checks that a list names each signal of the incident once.
func (s *State) checkDispositions(inc *incident, list []entry.Disposition) error {
	for _, n := range inc.signals {
		index := s.signals[n].index
		if !slices.ContainsFunc(list, func(d entry.Disposition) bool { return d.Index == index }) {
			return conflict("dispositions", "the signal at %d has no disposition", index).WithRemedy("name every signal of the incident")
		}
	}
	if len(list) > len(inc.signals) {
		return conflict("dispositions", "%d of %d signals have one", len(list), len(inc.signals))
	}
	return nil
}

func (s *State) applyDeny(d *decisionOf, index uint64) {
	if d.inc.state.Decided() {
		s.applyAcknowledgement(d, index)
		return
	}
	if s.bySilence(d) {
		d.inc.missed = missedAnswer{entry: index, at: d.now}
	}
	if d.inc.mergedInto == 0 {
		s.dispose(d.Dispositions, index)
		for _, one := range d.Dispositions {
			if sig, ok := s.findSignal(one.Index); ok && one.Disposition == entry.Dismissed {
				s.cooldowns[cooldownKey{sig.issuer, sig.subject}] = d.now
			}
		}
	}
	s.end(d.number, entry.IncidentDismissed, index)
}

// end closes an incident.
func (s *State) end(number uint32, state entry.IncidentState, index uint64) {
	inc := s.incidents[number]
	inc.state, inc.recorded, inc.hold, inc.notFenced, inc.proposal = state, index, hold{}, "", nil
	delete(s.open, number)
}

// dispose records the verdicts on signals, and counts each verdict for the signal's issuer.
func (s *State) dispose(list []entry.Disposition, index uint64) {
	for _, one := range list {
		sig, ok := s.findSignal(one.Index)
		if !ok {
			s.impossible("no signal at %d", one.Index)
		}
		sig.verdict = verdict{disposition(slices.Index(dispositions, one.Disposition)), one.Independent}
		sig.domains, sig.disposed = one.Domains, index
		s.usage[sig.issuer].judge(sig.verdict)
	}
}

// admitOverride checks who may stop an incident: an operator, or enough approvers together.
func (s *State) admitOverride(d *decisionOf) error {
	if d.inc.current.override != 0 {
		return conflict("act", "incident %d is overridden already", d.inc.opened)
	}
	if d.has(entry.RoleOperator) {
		return nil
	}
	issuer, known := s.principals.Find([]byte(d.Iss))
	if known && slices.ContainsFunc(s.votes(d.inc), func(v approval) bool { return v.issuer == issuer }) {
		return conflict("iss", "%s has asked for it already", d.Iss).WithRemedy("another approver must ask for it too")
	}
	return s.eligible(d.inc, d.entry.KeyID, issuer, known)
}

// applyOverride withholds every member without an outcome, once an operator or enough
// approvers have signed an override.
func (s *State) applyOverride(d *decisionOf, issuer uint32, index uint64) {
	f := d.inc.current
	d.inc.missed = s.missedAnswerOf(d.inc, d.now)
	d.inc.proposal = nil // the proposal is older than the override and has an older epoch
	key, _ := s.chain.KeyInfo(d.entry.KeyID)
	if !slices.Contains(key.Roles, entry.RoleOperator) {
		d.inc.overrides = append(d.inc.overrides, approval{decided{index, d.entry.KeyID, d.Exp * 1000}, issuer, false})
		if int64(len(s.votes(d.inc))) < s.policyFor(d.inc).quorum.Override {
			return
		}
	}
	f.override, d.inc.stopped, d.inc.overrides = index, index, nil // votes are used once
	for i := range f.members {
		if m := &f.members[i]; m.result == "" {
			s.setResult(f, m, result{entry.Withheld, index, false}, d.now)
		}
	}
}

// votes returns the overrides by approvers that count now. The rules are those of approvals.
func (s *State) votes(inc *incident) []approval {
	return slices.DeleteFunc(slices.Clone(inc.overrides), func(v approval) bool {
		return s.void(&v.decided) || s.eligible(inc, v.keyID, v.issuer, true) != nil
	})
}

// admitRelease checks who may lift the fence of members: an approver who owns none of the
// members. Each member must have an outcome.
func (s *State) admitRelease(d *decisionOf) error {
	if !d.has(entry.RoleApprover) {
		return entry.Refuse(entry.UnauthorizedRole, "iss", "%s is not an approver", d.Iss)
	}
	for _, ref := range d.Members {
		exec, known := s.resolve(s.executions.names, ref)
		if !known {
			return unknown("members", "no execution %s in the log", ref)
		}
		m, member := d.inc.current.find(exec)
		switch {
		case !member:
			return unknown("members", "%s is not a member of incident %d", ref, d.inc.opened)
		case s.agentOf(exec) == d.Iss:
			return entry.Refuse(entry.NoStanding, "iss", "%s owns %s", d.Iss, ref).WithRemedy("let another approver decide")
		case m.result == "":
			return conflict("members", "%s has no outcome yet", ref)
		}
	}
	return nil
}
