package coord

import (
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// skewMS is the largest error of an agent's clock, in milliseconds, when the agent reads an expiry.
const skewMS = 300_000

// worse is the order in which an agent may correct itself (INC-6).
var worse = map[entry.Result]int{
	entry.Restored: 0, entry.Compensated: 0, entry.NotExecuted: 0,
	entry.ResultIrrevocable: 1, entry.Refused: 2, entry.ResultFailed: 3,
}

// admitOutcome checks INC-6.
func (s *State) admitOutcome(o *entry.Outcome, signerRoles []entry.Role, now int64) error {
	inc, _, err := s.admitIncident(o.Incident, &o.Header) // REG-8
	if err != nil {
		return err
	}
	exec, x, known := s.findExecution(o.Exec)
	if !known {
		return unknown("exec", "no execution %s in the log", o.Exec)
	}
	if inc.current == nil || inc.state == entry.IncidentDismissed { // REG-9
		return conflict("incident", "incident %d is %s: nothing is to be undone", inc.opened, inc.state)
	}
	m, member := inc.current.find(exec)
	if !member {
		return unknown("exec", "%s is not a member of incident %d", o.Exec, inc.opened)
	}
	if !slices.Contains(inc.current.decisions, o.Decision.Index) || o.Decision.Index < m.since || !s.isRef(o.Decision) {
		return conflict("decision", "entry %d did not put %s into the plan of incident %d", o.Decision.Index, o.Exec, inc.opened)
	}
	own := s.principal(x.Agent) == o.Iss && slices.Contains(signerRoles, entry.RoleAgent)
	if !own {
		if err := s.admitUnknown(o, inc, m, signerRoles, now); err != nil {
			return err
		}
	}
	if err := s.admitSuperseding(o, inc, m, own); err != nil {
		return err
	}
	return s.admitResult(o, m, x)
}

// admitUnknown checks when a principal other than the agent may report that the outcome of a
// member is unknown (INC-7). The member's time must be over. By no clock may an agent still act on
// a decision.
func (s *State) admitUnknown(o *entry.Outcome, inc *incident, m *member, signerRoles []entry.Role, now int64) error {
	f := inc.current
	due := max(s.due(inc, m), f.expMax+skewMS)
	coordinator := slices.Contains(signerRoles, entry.RoleCoordinator)
	switch {
	case o.Result != entry.ResultUnknown || !coordinator && !slices.Contains(signerRoles, entry.RoleApprover):
		return entry.Refuse(entry.NoStanding, "iss", "%s is not an execution of %s", o.Exec, o.Iss).WithRemedy("only the agent of the execution may report its outcome")
	case inc.state != entry.IncidentAuthorized:
		return conflict("incident", "incident %d is %s: only its agents may correct it", inc.opened, inc.state)
	case m.result != "":
		return conflict("exec", "%s has an outcome", o.Exec)
	case !coordinator && now <= f.deadline:
		return conflict("iss", "approvers may report this after the deadline at %d", f.deadline)
	case now <= due:
		return conflict("exec", "the agent of %s has until %d", o.Exec, due)
	}
	return nil
}

// admitSuperseding checks whether an outcome may replace the outcome before.
func (s *State) admitSuperseding(o *entry.Outcome, inc *incident, m *member, own bool) error {
	if m.result == "" {
		if o.Supersedes != nil {
			return conflict("supersedes", "%s has no outcome yet", o.Exec)
		}
		if inc.state != entry.IncidentAuthorized {
			return conflict("incident", "incident %d is %s", inc.opened, inc.state)
		}
		return nil
	}
	if o.Supersedes == nil || *o.Supersedes != s.logRef(m.resultAt) {
		return conflict("supersedes", "the outcome of %s stands at entry %d", o.Exec, m.resultAt).WithRemedy("name that entry to correct the outcome")
	}
	before, known := worse[m.result]
	after, definite := worse[o.Result]
	if !own || known && (!definite || after <= before) {
		return conflict("result", "%s does not follow %s", o.Result, m.result).
			WithRemedy("a correction may only replace an outcome by a worse one, or replace unknown")
	}
	return nil
}

// admitResult checks whether a result fits the method.
func (s *State) admitResult(o *entry.Outcome, m *member, x *scope.Node) error {
	switch o.Result {
	case entry.ResultFailed, entry.Refused, entry.ResultUnknown, entry.Withheld:
		if m.method == scope.Invalid && !s.draining(m) {
			return conflict("exec", "%s has nothing to undo, and counts as not executed without an entry", o.Exec)
		}
		return nil
	case entry.NotExecuted:
		ended := x.Progress == scope.Cancelled || x.Progress == scope.Failed && x.Clean
		if m.method == scope.Cancel && x.Progress != scope.Started && x.Progress != scope.Confirmed || m.drain && ended {
			return nil
		}
	case entry.ResultIrrevocable:
		if m.method == scope.Residual {
			return nil
		}
	case entry.Restored:
		if m.method == scope.Restore {
			return s.admitRestored(o, m)
		}
	case entry.Compensated:
		if m.method == scope.Compensate {
			return s.admitCompensated(o, m)
		}
	}
	return conflict("result", "%s does not fit %s, whose method is %s", o.Result, o.Exec, methods[m.method])
}

func (s *State) admitRestored(o *entry.Outcome, m *member) error {
	switch {
	case m.releasedAt == 0:
		return conflict("exec", "the drains and compensations of the line of %s come first", o.Exec)
	case digestOf(o.PostDigest) != *s.checkpoints.digests.At(m.checkpoint - 1):
		return conflict("post_digest", "not the digest of checkpoint %s", s.ref(s.checkpoints.names, m.checkpoint-1))
	}
	return nil
}

func (s *State) admitCompensated(o *entry.Outcome, m *member) error {
	comp, x, known := s.findExecution(o.CompExec)
	switch of, is := s.executions.comps[comp]; {
	case !known:
		return unknown("comp_exec", "no execution %s in the log", o.CompExec)
	case !is || of.exec != m.exec:
		return conflict("comp_exec", "%s does not compensate %s", o.CompExec, o.Exec)
	case m.releasedAt == 0:
		return conflict("exec", "executions that depend on %s, or its own drain, come first", o.Exec).WithRemedy("wait until the execution is released")
	case x.Progress != scope.Confirmed:
		return conflict("comp_exec", "%s is %s, not confirmed", o.CompExec, steps[x.Progress])
	}
	return nil
}

func (s *State) applyOutcome(o *entry.Outcome, issuer uint32, index uint64, now int64) {
	number := s.mustIncident(o.Incident)
	inc := s.incidents[number]
	exec := s.mustResolve(s.executions.names, o.Exec)
	m, ok := inc.current.find(exec)
	if !ok {
		s.impossible("%s is not a member", o.Exec)
	}
	if !inc.state.Open() {
		s.usage[issuer].corrections++
	}
	s.tookPart(issuer, number, index)
	s.setResult(inc.current, m, result{o.Result, index, s.graph.Node(exec).Agent == issuer}, now)
}

// admitCompensation checks EXE-4 for the first entry of a compensation.
func (s *State) admitCompensation(x *entry.Execution, now int64) error {
	c := x.Compensates
	_, inc, ok := s.findIncident(c.Incident)
	if !ok {
		return unknown("compensates.incident", "no incident %d in the log", c.Incident)
	}
	exec, of, ok := s.findExecution(c.Exec)
	if !ok {
		return unknown("compensates.exec", "no execution %s in the log", c.Exec)
	}
	f := inc.current
	switch {
	case inc.state != entry.IncidentAuthorized || f.override != 0 || s.void(&f.decided):
		return conflict("compensates", "no decision is in force for incident %d", inc.opened)
	case c.Decision != s.logRef(f.index):
		return conflict("compensates.decision", "entry %d is not the decision in force, which is entry %d", c.Decision.Index, f.index)
	case now >= f.exp:
		return conflict("compensates.decision", "it expired at %d", f.exp)
	case s.principal(of.Agent) != x.Iss:
		return entry.Refuse(entry.NoStanding, "iss", "%s is not an execution of %s", c.Exec, x.Iss)
	}
	m, member := f.find(exec)
	switch {
	case !member || m.method != scope.Compensate:
		return conflict("compensates.exec", "%s is not to be compensated in incident %d", c.Exec, inc.opened)
	case m.result != "":
		return conflict("compensates.exec", "%s has an outcome", c.Exec)
	case m.releasedAt == 0:
		return conflict("compensates.exec", "executions that depend on %s, or its own drain, come first", c.Exec).WithRemedy("wait until the execution is released")
	}
	return nil
}
