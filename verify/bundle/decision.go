package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// effectivePolicy is the policy that holds for an incident (INC-3): of the policy at
// its opening and the policy at the decision, the stricter limits and the larger
// quorums.
type effectivePolicy struct {
	approve, override, signalers int64
	limit                        entry.Cap
	deadlineMaxMS                int64
}

func effectivePolicyOf(opening, current *entry.Policy) effectivePolicy {
	a, b := opening.Limits.Incident, current.Limits.Incident
	return effectivePolicy{
		approve:       max(opening.Quorum.Approve, current.Quorum.Approve),
		override:      max(opening.Quorum.Override, current.Quorum.Override),
		signalers:     max(opening.Quorum.Signalers, current.Quorum.Signalers),
		limit:         entry.Cap{Members: min(a.Members, b.Members), Agents: min(a.Agents, b.Agents), Domains: min(a.Domains, b.Domains)},
		deadlineMaxMS: min(opening.Windows.DeadlineMaxMS, current.Windows.DeadlineMaxMS),
	}
}

// refuse is a rule that the decision breaks.
func (c *checking) refuse(rule, format string, args ...any) error {
	return broken(stepDecision, rule, fmt.Sprintf("decision %d", c.Decision), format, args...)
}

// findDecision is that there is one that tells agents to undo something.
func (c *checking) findDecision() error {
	c.decided = c.at(c.Decision)
	if c.decided == nil {
		return c.refuse(stepDecision, "%w: the decision", ErrMissing)
	}
	d, ok := c.decided.Body.(*entry.Decision)
	if !ok {
		return c.refuse(stepDecision, "an entry of kind %s", c.decided.Kind)
	}
	if d.Act != entry.ActAuthorize && d.Act != entry.ActAmend {
		return c.refuse(stepDecision, "act %s, want authorize or amend", d.Act)
	}
	c.decision = d
	c.out.Incident, c.out.Act, c.out.Epoch = d.Incident, d.Act, d.Epoch
	c.out.Decision = entry.LogRef{Index: c.Decision, LeafHash: c.decided.hash}
	c.out.ExpiresAt, c.out.DeadlineAt = d.Exp*1000, d.DeadlineAt // that is no earlier, says fresh
	c.passed(stepDecision, "act", 1, "%s", d.Act)
	return nil
}

// checkPolicyAndKey checks TRU-3 and TRU-4 for the decision.
func (c *checking) checkPolicyAndKey() error {
	if _, inForce := c.then.Policy(); c.decision.Policy != inForce {
		return c.refuse("TRU-3", "it cites the policy at entry %d, in force was that at entry %d", c.decision.Policy.Index, inForce.Index)
	}
	if c.void(c.decided) {
		return c.refuse("TRU-4", "its key %s was revoked as compromised since before it", c.decided.KeyID)
	}
	opening := c.policyBefore(c.decision.Incident)
	if opening == nil || c.decision.Incident >= c.Decision {
		return c.refuse("INC-3", "no policy was in force at entry %d, where the incident opened", c.decision.Incident)
	}
	c.effective = effectivePolicyOf(opening, c.policyBefore(c.Decision))
	c.passed(stepDecision, "TRU-3", 1, "it cites the policy in force at its index, entry %d", c.decision.Policy.Index)
	return nil
}

// checkTimes checks exp and the deadline by the agent's own clock, and INC-7 for the
// deadline.
func (c *checking) checkTimes() error {
	d, at := c.decision, c.decided.RegisteredAt
	switch {
	case d.Exp*1000 <= c.now:
		return c.refuse(stepDecision, "exp %d has passed", d.Exp)
	case d.DeadlineAt <= c.now:
		return c.refuse(stepDecision, "deadline_at %d has passed", d.DeadlineAt)
	case d.Exp*1000 > d.DeadlineAt:
		return c.refuse("INC-7", "exp %d lies behind deadline_at %d", d.Exp, d.DeadlineAt)
	case d.DeadlineAt > at+c.effective.deadlineMaxMS:
		return c.refuse("INC-7", "deadline_at lies %d ms ahead, the policy allows %d", d.DeadlineAt-at, c.effective.deadlineMaxMS)
	}
	if behind := c.entries[len(c.entries)-1].RegisteredAt - c.now; behind > skewMS { // times do not fall
		c.out.Warnings = append(c.out.Warnings, fmt.Sprintf("this clock is %d ms behind the newest entry: it may take what has expired for valid", behind))
	}
	c.passed(stepDecision, "exp", 1, "%d ms are left", c.out.ExpiresAt-c.now)
	return nil
}

// restsOn checks that the given signals are the signals of the decision and of its incident.
func (c *checking) restsOn() error {
	d := c.decision
	var leaves []merkle.Hash
	for i := range c.entries {
		if p := &c.entries[i]; p.Kind == entry.KindSignal && p.Index < c.tail {
			c.signals, leaves = append(c.signals, p), append(leaves, p.hash)
			c.used[p.Index] = true
			if p.Index >= d.Pin.Size {
				return c.refuse("SCO-3", "the signal at %d was registered after the pin", p.Index)
			}
		}
	}
	if merkle.HeadOf(leaves) != *d.Signals {
		return c.refuse("SCO-3", "it does not rest on all signals given, %d in number", len(leaves))
	}
	opening, ok := c.signal(d.Incident)
	switch {
	case !ok:
		return c.refuse("SCO-3", "%w: the signal at %d, which opened the incident", ErrMissing, d.Incident)
	case opening.Header.Wid != d.Wid:
		return c.refuse(stepDecision, "of workflow %s, but the incident is of %s", d.Wid, opening.Header.Wid)
	case d.Pin.Size > c.Decision:
		return c.refuse("SCO-5", "its pin has size %d", d.Pin.Size)
	}
	for i, u := range d.Dismissed {
		if _, in := c.signal(u.Index); !in || i > 0 && d.Dismissed[i-1].Index >= u.Index {
			return c.refuse("SCO-3", "dismissed[%d]: entry %d is no signal of the decision, or out of order", i, u.Index)
		}
	}
	c.passed(stepDecision, "SCO-3", len(leaves), "the signals of the decision, %d of them dismissed", len(d.Dismissed))
	return nil
}

// signal returns the signal of the decision at an index.
func (c *checking) signal(index uint64) (*proven, bool) {
	i, ok := slices.BinarySearchFunc(c.signals, index, func(p *proven, index uint64) int { return cmp.Compare(p.Index, index) })
	if !ok {
		return nil, false
	}
	return c.signals[i], true
}

func dismissed(d *entry.Decision, signal uint64) bool {
	return slices.ContainsFunc(d.Dismissed, func(u entry.Dismissal) bool { return u.Index == signal })
}

// authority is INC-5 where the decision lists approvals, else INC-2.
func (c *checking) authority() error {
	d := c.decision
	if err := c.supersedes(); err != nil {
		return err
	}
	if uint64(d.Impact.Members) != d.RollbackSet.Size {
		return c.refuse("SCO-5", "impact.members is %d, the rollback set has %d", d.Impact.Members, d.RollbackSet.Size)
	}
	if len(d.Approvals) > 0 {
		return c.approved()
	}
	if err := c.notStopped(); err != nil {
		return err
	}
	return c.automatic()
}

// notStopped is OVR-3: after an override the coordinator amends nothing alone. A single vote of an
// approver is no override yet.
func (c *checking) notStopped() error {
	var votes []entry.Principal
	for i := range c.entries {
		p := &c.entries[i]
		d, ok := p.Body.(*entry.Decision)
		if !ok || d.Act != entry.ActOverride || d.Incident != c.decision.Incident || p.Index >= c.Decision {
			continue
		}
		key, _ := c.then.KeyInfo(p.KeyID)
		if slices.Contains(key.Roles, entry.RoleOperator) {
			return c.refuse("OVR-3", "the override at entry %d stopped the incident, and no approvals are listed", p.Index)
		}
		if key.Revoked == 0 && !slices.Contains(votes, d.Iss) {
			votes = append(votes, d.Iss)
		}
	}
	if n := int64(len(votes)); n >= c.effective.override {
		return c.refuse("OVR-3", "%d approvers stopped the incident, and no approvals are listed", n)
	}
	return nil
}

// supersedes is that an amend names an earlier decision of its incident.
func (c *checking) supersedes() error {
	d := c.decision
	if d.Act != entry.ActAmend {
		if d.Supersedes != nil {
			return c.refuse("INC-6", "an authorize supersedes nothing")
		}
		return nil
	}
	if d.Supersedes == nil || d.Supersedes.Index >= c.Decision || d.Supersedes.Index <= d.Incident {
		return c.refuse("SCO-5", "an amend that does not name the decision in force before")
	}
	c.earlier = c.amended()
	for _, earlier := range c.earlier {
		if earlier.Epoch >= d.Epoch {
			return c.refuse("INC-7", "epoch %d, not above %d of what it amends", d.Epoch, earlier.Epoch)
		}
	}
	return nil
}

// amended returns the decisions that led to this one, as far as they are given,
// the newest first.
func (c *checking) amended() (list []*entry.Decision) {
	for d := c.decision; d.Supersedes != nil; {
		p := c.at(d.Supersedes.Index)
		if p == nil || p.hash != d.Supersedes.LeafHash {
			break
		}
		earlier, ok := p.Body.(*entry.Decision)
		if !ok || earlier.Incident != d.Incident || earlier.Act != entry.ActAuthorize && earlier.Act != entry.ActAmend {
			break
		}
		if earlier.Supersedes != nil && earlier.Supersedes.Index >= p.Index {
			break
		}
		list, d = append(list, earlier), earlier
	}
	return list
}

// approved recounts the approvals (INC-5).
func (c *checking) approved() error {
	proposal, err := c.proposal()
	if err != nil {
		return err
	}
	var principals []entry.Principal
	var keys []string
	for _, index := range c.decision.Approvals {
		what := fmt.Sprintf("approval %d", index)
		p := c.at(index)
		if p == nil {
			return broken(stepDecision, "INC-5", what, "%w", ErrMissing)
		}
		c.used[index] = true
		if err := c.counts(p, proposal); err != nil {
			return &RuleError{Step: stepDecision, Rule: "INC-5", What: what, Cause: err}
		}
		key, _ := c.then.Key(p.KeyID)
		if slices.Contains(principals, p.Header.Iss) || slices.Contains(keys, key.String()) {
			return broken(stepDecision, "INC-5", what, "%s, or its key, counts once", p.Header.Iss)
		}
		principals, keys = append(principals, p.Header.Iss), append(keys, key.String())
		if c.void(p) {
			c.out.Warnings = append(c.out.Warnings, fmt.Sprintf("%s: its key was revoked as compromised since before it", what))
		}
	}
	if n := int64(len(principals)); n < c.effective.approve {
		return c.refuse("INC-5", "%d of %d approvals", n, c.effective.approve)
	}
	c.passed(stepDecision, "INC-5", len(principals), "distinct approvers, enrolled before the incident; %d were needed", c.effective.approve)
	for _, name := range principals {
		if agent, _ := c.chain.Agent(name); slices.Contains(agent.Roles, entry.RoleAgent) {
			c.notChecked("that %s, who approved and is an agent too, owns no member: only those of %s are shown", name, c.Agent)
		}
	}
	return nil
}

// proposal returns the escalate that the decision carries out.
func (c *checking) proposal() (*proven, error) {
	d := c.decision
	first := c.at(d.Approvals[0])
	if first == nil {
		return nil, c.refuse("INC-5", "%w: approval %d", ErrMissing, d.Approvals[0])
	}
	answer, ok := first.Body.(*entry.Approval)
	if !ok {
		return nil, c.refuse("INC-5", "entry %d is of kind %s", first.Index, first.Kind)
	}
	refuse := func(format string, args ...any) (*proven, error) {
		return nil, broken(stepDecision, "INC-5", fmt.Sprintf("proposal %d", answer.Proposal.Index), format, args...)
	}
	p := c.at(answer.Proposal.Index)
	if p == nil {
		return refuse("%w", ErrMissing)
	}
	e, ok := p.Body.(*entry.Decision)
	if !ok || e.Act != entry.ActEscalate || p.hash != answer.Proposal.LeafHash {
		return refuse("not the escalate that approval %d answers", first.Index)
	}
	epoch := e.Epoch
	if d.Act == entry.ActAmend {
		epoch++
	}
	same := e.Incident == d.Incident && *e.Pin == *d.Pin && *e.Signals == *d.Signals && *e.RollbackSet == *d.RollbackSet &&
		slices.EqualFunc(e.Dismissed, d.Dismissed, func(a, b entry.Dismissal) bool { return a.Index == b.Index })
	switch {
	case !same:
		return refuse("not what decision %d carries out", c.Decision)
	case epoch != d.Epoch:
		return refuse("epoch %d, the decision's is %d", e.Epoch, d.Epoch)
	case e.Exp*1000 <= c.decided.RegisteredAt:
		return refuse("expired before the decision")
	case c.then.Compromised(p.KeyID, p.Index):
		return refuse("its key was revoked as compromised since before it (TRU-4)")
	}
	c.used[p.Index] = true
	if c.void(p) { // it is carried out, and not in force any more
		c.out.Warnings = append(c.out.Warnings, fmt.Sprintf("proposal %d: its key was revoked as compromised since before it", p.Index))
	}
	return p, nil
}

// counts says which approvals count, and for which proposal (INC-5). TRU-2 checks that the key was
// an approver's when it signed; a key's roles never change.
func (c *checking) counts(p, proposal *proven) error {
	a, ok := p.Body.(*entry.Approval)
	if !ok {
		return fmt.Errorf("an entry of kind %s", p.Kind)
	}
	key, _ := c.then.KeyInfo(p.KeyID)
	signaled := slices.ContainsFunc(c.signals, func(s *proven) bool { return s.Header.Iss == a.Iss })
	switch {
	case a.Verdict != "approve":
		return fmt.Errorf("its verdict is %s", a.Verdict)
	case a.Incident != c.decision.Incident:
		return fmt.Errorf("of incident %d, not %d", a.Incident, c.decision.Incident)
	case a.Proposal != entry.LogRef{Index: proposal.Index, LeafHash: proposal.hash}:
		return fmt.Errorf("it answers entry %d, not the proposal at %d", a.Proposal.Index, proposal.Index)
	case p.Index <= proposal.Index || p.Index >= c.Decision:
		return errors.New("not between the proposal and the decision")
	case a.Exp*1000 <= c.decided.RegisteredAt:
		return errors.New("expired before the decision")
	case key.Revoked != 0:
		return fmt.Errorf("its key was revoked at %d, before the decision", key.Revoked)
	case key.Enrolled >= c.decision.Incident:
		return fmt.Errorf("its key was enrolled at %d, after the incident opened", key.Enrolled)
	case signaled:
		return fmt.Errorf("%s signaled the incident", a.Iss)
	case a.Iss == proposal.Header.Iss:
		return fmt.Errorf("%s made the proposal", a.Iss)
	}
	for i := range c.Members {
		if c.Members[i].Member.Agent == a.Iss {
			return fmt.Errorf("%s owns %s", a.Iss, c.Members[i].Member.Exec)
		}
	}
	return nil
}

// automatic is INC-2, as far as a bundle shows it: the plans that the coordinator may authorize
// alone.
func (c *checking) automatic() error {
	key, _ := c.then.KeyInfo(c.decided.KeyID)
	impact, limit := c.decision.Impact, c.effective.limit
	switch {
	case !slices.Contains(key.Roles, entry.RoleCoordinator):
		return c.refuse("INC-2", "%s is not a coordinator, and no approvals are listed", c.decided.Header.Iss)
	case impact.Members > limit.Members:
		return c.refuse("INC-2", "%d members, the limit is %d", impact.Members, limit.Members)
	case impact.Agents > limit.Agents:
		return c.refuse("INC-2", "%d agents, the limit is %d", impact.Agents, limit.Agents)
	case impact.Domains > limit.Domains:
		return c.refuse("INC-2", "%d domains, the limit is %d", impact.Domains, limit.Domains)
	case impact.Irrevocable+impact.Undeclared > 0:
		return c.refuse("INC-2", "members that cannot be undone: %d", impact.Irrevocable+impact.Undeclared)
	case !c.believed():
		return c.refuse("INC-2", "no executor, no monitor or operator with evidence, and no %d signalers speak for it", c.effective.signalers)
	}
	if err := c.domains(); err != nil {
		return err
	}
	c.passed(stepDecision, "INC-2", 1, "within the coordinator's limits: %d of %d members, %d of %d agents", impact.Members, limit.Members, impact.Agents, limit.Agents)
	c.notChecked("the cause (INC-2), edges over which others signaled, that what too few signaled follows from the rest, limits over a rolling " +
		"window, and overlap with other incidents: they need the whole log")
	return nil
}

// believed checks that enough signalers reported one subject at least (INC-2). Only the whole log
// shows that the other signals follow from those.
func (c *checking) believed() bool {
	others := map[entry.Ref][]entry.Principal{} // by subject
	for _, s := range c.speakers() {
		if s.Standing != entry.StandingUpstream && s.Standing != entry.StandingDownstream {
			return true
		}
		if !slices.Contains(others[s.Subject], s.Iss) {
			others[s.Subject] = append(others[s.Subject], s.Iss)
		}
		if int64(len(others[s.Subject])) >= c.effective.signalers {
			return true
		}
	}
	return false
}

// speakers returns the signals that speak for an automatic decision, alone or
// with others: of an executor about its own, of a monitor or operator with
// evidence, over an edge.
func (c *checking) speakers() (list []*entry.Signal) {
	for _, p := range c.signals {
		s, ok := p.Body.(*entry.Signal)
		if !ok || dismissed(c.decision, p.Index) {
			continue
		}
		agent, _ := s.Subject.Split()
		switch {
		case s.Standing == entry.StandingExecutor && agent != s.Iss:
		case (s.Standing == entry.StandingMonitor || s.Standing == entry.StandingOperator) && len(s.Evidence) == 0:
		default:
			list = append(list, s)
		}
	}
	return list
}

// domains is that a plan over several domains has a quorum of signalers in each
// (INC-2): in as many as it touches, and in that of the agent.
func (c *checking) domains() error {
	if c.decision.Impact.Domains <= 1 {
		return nil
	}
	speakers := map[string][]entry.Principal{} // by domain
	for _, s := range c.speakers() {
		of, _ := c.then.Agent(s.Iss)
		if !slices.Contains(speakers[of.Domain], s.Iss) {
			speakers[of.Domain] = append(speakers[of.Domain], s.Iss)
		}
	}
	maps.DeleteFunc(speakers, func(_ string, of []entry.Principal) bool { return int64(len(of)) < c.effective.signalers })
	if n := int64(len(speakers)); n < c.decision.Impact.Domains {
		return c.refuse("INC-2", "%d domains, in %d of them %d signalers speak for it", c.decision.Impact.Domains, n, c.effective.signalers)
	}
	own, known := c.then.Agent(c.Agent)
	if _, speaks := speakers[own.Domain]; known && !speaks {
		return c.refuse("INC-2", "%d domains, and no %d signalers of domain %q, where %s is enrolled, speak for it",
			c.decision.Impact.Domains, c.effective.signalers, own.Domain, c.Agent)
	}
	c.notChecked("which domains the plan touches beside %q, that of %s, and that no signaler was enrolled in another domain since (INC-2)", own.Domain, c.Agent)
	return nil
}

// epoch is that nothing newer is known of the incident, from any act.
func (c *checking) epoch() error {
	if highest, _ := c.next.Epoch(c.decision.Incident, c.now); c.decision.Epoch < highest {
		return c.refuse(stepDecision, "epoch %d, but the highest known of incident %d is %d", c.decision.Epoch, c.decision.Incident, highest)
	}
	c.passed(stepDecision, "epoch", 1, "%d, the highest known of incident %d", c.decision.Epoch, c.decision.Incident)
	return nil
}
