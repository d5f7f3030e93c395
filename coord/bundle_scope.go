package coord

import (
	"fmt"

	"recoveryledger/merkle"
)

// ScopeTree is the tree over the members of a plan in force (SCO-5), which stays
// as it is for as long as the decision.
type ScopeTree struct {
	levels [][]merkle.Hash // roots of perfect subtrees, by height
}

// ScopeTree returns the tree of the plan in force of an incident; nil if there is
// none. It takes the time that computing the scope does.
func (s *State) ScopeTree(incident uint64) *ScopeTree {
	_, inc, ok := s.findIncident(incident)
	if !ok || inc.force == nil {
		return nil
	}
	level, buf := make([]merkle.Hash, len(inc.force.members)), []byte(nil)
	for i := range inc.force.members {
		m := &inc.force.members[i]
		member := s.planMember(m.exec, m.method, m.checkpoint)
		buf = member.AppendJSON(buf[:0])
		level[i] = merkle.HashLeaf(buf)
	}
	t := &ScopeTree{}
	for len(level) > 0 {
		t.levels = append(t.levels, level)
		above := make([]merkle.Hash, len(level)/2)
		for i := range above {
			above[i] = merkle.HashChildren(level[2*i], level[2*i+1])
		}
		level = above
	}
	return t
}

// Size returns how many members there are.
func (t *ScopeTree) Size() uint64 {
	if len(t.levels) == 0 {
		return 0
	}
	return uint64(len(t.levels[0]))
}

// Node is a [merkle.NodeReader].
func (t *ScopeTree) Node(level uint, index uint64) (merkle.Hash, error) {
	if level >= uint(len(t.levels)) || index >= uint64(len(t.levels[level])) {
		return merkle.Hash{}, fmt.Errorf("coord: read node %d/%d of a scope of %d", level, index, t.Size())
	}
	return t.levels[level][index], nil
}
