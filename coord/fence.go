package coord

import (
	"fmt"

	"recoveryledger/coord/ascending"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// holding reports whether the hold of an incident fences now.
func (s *State) holding(inc *incident, now int64) bool {
	return now < inc.hold.exp && inc.state.Open() && !s.void(&inc.hold.decided)
}

// fenced reports whether no other agent may build on what an open incident may undo. The plan of a
// decision in force is fenced in any case.
func (s *State) fenced(inc *incident, now int64) bool {
	if !inc.state.Open() || inc.current != nil && inc.proposal == nil {
		return true
	}
	return inc.notFenced == "" && s.holding(inc, now) && (inc.proposal == nil || len(inc.hold.members) >= len(inc.proposal.members))
}

// notFenced returns why an incident is not fenced; empty: it is.
func (s *State) notFenced(inc *incident, now int64) string {
	if s.fenced(inc, now) {
		return ""
	}
	holding := s.holding(inc, now)
	switch {
	case inc.notFenced != "" && holding:
		return inc.notFenced + "; what was fenced before stays fenced"
	case inc.notFenced != "":
		return inc.notFenced
	case holding:
		return fmt.Sprintf("entry %d fences %d of %d members: signals over edges alone fence just those edges",
			inc.hold.index, len(inc.hold.members), len(inc.proposal.members))
	case inc.hold.index == 0:
		return "no decision has fenced anything yet"
	case s.void(&inc.hold.decided):
		return fmt.Sprintf("the fence of entry %d is void: its key was compromised (TRU-4)", inc.hold.index)
	}
	return fmt.Sprintf("the fence of entry %d has ended", inc.hold.index)
}

// fence is what keeps other agents from building on an execution or a line.
type fence struct {
	inc     *incident
	members []*member // of the plan in force; none: a contain or a proposal fences
}

// fencedBy returns the fence of an execution (INC-4). An open incident comes before a closed one,
// because a closed incident waits for nothing.
func (s *State) fencedBy(exec uint32, now int64) (found fence, is bool) {
	for _, number := range s.incidentsByExecution[exec] {
		inc := s.incidents[number]
		if inc.current != nil {
			if m, ok := inc.current.find(exec); ok && !m.released && (inc.state.Open() || !is) {
				if found, is = (fence{inc, []*member{m}}), true; inc.state.Open() {
					return found, true
				}
			}
		}
		if ascending.Has(inc.hold.members, exec) && s.holding(inc, now) {
			return fence{inc: inc}, true
		}
	}
	return found, is
}

// lineFencedBy returns the fence of a line. An incident whose plan takes the line back fences it
// until that is done. An open incident comes before a closed one.
func (s *State) lineFencedBy(line uint32, now int64) (found fence, is bool) {
	for _, number := range s.incidentsByLine[line] {
		inc := s.incidents[number]
		if ascending.Has(inc.hold.lines, line) && s.holding(inc, now) {
			return fence{inc: inc}, true
		}
		if inc.current == nil || inc.current.restores[line] == 0 || is && !inc.state.Open() {
			continue
		}
		if found, is = (fence{inc, s.fencing(inc.current, line)}), true; inc.state.Open() {
			return found, true
		}
	}
	return found, is
}

// fencing returns the members that keep a line fenced.
func (s *State) fencing(f *decisionInForce, line uint32) (members []*member) {
	for i := range f.members {
		if m := &f.members[i]; m.fencesLine() && s.graph.Node(m.exec).Line == line {
			members = append(members, m)
		}
	}
	return members
}

// fencesLine reports whether a member keeps its line fenced.
func (m *member) fencesLine() bool {
	return m.method == scope.Restore && !m.released && m.result != entry.Restored && m.result != entry.NotExecuted
}

// change changes a member, and updates the count of members that fence its line.
func (s *State) change(f *decisionInForce, m *member, change func(m *member)) {
	before := m.fencesLine()
	change(m)
	after, line := m.fencesLine(), s.graph.Node(m.exec).Line
	switch {
	case before && !after:
		f.restores[line]--
	case !before && after:
		f.restores[line]++
	}
}

// admitFencedFirst checks INC-4 for the first entry of an execution: the entry names no fenced
// parent and joins no fenced line.
func (s *State) admitFencedFirst(x *entry.Execution, now int64) error {
	if len(s.incidentsByExecution) == 0 {
		return nil
	}
	for i := range x.Parents {
		if by, is := s.fencedBy(s.edgeTo(&x.Parents[i]).Exec, now); is {
			return s.refuseOnFenced(parentField(i), x.Parents[i].Exec, by, now)
		}
	}
	issuer, known := s.principals.Find([]byte(x.Iss))
	if !known {
		return nil
	}
	workflow, known := s.workflows.Find([]byte(x.Wid))
	all := s.spansAll(issuer)
	line, ok := s.graph.LineOf(issuer, workflow, all)
	if !ok || !known && !all {
		return nil
	}
	if by, is := s.lineFencedBy(line, now); is {
		return s.refuseOnLine("exec", x.Iss, by, now)
	}
	return nil
}

// admitFencedStep checks INC-4 for a later entry: a fenced execution that was not started may
// only fail or be cancelled.
func (s *State) admitFencedStep(x *entry.Execution, number uint32, old *scope.Node, now int64) error {
	step := progressOf(x)
	if len(s.incidentsByExecution) == 0 || old.Line == scope.NoLine || old.Progress != scope.Planned || step == scope.Failed || step == scope.Cancelled {
		return nil
	}
	if by, is := s.fencedBy(number, now); is {
		return s.refuseOnFenced("progress", x.Ref(), by, now)
	}
	if by, is := s.lineFencedBy(old.Line, now); is {
		return s.refuseOnLine("progress", x.Iss, by, now)
	}
	return nil
}
