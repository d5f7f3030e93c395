package bundle

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// parts are the parts of a bundle that follow from the state: entries, members and steps. The
// leaves, the rights of their signers, the head and the proofs come from the log.
type parts struct {
	decision uint64   // index; 0: the agent has no decision to obey, and there are no members
	entries  []uint64 // ascending
	members  []bundle.PlanMember
	steps    []bundle.ChainStep
	next     uint64 // After of the next bundle; 0: none follows
}

// partsOf returns the parts that show an agent the decision in force of an incident, and why the
// decision tells the agent to undo something. The parts have no decision if nothing was authorized,
// if the decision was overridden, if its key is compromised, or if no member is the agent's. Then
// they have at most the override and outcomes. The error is a [*entry.Refusal].
func partsOf(s *coord.State, d *coord.DecisionInForce, q *api.BundleQuery) (*parts, error) {
	agent, known := s.FindPrincipal(q.Agent)
	b := &assembly{UndoOrder: NewUndoOrder(s, d), agent: agent, entries: map[uint64]struct{}{},
		members: map[int]*bundle.PlanMember{}, steps: map[uint32]bundle.ChainStep{}}
	if d.Override != 0 {
		b.show(d.Override)
	}
	if !known || len(d.PlacesOf(agent)) == 0 {
		return b.parts(0), nil
	}
	places, next := b.page(int(q.After), q.Limit)
	if d.Override != 0 || d.Void {
		b.results(places)
		return b.parts(next), nil
	}
	if len(places) == 0 {
		return nil, entry.Refuse(entry.NotFound, "after", "the members of %s end at %d", q.Agent, len(d.PlacesOf(agent)))
	}
	b.decision()
	for _, place := range places {
		b.member(place)
	}
	b.stopped(places)
	p := b.parts(next)
	p.decision = d.Index
	return p, nil
}

// assembly is the making of the parts.
type assembly struct {
	*UndoOrder
	agent uint32

	entries map[uint64]struct{}
	members map[int]*bundle.PlanMember // by place
	steps   map[uint32]bundle.ChainStep
	earlier bool // whether the decisions that the decision amends are shown
}

func (b *assembly) show(indexes ...uint64) {
	for _, index := range indexes {
		b.entries[index] = struct{}{}
	}
}

func (b *assembly) parts(next int) *parts {
	p := &parts{entries: slices.AppendSeq([]uint64{}, maps.Keys(b.entries)), next: uint64(next)}
	slices.Sort(p.entries)
	for _, place := range slices.Sorted(maps.Keys(b.members)) {
		p.members = append(p.members, *b.members[place])
	}
	for _, exec := range slices.Sorted(maps.Keys(b.steps)) { // numbers are in the order of first entries
		p.steps = append(p.steps, b.steps[exec])
	}
	return p
}

// page returns the places of some of the agent's members, line by line. So the agent sees the
// restore of a line together with the members on the line.
func (b *assembly) page(after, limit int) (places []int, next int) {
	line := func(place int) uint32 { return b.graph.Node(b.Member(place).Exec).Line }
	own, first := slices.Clone(b.PlacesOf(b.agent)), map[uint32]int{}
	for _, place := range own {
		if _, begun := first[line(place)]; !begun {
			first[line(place)] = place
		}
	}
	slices.SortStableFunc(own, func(p, q int) int { return cmp.Compare(first[line(p)], first[line(q)]) })
	own = own[min(after, len(own)):]
	if len(own) <= limit {
		return own, 0
	}
	end := limit
	if cut := line(own[end]); cut == line(own[end-1]) {
		if begins := slices.IndexFunc(own, func(p int) bool { return line(p) == cut }); begins > 0 {
			end = begins
		}
	}
	return own[:end], after + end
}

// decision shows the decision, its signals and its approvals.
func (b *assembly) decision() {
	b.show(b.Index)
	if len(b.Approvals) > 0 {
		b.show(b.Proposal)
		b.show(b.Approvals...)
	}
	b.show(b.Signals...)
}

// results shows the reported outcomes of members when there is nothing to obey any more. An
// outcome that the agent then reports supersedes one of these.
func (b *assembly) results(places []int) {
	for _, place := range places {
		if m := b.Member(place); m.Reported {
			b.show(m.ResultAt)
		}
	}
}

// member shows a member of the plan. For a member of the agent, it also shows the entries that the
// member rests on.
func (b *assembly) member(place int) {
	if b.members[place] != nil {
		return
	}
	m := b.Member(place)
	shown := &bundle.PlanMember{Place: uint64(place), Member: b.Planned(place)}
	b.members[place] = shown
	if m.Reported {
		b.show(m.ResultAt)
	}
	x := b.graph.Node(m.Exec)
	if x.Agent != b.agent {
		return
	}
	b.show(x.First)
	switch m.Method {
	case scope.Restore:
		b.show(x.Started, b.graph.Checkpoint(m.Checkpoint-1).Index)
	case scope.Invalid:
		if x.Effect != scope.None {
			b.show(x.Started, x.Final)
		}
	case scope.Compensate:
		if m.Result == "" {
			shown.After = b.before(m.Exec)
		}
	}
	b.chain(m.Exec)
}

// stopped acts if an override before the decision in force withheld some of the agent's members.
// It shows the entries that withheld these members, and the decisions that opened the others.
func (b *assembly) stopped(places []int) {
	if !slices.ContainsFunc(places, func(place int) bool { return b.Member(place).Overridden }) {
		return
	}
	for _, place := range places {
		m, shown := b.Member(place), b.members[place]
		switch {
		case m.Method == scope.Invalid: // there is nothing to undo
			continue
		case m.Overridden:
			shown.By = m.ResultAt
		case m.Result == "":
			shown.By = m.OpenedBy
		default:
			continue
		}
		b.show(shown.By)
	}
}

// chain shows the steps that lead to a member.
func (b *assembly) chain(exec uint32) {
	for todo := []uint32{exec}; len(todo) > 0; {
		exec, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if _, there := b.steps[exec]; there {
			continue
		}
		why, ok := b.Why(exec)
		if !ok {
			continue // no snapshot that Snapshot made has such a plan
		}
		x := b.graph.Node(exec)
		b.show(x.First)
		switch why.Rule {
		case scope.Seed:
			b.steps[exec] = bundle.ChainStep{Exec: x.First, Rule: bundle.RuleSeed, From: why.Signal.Index}
			b.seed(exec, why.Signal)
			continue
		case scope.Dependent:
			b.steps[exec] = bundle.ChainStep{Exec: x.First, Rule: bundle.RuleDependent, From: b.graph.Node(why.From).First}
		case scope.Rollback:
			b.steps[exec] = b.line(x, why)
			if why.By != 0 {
				todo = append(todo, why.By-1)
			}
		}
		todo = append(todo, why.From)
	}
}

// seed shows the ends of a signal's range. For a signal that is not believed any more, it also
// shows the decisions, one of which believed the signal.
func (b *assembly) seed(exec uint32, sig coord.SignalRange) {
	if sig.Subject != exec && sig.Since != 0 {
		b.show(b.graph.Node(sig.Subject).First, b.graph.Node(sig.Since-1).First)
	}
	if !b.earlier && slices.Contains(b.Dismissed, sig.Index) {
		b.earlier = true
		b.show(b.Decisions...)
	}
}

// line shows when the executions of a line began and ended, as SCO-2 asks.
func (b *assembly) line(x *scope.Node, why coord.Reason) bundle.ChainStep {
	from := b.graph.Node(why.From)
	step := bundle.ChainStep{Exec: x.First, Rule: bundle.RuleLine, From: from.First}
	b.show(from.Started)
	if why.By != 0 {
		by := b.graph.Node(why.By - 1)
		step.By = by.First
		b.show(by.Started)
		if from.Effect == scope.Reversible {
			b.show(from.Final) // cancelled, so that another execution takes the line back
		}
	}
	if why.Checkpoint == 0 {
		return step
	}
	c := b.graph.Checkpoint(why.Checkpoint - 1)
	step.Checkpoint = c.Index
	b.show(c.Index, x.Started)
	if x.Started < c.Index && c.Covered != 0 && x.Progress.Final() && x.Progress != scope.Cancelled {
		b.show(x.Final, c.Covered)
	}
	return step
}
