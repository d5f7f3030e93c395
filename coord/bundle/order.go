package bundle

import (
	"slices"

	"recoveryledger/coord"
	"recoveryledger/coord/scope"
)

// aheadMax is the number of open compensations before a compensation that a bundle names. The
// bundle also names the newest compensation that was done.
const aheadMax = 16

// ahead holds compensations that come before a compensation, because they can be reached forward
// from it (INC-7).
type ahead struct {
	open []uint32 // some of the compensations to be done that wait for no other, ascending
	done uint32   // 1 + the compensation whose outcome came last; 0: none
}

// Order says which members of a plan in force come before others (INC-7).
type Order struct {
	*coord.DecisionInForce
	graph *scope.Graph
	ahead map[uint32]ahead
}

// NewOrder returns the order of a plan in force. It is valid until the state changes.
func NewOrder(s *coord.State, d *coord.DecisionInForce) *Order {
	return &Order{DecisionInForce: d, graph: s.Graph(), ahead: map[uint32]ahead{}}
}

// Compensations returns the places, ascending, of some of the compensations that an execution waits
// for and that wait for no other. There are at most 16.
func (o *Order) Compensations(exec uint32) (places []int) {
	for _, other := range o.reach(exec).open {
		if place, ok := o.Place(other); ok {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
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
func (o *Order) reach(exec uint32) ahead {
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
func (o *Order) forward(exec uint32) func(yield func(uint32) bool) {
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
func (o *Order) join(exec uint32) (a ahead) {
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

func (o *Order) resultAt(exec uint32) uint64 {
	m, _ := o.find(exec)
	return m.ResultAt
}

// find returns the member that an execution is.
func (o *Order) find(exec uint32) (m coord.MemberInForce, ok bool) {
	place, ok := o.Place(exec)
	if !ok {
		return m, false
	}
	return o.Member(place), true
}
