package coord

import (
	"recoveryledger/merkle"
)

// ScopeTree returns the tree over the members of the plan in force of an incident
// (SCO-5), which stays as it is for as long as the decision; nil if there is none. It takes the time that computing the scope does.
func (s *State) ScopeTree(incident uint64) *merkle.Tree {
	_, inc, ok := s.findIncident(incident)
	if !ok || inc.force == nil {
		return nil
	}
	t, buf := &merkle.Tree{}, []byte(nil)
	for i := range inc.force.members {
		m := &inc.force.members[i]
		member := s.planMember(m.exec, m.method, m.checkpoint)
		buf = member.AppendJSON(buf[:0])
		t.Append(merkle.HashLeaf(buf))
	}
	return t
}
