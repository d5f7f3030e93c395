package coord

import (
	"strconv"

	"recoveryledger/coord/compact"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// checkpoints holds what the rules need of checkpoints beside the graph, by the same numbers.
type checkpoints struct {
	names   *compact.Names       // issuer's number and local id
	digests compact.List[digest] // of the states
}

// admitCheckpoint checks CHK-1, and that an id is given once.
func (s *State) admitCheckpoint(c *entry.Checkpoint) error {
	final := uint64(0)
	if c.After != nil {
		exec, after, ok := s.findExecution(*c.After)
		if !ok { // REG-8
			return unknown("after", "no execution %s in the log", *c.After)
		}
		if err := s.admitAfter(c, exec, after); err != nil {
			return err
		}
		final = after.Final
	}
	if _, ok := s.resolve(s.checkpoints.names, entry.NewRef(c.Iss, c.Checkpoint)); ok {
		return conflict("checkpoint", "%s has a checkpoint %s already", c.Iss, c.Checkpoint).WithRemedy("give every checkpoint a new id")
	}
	issuer, ok := s.principals.Find([]byte(c.Iss))
	if !ok { // its first entry
		return nil
	}
	workflow, ok := s.workflows.Find([]byte(c.Wid))
	all := s.spansAll(issuer)
	line, known := s.graph.LineOf(issuer, workflow, all)
	if !known || !ok && !all {
		return nil
	}
	if covered := s.graph.Covered(line); final < covered {
		return conflict("after", "covers less than the previous checkpoint, which covers the executions that were final at entry %d", covered)
	}
	return nil
}

func (s *State) admitAfter(c *entry.Checkpoint, exec uint32, after *scope.Node) error {
	switch {
	case s.principal(after.Agent) != c.Iss || after.Line == scope.NoLine:
		return conflict("after", "%s is not an execution of a line of %s", *c.After, c.Iss)
	case string(s.workflows.Text(after.Workflow)) != string(c.Wid) && !s.spansAll(after.Agent):
		return conflict("after", "%s belongs to workflow %s", *c.After, s.workflows.Text(after.Workflow))
	case after.Final == 0:
		return conflict("after", "%s is %s, not final", *c.After, steps[after.Progress]).
			WithRemedy("log the final progress of the execution before the checkpoint that covers it")
	case after.Undone || s.lineWentBack(exec, after):
		return conflict("after", "%s was undone, or its line went back to a checkpoint before it", *c.After).
			WithRemedy("save the present state, after the newest execution that it includes")
	}
	return nil
}

// lineWentBack reports whether the line of an execution was restored to a state before
// the execution, even if the execution's own effect stands. A checkpoint after the
// execution that is registered only now was made before the restore. It holds effects that
// were undone.
func (s *State) lineWentBack(exec uint32, x *scope.Node) bool {
	for _, number := range s.incidentsByExecution[exec] {
		f := s.incidents[number].current
		if f == nil {
			continue
		}
		if _, member := f.find(exec); !member {
			continue
		}
		for _, place := range f.byAgent[x.Agent] {
			if m := &f.members[place]; m.result == entry.Restored && s.graph.Node(m.exec).Line == x.Line {
				return true
			}
		}
	}
	return false
}

// spansAll reports whether the agent's checkpoints reach over all its
// workflows. Its span never changes, so it is looked up once.
func (s *State) spansAll(agent uint32) bool {
	u := &s.usage[agent]
	if u.span == "" {
		info, _ := s.chain.Agent(s.principal(agent))
		u.span = info.Span
	}
	return u.span == entry.SpanAgent
}

func (s *State) applyCheckpoint(c *entry.Checkpoint, issuer uint32, index uint64) {
	s.checkpoints.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, c.Checkpoint))
	s.checkpoints.digests.Add(digestOf(c.Digest))
	workflow, _ := s.workflows.Add([]byte(c.Wid))
	one := scope.Checkpoint{Index: index, ExpiresAt: c.ExpiresAt, Line: s.graph.AddLine(issuer, workflow, s.spansAll(issuer))}
	if c.After != nil {
		one.Covered = s.graph.Node(s.mustResolve(s.executions.names, *c.After)).Final
	}
	s.addPoint(s.graph.AddCheckpoint(one), c)
}

func parentField(i int) string { return "parents[" + strconv.Itoa(i) + "].exec" }
