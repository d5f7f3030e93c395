package coord

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// BundleRequest says which authorization bundle is wanted.
type BundleRequest struct {
	Incident uint64
	Agent    entry.Principal
	// After is how many of the agent's members were given before, Limit how many
	// more are wanted, at least one. Those of one line come together if they can.
	After, Limit int
}

// BundleParts is what an authorization bundle (protocol.md, section 7) shows, as
// far as it follows from the state: which entries, members and steps. Whoever
// has the log adds the leaves, what [State.Links] names, the head and the proofs.
type BundleParts struct {
	Decision uint64   // index; 0: there is none that the agent could obey, and no members
	Entries  []uint64 // ascending
	Members  []verify.PlanMember
	Steps    []verify.ChainStep
	Next     int // After of what follows; 0: that is all
}

// Bundle returns what shows an agent the decision in force of an incident, and
// why it tells the agent to undo something. If none does, because nothing was
// authorized, because it was overridden, because its key is compromised, or
// because no member is the agent's, the parts have no decision, and at most the
// override. The error is a [*entry.Refusal].
func (s *State) Bundle(r BundleRequest) (*BundleParts, error) {
	_, inc, ok := s.findIncident(r.Incident)
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", r.Incident)
	}
	if !s.enrolled(r.Agent) {
		return nil, entry.Refuse(entry.NotFound, "agent", "%.140q was never enrolled", r.Agent)
	}
	b := &bundling{State: s, inc: inc, force: inc.force, entries: map[uint64]struct{}{},
		members: map[int]*verify.PlanMember{}, steps: map[uint32]verify.ChainStep{}, ahead: map[uint32]ahead{}}
	agent, known := s.principals.Find([]byte(r.Agent))
	b.agent = agent
	f := inc.force
	if f != nil && f.override != 0 {
		b.show(f.override)
	}
	if f == nil || !known || len(f.byAgent[agent]) == 0 {
		return b.parts(0), nil
	}
	places, next := b.page(r.After, r.Limit)
	if f.override != 0 || s.void(&f.decided) {
		b.results(places)
		return b.parts(next), nil
	}
	if len(places) == 0 {
		return nil, entry.Refuse(entry.NotFound, "after", "%s has %d members", r.Agent, len(b.force.byAgent[agent]))
	}
	b.decision()
	for _, place := range places {
		b.member(place)
	}
	b.stopped(places)
	p := b.parts(next)
	p.Decision = f.index
	return p, nil
}

func (s *State) enrolled(p entry.Principal) bool {
	_, ok := s.chain.Agent(p)
	return ok
}

// bundling is the making of a bundle.
type bundling struct {
	*State
	inc   *incident
	force *force
	agent uint32

	entries map[uint64]struct{}
	members map[int]*verify.PlanMember // by place
	steps   map[uint32]verify.ChainStep
	ahead   map[uint32]ahead
	earlier bool // whether what the decision amends is shown
}

func (b *bundling) show(indexes ...uint64) {
	for _, index := range indexes {
		b.entries[index] = struct{}{}
	}
}

func (b *bundling) parts(next int) *BundleParts {
	p := &BundleParts{Entries: slices.AppendSeq([]uint64{}, maps.Keys(b.entries)), Next: next}
	slices.Sort(p.Entries)
	for _, place := range slices.Sorted(maps.Keys(b.members)) {
		p.Members = append(p.Members, *b.members[place])
	}
	for _, exec := range slices.Sorted(maps.Keys(b.steps)) { // numbers are in the order of first entries
		p.Steps = append(p.Steps, b.steps[exec])
	}
	return p
}

// page returns the places of some of the agent's members: line by line, so that
// what takes a line back and what stands on it are seen together.
func (b *bundling) page(after, limit int) (places []int, next int) {
	line := func(place int) uint32 { return b.graph.Node(b.force.members[place].exec).Line }
	own, first := slices.Clone(b.force.byAgent[b.agent]), map[uint32]int{}
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

// decision shows the decision, its basis and its approvals.
func (b *bundling) decision() {
	f := b.force
	b.show(f.index)
	if len(f.approvals) > 0 {
		b.show(f.proposal)
		b.show(f.approvals...)
	}
	for _, n := range b.inc.signals {
		if index := b.signals[n].index; index < f.pin {
			b.show(index)
		}
	}
}

// results shows, where there is nothing to obey any more, what the agent takes the
// place of when it says what became of members.
func (b *bundling) results(places []int) {
	for _, place := range places {
		if m := &b.force.members[place]; m.reported() {
			b.show(m.resultAt)
		}
	}
}

// member shows a member of the plan; of the agent's own also what it rests on.
func (b *bundling) member(place int) {
	if b.members[place] != nil {
		return
	}
	m := &b.force.members[place]
	shown := &verify.PlanMember{Place: uint64(place), Member: b.planMember(m.exec, m.method, m.checkpoint)}
	b.members[place] = shown
	if m.reported() {
		b.show(m.resultAt)
	}
	x := b.graph.Node(m.exec)
	if x.Agent != b.agent {
		return
	}
	b.show(x.First)
	switch m.method {
	case scope.Restore:
		b.show(x.Started, b.graph.Checkpoint(m.checkpoint-1).Index)
	case scope.Invalid:
		if x.Effect != scope.None {
			b.show(x.Started, x.Final)
		}
	case scope.Compensate:
		if m.result == "" {
			shown.After = b.before(m.exec)
		}
	}
	b.chain(m.exec)
}

// reported reports whether an outcome entry gave a member its result, not the
// rules: what there was nothing to undo of, what an override withheld.
func (m *member) reported() bool {
	return m.result != "" && (m.own || m.result == entry.ResultUnknown)
}

// overridden reports whether an override withheld a member, and its agent has
// not spoken since.
func (m *member) overridden() bool { return m.result == entry.Withheld && !m.own }

// stopped shows, where an override before the decision in force withheld some of
// the agent's members, which they are, and what opened the others since.
func (b *bundling) stopped(places []int) {
	if !slices.ContainsFunc(places, func(place int) bool { return b.force.members[place].overridden() }) {
		return
	}
	for _, place := range places {
		m, shown := &b.force.members[place], b.members[place]
		switch {
		case m.method == scope.Invalid: // there is nothing to undo
			continue
		case m.overridden():
			shown.By = m.resultAt
		case m.result == "":
			shown.By = m.opened
		default:
			continue
		}
		b.show(shown.By)
	}
}

// chain shows the steps that lead to a member.
func (b *bundling) chain(exec uint32) {
	for todo := []uint32{exec}; len(todo) > 0; {
		exec, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if _, there := b.steps[exec]; there {
			continue
		}
		why, ok := b.force.why(exec)
		if !ok {
			continue // no snapshot that Snapshot made has such a plan
		}
		x := b.graph.Node(exec)
		b.show(x.First)
		switch why.Rule {
		case scope.Seed:
			b.steps[exec] = verify.ChainStep{Exec: x.First, Rule: verify.RuleSeed, From: b.signals[why.signal].index}
			b.seed(exec, why.signal)
			continue
		case scope.Dependent:
			b.steps[exec] = verify.ChainStep{Exec: x.First, Rule: verify.RuleDependent, From: b.graph.Node(why.From).First}
		case scope.Rollback:
			b.steps[exec] = b.line(x, why)
			if why.By != 0 {
				todo = append(todo, why.By-1)
			}
		}
		todo = append(todo, why.From)
	}
}

// why returns why an execution is in the plan, or leads to members.
func (f *force) why(exec uint32) (reason, bool) {
	if m, ok := f.find(exec); ok {
		return m.why, true
	}
	i, ok := f.findPassed(exec)
	if !ok {
		return reason{}, false
	}
	return f.passed[i].why, true
}

// seed shows what a signal's range reaches over, and the decision that believed
// a signal that is not believed any more.
func (b *bundling) seed(exec, signal uint32) {
	sig := &b.signals[signal]
	if sig.subject != exec && sig.since != 0 {
		b.show(b.graph.Node(sig.subject).First, b.graph.Node(sig.since-1).First)
	}
	if !b.earlier && slices.Contains(b.force.unfounded, sig.index) {
		b.earlier = true
		b.show(b.force.decisions...)
	}
}

// line shows when what is on a line began and ended, as SCO-2 asks.
func (b *bundling) line(x *scope.Node, why reason) verify.ChainStep {
	from := b.graph.Node(why.From)
	step := verify.ChainStep{Exec: x.First, Rule: verify.RuleLine, From: from.First}
	b.show(from.Started)
	if why.By != 0 {
		by := b.graph.Node(why.By - 1)
		step.By = by.First
		b.show(by.Started)
		if from.Effect == scope.Reversible {
			b.show(from.Final) // cancelled, so that another takes the line back
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
