package coord

import (
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// order is the order in which the members of a plan are undone (INC-7). All of it is derived from
// the members and the graph.
type order struct {
	restores map[uint32]int   // by line: the members that keep it fenced
	waits    map[uint32]int   // by line: drains and compensations before it is restored
	byLine   map[uint32][]int // by line: places of the members to be restored
	byAgent  map[uint32][]int // by agent: places of its members
	through  map[uint32]int32 // as member.blocked, of executions undone before
}

// link derives the order of a plan. A compensation waits until every other compensation that can
// be reached forward from it has an outcome. The waits are counted along the edges, so that an
// outcome costs only the work of its own edges.
func (s *State) link(f *decisionInForce) {
	f.order = order{restores: map[uint32]int{}, waits: map[uint32]int{}, byLine: map[uint32][]int{},
		byAgent: map[uint32][]int{}, through: map[uint32]int32{}}
	open := map[uint32]bool{} // by execution: open, or leads forward to an open one
	i, j := 0, 0
	undone := f.alreadyUndone
	for i < len(f.members) || j < len(undone) { // descending: children first
		if j < len(undone) && (i == len(f.members) || undone[j].exec > f.members[i].exec) {
			exec := undone[j].exec
			f.through[exec] = s.openChildren(exec, open)
			open[exec] = f.through[exec] > 0
			j++
			continue
		}
		m := &f.members[i]
		m.blocked = s.openChildren(m.exec, open)
		open[m.exec] = m.blocked > 0 || m.method == scope.Compensate && m.result == ""
		s.linkLine(f, i)
		i++
	}
}

func (s *State) openChildren(exec uint32, open map[uint32]bool) (count int32) {
	for child, soft := range s.graph.Children(exec) {
		if !soft && open[child] {
			count++
		}
	}
	return count
}

func (s *State) linkLine(f *decisionInForce, place int) {
	m := &f.members[place]
	x := s.graph.Node(m.exec)
	line := x.Line
	f.byAgent[x.Agent] = append(f.byAgent[x.Agent], place)
	if m.fencesLine() {
		f.restores[line]++
	}
	if m.method == scope.Restore {
		f.byLine[line] = append(f.byLine[line], place)
	}
	f.waits[line] += s.holdsLine(m)
}

// holdsLine returns how much of a member comes before its line is restored: its drain, and its
// compensation.
func (s *State) holdsLine(m *member) (count int) {
	if s.draining(m) {
		count++
	}
	if m.method == scope.Compensate && m.result == "" {
		count++
	}
	return count
}

// draining reports whether a member's agent has not made it final yet.
func (s *State) draining(m *member) bool { return m.drain && s.graph.Node(m.exec).Final == 0 }

// begin releases the members that wait for no other member, as of a decision.
func (s *State) begin(f *decisionInForce, index uint64, now int64) {
	for i := range f.members {
		m := &f.members[i]
		switch {
		case m.method == scope.Compensate || m.method == scope.Restore || m.releasedAt != 0:
		case m.method == scope.Invalid && !s.draining(m) && m.result == "":
			s.release(m, now)
			s.setResult(f, m, result{entry.NotExecuted, index, false}, now)
		default:
			s.release(m, now)
		}
	}
	for i := range f.members {
		m := &f.members[i]
		if s.tryRelease(m, now); m.method == scope.Restore {
			s.tryLine(f, s.graph.Node(m.exec).Line, now)
		}
	}
}

// tryRelease releases a compensation that waits for no other member any more.
func (s *State) tryRelease(m *member, now int64) {
	if m.method == scope.Compensate && m.releasedAt == 0 && m.blocked == 0 && !s.draining(m) {
		s.release(m, now)
	}
}

// release notes that a member's undo may begin, by the entry that is applied.
func (s *State) release(m *member, now int64) { m.releasedAt, m.releasedBy = now, s.size }

// tryLine releases the restores of a line whose drains and compensations are
// done.
func (s *State) tryLine(f *decisionInForce, line uint32, now int64) {
	if f.waits[line] > 0 {
		return
	}
	for _, place := range f.byLine[line] {
		if m := &f.members[place]; m.releasedAt == 0 {
			s.release(m, now)
		}
	}
}

// result is the result of a member.
type result struct {
	entry.Result
	index uint64 // of the entry that gives the result
	own   bool   // whether the member's agent gives it
}

// setResult gives a member its result. Then it updates which executions are undone, which members
// are released, and which checkpoints are void.
func (s *State) setResult(f *decisionInForce, m *member, r result, now int64) {
	first, was := m.result == "", m.result.Undone()
	s.change(f, m, func(m *member) { m.result, m.resultAt, m.own = r.Result, r.index, r.own })
	line := s.graph.Node(m.exec).Line
	switch {
	case r.Undone():
		s.graph.Undo(m.exec, r.index)
		if r.Result == entry.Restored {
			s.graph.Void(line, s.graph.Checkpoint(m.checkpoint-1).Index, r.index)
		}
	case was:
		s.graph.Redo(m.exec)
	}
	if !first || m.method != scope.Compensate {
		return
	}
	f.waits[line]--
	s.tryLine(f, line, now)
	if m.blocked == 0 {
		s.clearAncestors(f, m.exec, now)
	}
}

// clearAncestors tells the ancestors of an execution that no open member can be reached
// from it any more.
func (s *State) clearAncestors(f *decisionInForce, exec uint32, now int64) {
	for stack := []uint32{exec}; len(stack) > 0; {
		exec, stack = stack[len(stack)-1], stack[:len(stack)-1]
		for parent := range s.graph.Parents(exec) {
			if parent.Soft {
				continue
			}
			if m, member := f.find(parent.Exec); member {
				m.blocked--
				s.tryRelease(m, now)
				if m.blocked == 0 && (m.method != scope.Compensate || m.result != "") {
					stack = append(stack, parent.Exec)
				}
				continue
			}
			if _, passed := f.through[parent.Exec]; passed {
				if f.through[parent.Exec]--; f.through[parent.Exec] == 0 {
					stack = append(stack, parent.Exec)
				}
			}
		}
	}
}

// drained takes up the final entry of an execution, wherever it is a member.
func (s *State) drained(exec uint32, index uint64, now int64) {
	for _, number := range s.incidentsByExecution[exec] {
		f := s.incidents[number].current
		if f == nil {
			continue
		}
		m, ok := f.find(exec)
		if !ok || !m.drain {
			continue
		}
		line := s.graph.Node(exec).Line
		f.waits[line]--
		s.tryRelease(m, now)
		s.tryLine(f, line, now)
		if m.method == scope.Invalid && !m.result.Undone() && !m.own {
			s.setResult(f, m, result{entry.NotExecuted, index, false}, now)
		}
	}
}

// due returns the instant at which a member's time is over (INC-7). The time counts from the
// member's release, or for a drain from the decision. The deadline caps it.
func (s *State) due(inc *incident, m *member) int64 {
	from, window := m.releasedAt, s.policyFor(inc).windows.MemberMS
	if s.draining(m) {
		from = m.openedAt
	}
	if m.releasedAt == 0 && !s.draining(m) {
		return inc.current.deadline
	}
	return min(from+window, inc.current.deadline)
}
