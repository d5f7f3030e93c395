package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// member is a member of the bundle.
type member struct {
	*PlanMember
	own      bool
	asked    bool      // another's, that one of the agent's waits for
	evidence *evidence // of the agent's own, once it is checked
	line     lineKey   // that of evidence; of no line without it
	step     *stepVerdict
	point    *proven // checkpoint of a restore
	digest   entry.Digest
	refused  *RuleError
	outcome  *proven
	result   entry.Result
}

// membership proves that the members are of the decision's rollback set (SCO-5).
func (c *checking) membership() error {
	places := make([]merkle.Place, len(c.Members))
	c.byExec = make(map[entry.Ref]*member, len(c.Members))
	for i := range c.Members {
		m := &c.Members[i]
		places[i] = merkle.Place{Index: m.Place, Leaf: merkle.HashLeaf(m.Member.AppendJSON(nil))}
		if i > 0 && c.Members[i-1].Member.Index <= m.Member.Index {
			return broken(stepMembers, "SCO-5", string(m.Member.Exec), "members do not descend by index")
		}
		if c.byExec[m.Member.Exec] != nil {
			return broken(stepMembers, "SCO-5", string(m.Member.Exec), "a second member of the same execution")
		}
		c.members = append(c.members, &member{PlanMember: m, own: m.Member.Agent == c.Agent})
		c.byExec[m.Member.Exec] = c.members[i]
	}
	head := merkle.Head{Size: c.decision.RollbackSet.Size, Root: c.decision.RollbackSet.Root}
	if err := merkle.CheckInclusions(places, head, c.Membership); err != nil {
		return &RuleError{Step: stepMembers, Rule: "SCO-5", What: "rollback set", Cause: err}
	}
	if !slices.ContainsFunc(c.members, func(m *member) bool { return m.own }) {
		return broken(stepMembers, stepMembers, "members", "none of them is of %s", c.Agent)
	}
	c.passed(stepMembers, "SCO-5", len(places), "in the rollback set of size %d that the decision commits to", head.Size)
	return nil
}

// find returns the member at a place of the rollback set.
func (c *checking) find(place uint64) *member {
	i, ok := slices.BinarySearchFunc(c.members, place, func(m *member, place uint64) int { return cmp.Compare(m.Place, place) })
	if !ok {
		return nil
	}
	return c.members[i]
}

// outcomes checks the outcomes of members (INC-6).
func (c *checking) outcomes() error {
	if err := c.evidenceOf(); err != nil {
		return err
	}
	count := 0
	for i := range c.entries {
		p := &c.entries[i]
		o, ok := p.Body.(*entry.Outcome)
		if !ok {
			continue
		}
		refuse := func(format string, args ...any) error {
			return broken(stepMembers, "INC-6", fmt.Sprintf("outcome %d", p.Index), format, args...)
		}
		m := c.byExec[o.Exec]
		if p.Index >= c.tail && (o.Incident != c.decision.Incident || m == nil) {
			continue
		}
		if o.Incident != c.decision.Incident {
			return refuse("of incident %d, not %d", o.Incident, c.decision.Incident)
		}
		if m == nil {
			return refuse("%s is no member that is shown", o.Exec)
		}
		agent, _ := o.Exec.Split()
		switch {
		case m.outcome != nil:
			return refuse("a second one of %s, after that at %d", o.Exec, m.outcome.Index)
		case o.Iss != agent && o.Result != entry.ResultUnknown:
			return refuse("%s by %s, who is not the agent of %s", o.Result, o.Iss, o.Exec)
		case o.Decision.Index > c.Decision || o.Decision.Index == c.Decision && o.Decision.LeafHash != c.decided.hash || p.Index <= o.Decision.Index:
			return refuse("of another decision, at entry %d", o.Decision.Index)
		case o.Decision.Index < c.Decision && c.decision.Act != entry.ActAmend:
			return refuse("of an earlier decision, at entry %d, but none was amended", o.Decision.Index)
		case !resultFits(o.Result, m.Member.Method):
			return refuse("%s does not fit %s", o.Result, m.Member.Method)
		}
		m.outcome, m.result = p, o.Result
		c.used[p.Index] = true
		count++
	}
	c.passed(stepMembers, "INC-6", count, "outcomes of these members, for this incident, by who may say so")
	return c.overridden()
}

// overridden is what an override withheld before an amend: it stays so until its
// agent says more (INC-6). Which members those are, each of them has to say.
func (c *checking) overridden() error {
	last, count := c.lastOverride(), 0
	for _, m := range c.members {
		refuse := func(format string, args ...any) error {
			return broken(stepMembers, "INC-6", string(m.Member.Exec), format, args...)
		}
		open := last != 0 && m.own && m.outcome == nil && m.Member.Method != entry.MethodNone
		switch {
		case !open && m.By != 0:
			return refuse("no override has a part in it, and it is by entry %d", m.By)
		case !open:
			continue
		}
		p := c.at(m.By)
		if p == nil || m.By == 0 {
			return refuse("%w: whether the override at entry %d withheld it", ErrMissing, last)
		}
		d, ok := p.Body.(*entry.Decision)
		switch {
		case !ok || d.Incident != c.decision.Incident || p.Index > c.Decision || p.Index <= m.Member.Index:
			return refuse("by entry %d, which is no earlier decision of the incident about it", m.By)
		case d.Act == entry.ActOverride:
			m.outcome, m.result = p, entry.Withheld
			count++
		case d.Act != entry.ActAuthorize && d.Act != entry.ActAmend || p.Index < last:
			return refuse("by entry %d, which opened nothing after the override at entry %d", m.By, last)
		}
		c.used[p.Index] = true // even if its key was compromised later: the log counts it
	}
	if count > 0 {
		c.passed(stepMembers, "INC-6", count, "members that an override of this incident withheld before it was amended")
		c.notChecked("that what an override withheld was in the plan then and open, that the rest was not, and, where an approver signed it, that enough others did")
	}
	return nil
}

// lastOverride returns the index of the newest override of the incident that is
// shown and came before the decision; 0: none.
func (c *checking) lastOverride() (last uint64) {
	for i := range c.entries {
		p := &c.entries[i]
		if d, ok := p.Body.(*entry.Decision); ok && d.Act == entry.ActOverride && d.Incident == c.decision.Incident && p.Index < c.Decision {
			last = p.Index
		}
	}
	return last
}

// resultFits reports whether a result may end a member with this method (INC-6). After
// a drain, not_executed may end any member.
func resultFits(result entry.Result, method entry.Method) bool {
	switch result {
	case entry.Restored:
		return method == entry.MethodRestore
	case entry.Compensated:
		return method == entry.MethodCompensate
	case entry.ResultIrrevocable:
		return method == entry.MethodResidual
	}
	return true
}

// plan judges the agent's members, and makes the commands.
func (c *checking) plan() error {
	c.chains()
	for _, m := range c.members {
		if !m.own {
			continue
		}
		if c.Agent != agentOf(m.Member.Exec) {
			return broken(stepMembers, stepMembers, string(m.Member.Exec), "not an execution of %s", c.Agent)
		}
		m.refused = c.judge(m)
	}
	for _, m := range c.members {
		if m.own && m.refused == nil && m.Member.Method == entry.MethodRestore && m.result != entry.Restored {
			m.refused = c.checkRestoredOnce(m)
		}
	}
	if err := c.checkMembersAutomatic(); err != nil {
		return err
	}
	return c.commands()
}

func agentOf(ref entry.Ref) entry.Principal {
	agent, _ := ref.Split()
	return agent
}

// judge is AGT-3 for one member of the agent.
func (c *checking) judge(m *member) *RuleError {
	proven := true // until something beside the rollback set and the entries of the member counts
	refuse := func(rule string, cause error) *RuleError {
		return &RuleError{Step: stepMembers, Rule: rule, What: string(m.Member.Exec), Cause: cause, Proven: proven && !errors.Is(cause, ErrMissing)}
	}
	e, err := c.execution(m.Member.Index)
	switch {
	case err != nil:
		return refuse(stepMembers, err)
	case e.first.hash != m.Member.LeafHash:
		return refuse(stepMembers, fmt.Errorf("its leaf hash is not that of entry %d", m.Member.Index))
	case e.body.Ref() != m.Member.Exec:
		return refuse(stepMembers, fmt.Errorf("entry %d is of %s", m.Member.Index, e.body.Ref()))
	}
	m.evidence, m.line, m.step = e, c.lineOf(e.body.Iss, e.body.Wid), c.steps[m.Member.Index]
	if err := methodFits(m.Member.Method, e); err != nil {
		return refuse("SCO-4", err)
	}
	if restore := m.Member.Method == entry.MethodRestore; restore != (m.Member.Checkpoint != "") {
		return refuse("SCO-4", fmt.Errorf("method %s with checkpoint %q", m.Member.Method, m.Member.Checkpoint))
	} else if proven = false; restore {
		if err := c.restore(m); err != nil {
			return refuse("SCO-2", err)
		}
	}
	switch s := m.step; {
	case s == nil:
		return refuse(stepMembers, fmt.Errorf("%w: a chain from a seed to it", ErrMissing))
	case s.err != nil:
		return refuse(s.err.Rule, fmt.Errorf("%s: %w", s.err.What, s.err.Cause))
	}
	return nil
}

// methodFits checks SCO-4 as far as the agent's own entries show it.
func methodFits(method entry.Method, e *evidence) error {
	effect := e.body.Effect
	ok := false
	switch method {
	case entry.MethodNone:
		ended := e.final != nil && e.outcome != entry.Confirmed
		if effect != entry.EffectNone && !ended {
			return fmt.Errorf("%w: the final entry by which %s ended without effect", ErrMissing, e.body.Ref())
		}
		ok = true
	case entry.MethodCancel:
		x := e.body
		if e.started != nil {
			x, _ = e.started.Body.(*entry.Execution)
		}
		if x.Progress == entry.Started || x.Progress == entry.Confirmed {
			return fmt.Errorf("it was %s, too late for a cancel", x.Progress)
		}
		ok = true
	case entry.MethodRestore:
		ok = effect == entry.EffectReversible
	case entry.MethodCompensate:
		ok = effect == entry.EffectCompensable
	case entry.MethodResidual:
		ok = effect == entry.EffectReversible || effect == entry.EffectIrrevocable || effect == entry.EffectUndeclared
	}
	if !ok {
		return fmt.Errorf("method %q does not suit the effect %s", method, effect)
	}
	return nil
}

// restore is SCO-2 for the checkpoint that the agent goes back to.
func (c *checking) restore(m *member) error {
	at := slices.IndexFunc(c.points, func(p *proven) bool {
		point, _ := p.Body.(*entry.Checkpoint)
		return entry.NewRef(point.Iss, point.Checkpoint) == m.Member.Checkpoint
	})
	if at < 0 {
		return fmt.Errorf("%w: checkpoint %s", ErrMissing, m.Member.Checkpoint)
	}
	p := c.points[at]
	point, _ := p.Body.(*entry.Checkpoint)
	c.used[p.Index] = true
	if c.lineOf(point.Iss, point.Wid) != m.line {
		return fmt.Errorf("checkpoint %s is not of its line", m.Member.Checkpoint)
	}
	if m.result == "" && point.ExpiresAt != 0 && point.ExpiresAt <= c.now { // a member with an outcome is not started
		return fmt.Errorf("checkpoint %s expired at %d", m.Member.Checkpoint, point.ExpiresAt)
	}
	begun, err := m.evidence.begun()
	if err != nil {
		return err
	}
	if p.Index >= begun {
		return fmt.Errorf("checkpoint %s was made after %s began", m.Member.Checkpoint, m.Member.Exec)
	}
	if m.result == entry.Restored {
		if o, _ := m.outcome.Body.(*entry.Outcome); o.PostDigest != point.Digest {
			return errors.New("its outcome is of another checkpoint")
		}
	}
	m.point, m.digest = p, point.Digest
	return nil
}

// checkRestoredOnce checks that a line is restored once: to one checkpoint, before all
// of its members that have begun. That checkpoint also brings in the members that SCO-2
// adds.
func (c *checking) checkRestoredOnce(m *member) *RuleError {
	for _, other := range c.members {
		if m.line != other.line || other.result == entry.Restored {
			continue // an earlier restore may be by an earlier decision
		}
		refuse := func(format string, args ...any) *RuleError {
			return broken(stepMembers, "SCO-2", string(m.Member.Exec), format, args...)
		}
		if other.Member.Method == entry.MethodRestore && other.Member.Checkpoint != m.Member.Checkpoint {
			return refuse("its line goes back to %s, and with %s to %s", m.Member.Checkpoint, other.Member.Exec, other.Member.Checkpoint)
		}
		if s := other.step; s != nil && s.Rule == RuleLine && s.Checkpoint != m.point.Index {
			return refuse("its line goes back to %s, but the step to %s is by checkpoint %d", m.Member.Checkpoint, other.Member.Exec, s.Checkpoint)
		}
		if begun, err := other.evidence.begun(); err == nil && begun <= m.point.Index {
			return refuse("checkpoint %s was made after %s, of the same line, began", m.Member.Checkpoint, other.Member.Exec)
		}
	}
	return nil
}

// checkMembersAutomatic checks the agent's own members against the rules for the coordinator alone
// (INC-2).
func (c *checking) checkMembersAutomatic() error {
	if len(c.decision.Approvals) > 0 {
		return nil
	}
	for _, m := range c.members {
		if !m.own || m.refused != nil {
			continue
		}
		refuse := func(why string) error {
			return broken(stepMembers, "INC-2", string(m.Member.Exec), "%s: only a quorum may authorize that, and none is listed", why)
		}
		switch {
		case m.Member.Method == entry.MethodResidual:
			return refuse("it cannot be undone")
		case m.Member.Method == entry.MethodCompensate && !m.step.direct:
			return refuse("it is to be compensated only because its line goes back")
		}
	}
	return nil
}
