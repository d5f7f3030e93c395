package bundle

import (
	"slices"

	"recoveryledger/coord"
	"recoveryledger/coord/scope"
)

// aheadMax is the number of members before a member that a bundle or a plan names. A bundle also
// names the newest compensation that was done.
const aheadMax = 16

// ahead holds compensations that come before a compensation, because they can be reached forward
// from it (INC-7).
type ahead struct {
	open []uint32 // some of the compensations to be done that wait for no other, ascending
	done uint32   // 1 + the compensation whose outcome came last; 0: none
}

// UndoOrder says which members of a plan in force come before others (INC-7).
type UndoOrder struct {
	*coord.DecisionInForce
	graph *scope.Graph
	ahead map[uint32]ahead
	lines map[uint32][]int // by line: places of some of the members that hold it up; nil: not filled yet
}

// NewUndoOrder returns the order of a plan in force. It is valid until the state changes.
func NewUndoOrder(s *coord.State, d *coord.DecisionInForce) *UndoOrder {
	return &UndoOrder{DecisionInForce: d, graph: s.Graph(), ahead: map[uint32]ahead{}}
}

// Ahead returns the places, ascending, of some of the members that a member waits for before its
// undo may begin. There are at most 16. A compensation waits for the compensations that can be
// reached forward from it, of which Ahead names some that wait for no other. A restore waits for
// the drains and compensations of its line.
func (o *UndoOrder) Ahead(place int) (places []int) {
	m := o.Member(place)
	if m.Result != "" || m.Released {
		return nil
	}
	switch m.Method {
	case scope.Restore:
		return o.holders()[o.graph.Node(m.Exec).Line]
	case scope.Compensate:
		for _, other := range o.reach(m.Exec).open {
			if ahead, ok := o.Place(other); ok {
				places = append(places, ahead)
			}
		}
		slices.Sort(places)
	}
	return places
}

// holders returns the places of the members that hold up each line.
func (o *UndoOrder) holders() map[uint32][]int {
	if o.lines != nil {
		return o.lines
	}
	o.lines = map[uint32][]int{}
	for place := range o.Members {
		m := o.Member(place)
		if line := o.graph.Node(m.Exec).Line; m.HoldsLine && len(o.lines[line]) < aheadMax {
			o.lines[line] = append(o.lines[line], place)
		}
	}
	return o.lines
}

// before shows the members that a compensation of the agent waits for, or waited for last. It
// returns their places, ascending. Of the members that the compensation waits for, it shows the
// compensations that themselves wait for no other.
func (b *assembly) before(exec uint32) (places []uint64) {
	a := b.reach(exec)
	execs := slices.Clone(a.open)
	if a.done != 0 {
		execs = append(execs, a.done-1)
	}
	slices.Sort(execs)
	for _, other := range slices.Backward(execs) {
		place, _ := b.Place(other)
		b.member(place)
		places = append(places, uint64(place))
	}
	return places
}

// reach returns the compensations that come before an execution. It keeps all results on the way,
// so that a whole plan costs one walk of its edges.
func (o *UndoOrder) reach(exec uint32) ahead {
	var found []uint32
	for seen, todo := map[uint32]bool{exec: true}, []uint32{exec}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, known := o.ahead[next]; known {
			continue
		}
		found = append(found, next)
		for child := range o.forward(next) {
			if !seen[child] {
				seen[child] = true
				todo = append(todo, child)
			}
		}
	}
	slices.Sort(found)
	for _, next := range slices.Backward(found) { // children first
		o.ahead[next] = o.join(next)
	}
	return o.ahead[exec]
}

// forward yields the members that depend hard on an execution, and the executions that depend
// hard on it, were undone before and lead to members.
func (o *UndoOrder) forward(exec uint32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for child, soft := range o.graph.Children(exec) {
			if _, in := o.Why(child); in && !soft && !yield(child) {
				return
			}
		}
	}
}

// join joins the compensations among the dependents of an execution, and those before these
// dependents.
func (o *UndoOrder) join(exec uint32) (a ahead) {
	for child := range o.forward(exec) {
		theirs := o.ahead[child]
		if m, member := o.find(child); member && m.Method == scope.Compensate {
			switch {
			case m.Result == "" && !m.Waits:
				theirs.open = []uint32{child}
			case m.Reported && (theirs.done == 0 || o.resultAt(theirs.done-1) < m.ResultAt):
				theirs.done = child + 1
			}
		}
		a.open = slices.Concat(a.open, theirs.open)
		slices.Sort(a.open)
		a.open = slices.Compact(a.open)
		a.open = a.open[:min(len(a.open), aheadMax)]
		if theirs.done != 0 && (a.done == 0 || o.resultAt(a.done-1) < o.resultAt(theirs.done-1)) {
			a.done = theirs.done
		}
	}
	return a
}

func (o *UndoOrder) resultAt(exec uint32) uint64 {
	m, _ := o.find(exec)
	return m.ResultAt
}

// find returns the member that an execution is.
func (o *UndoOrder) find(exec uint32) (m coord.MemberInForce, ok bool) {
	place, ok := o.Place(exec)
	if !ok {
		return m, false
	}
	return o.Member(place), true
}
