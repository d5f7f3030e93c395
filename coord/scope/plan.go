package scope

import (
	"cmp"
	"slices"
)

// Method is how a member is undone (SCO-4).
type Method uint8

// The methods, in the order of entry.Methods.
const (
	Invalid    Method = iota // nothing to undo; its output is invalid
	Cancel                   // planned: not to be started
	Restore                  // its line goes back to a checkpoint
	Compensate               // undone by a compensation
	Residual                 // cannot be undone
)

// Request is what a plan is asked for.
type Request struct {
	// Seeds are the executions in which something went wrong (SCO-3).
	Seeds []uint32
	// UsableUntil is the instant (Unix milliseconds) beyond which a checkpoint
	// must last to be usable.
	UsableUntil int64
	// Kept is the plan in force, whose members stay in the new one as they
	// stand (SCO-5); empty unless it is amended.
	Kept []Member
}

// Plan is what a rollback undoes.
type Plan struct {
	Members []Member // strictly descending by Exec, and so by index
	Review  []uint32 // soft dependents that are no members, ascending
	Agents  []uint32 // of the members, ascending
	Lines   []uint32 // that go back to a checkpoint, ascending

	// Of the members that cannot be undone, those declared irrevocable, and
	// those undeclared.
	Irrevocable, Undeclared int

	// through is what was undone before and leads to members, descending.
	through []Member
}

// Member is an execution that must be undone.
type Member struct {
	Exec       uint32
	Method     Method
	Checkpoint uint32 // 1 + the one that its line goes back to; 0: none
	Why        Why
	// Direct says that SCO-1 alone leads to it: it depends on a seed.
	Direct bool
	// Reopened says of a member that was kept that its line goes further back
	// than it did in the plan in force.
	Reopened bool
}

// Why is the step that leads to a member.
type Why struct {
	Rule Rule
	From uint32 // the execution that it comes from; of a seed, its own number
}

// Rule is what makes an execution a member.
type Rule uint8

// The rules. A chain of steps ends at one by Seed or InForce.
const (
	Seed      Rule = iota // SCO-3: a signal names it
	Dependent             // SCO-1: it depends hard on From
	Rollback              // SCO-2: From takes the line of both back
	InForce               // SCO-5: the plan in force has it
)

// Find returns the member that an execution is, if it is one.
func (p *Plan) Find(exec uint32) (m *Member, ok bool) { return find(p.Members, exec) }

func find(in []Member, exec uint32) (m *Member, ok bool) {
	i, ok := slices.BinarySearchFunc(in, exec, func(m Member, exec uint32) int { return cmp.Compare(exec, m.Exec) })
	if !ok {
		return nil, false
	}
	return &in[i], true
}

func descending(a, b Member) int { return cmp.Compare(b.Exec, a.Exec) }

// bitset is a set of numbers.
type bitset []uint64

func (b bitset) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b bitset) add(n uint32)      { b[n/64] |= 1 << (n % 64) }

// reached is an execution that the walk came to, and how.
type reached struct {
	exec uint32
	why  Why
}

// walk is the computation of a plan: a worklist that reaches every execution
// once and looks at each of its edges once. Lines only ever go further back.
type walk struct {
	g     *Graph
	until int64
	in    bitset
	order []reached // what was reached, in turn
	lines map[uint32]*rollback
	soft  []uint32 // dependents to be reviewed unless they are reached
}

// rollback is how far a line goes back, as far as is known.
type rollback struct {
	least   uint64 // below which index its checkpoint must lie: the least start of its members
	back    bool   // whether it goes back at all: something is to be restored
	entered bool   // whether its unfinished executions were reached
	whole   bool   // no checkpoint is usable: all of it was reached
	next    uint32 // 1 + the checkpoint that it goes back to
	final   uint32 // 1 + the newest final execution that was not looked at
}

// Plan computes the least set with the seeds that SCO-1 and SCO-2 close, in time
// proportional to its executions and their edges (and a bit for each execution
// of the graph), and the method of each member.
func (g *Graph) Plan(r Request) *Plan {
	w := &walk{g: g, until: r.UsableUntil, in: make(bitset, (g.Size()+63)/64), lines: map[uint32]*rollback{}}
	for _, m := range r.Kept {
		if !g.Node(m.Exec).Undone {
			w.reach(m.Exec, Why{InForce, m.Exec})
		}
	}
	for _, exec := range r.Seeds {
		if g.Node(exec).Line != NoLine {
			w.reach(exec, Why{Seed, exec})
		}
	}
	dependents, direct := 0, 0
	for settled := 0; ; settled++ {
		for ; dependents < len(w.order); dependents++ {
			w.dependents(w.order[dependents].exec)
		}
		if settled == 0 {
			direct = dependents
		}
		if settled == len(w.order) {
			break
		}
		w.settle(w.order[settled].exec)
	}
	return w.plan(direct, r.Kept)
}

func (w *walk) reach(exec uint32, why Why) {
	if !w.in.has(exec) {
		w.in.add(exec)
		w.order = append(w.order, reached{exec, why})
	}
}

// dependents is SCO-1, also through what was undone before.
func (w *walk) dependents(exec uint32) {
	x := w.g.nodes.At(exec)
	for next := x.children; next != 0; {
		e := w.g.edges.At(next - 1)
		switch {
		case e.parent&1 == 0:
			w.reach(e.child, Why{Dependent, exec})
		case !x.Undone:
			w.soft = append(w.soft, e.child)
		}
		next = e.next
	}
}

// settle is SCO-2 for one more member of a line.
func (w *walk) settle(exec uint32) {
	x := w.g.nodes.At(exec)
	if x.Undone || x.Started == 0 {
		return
	}
	line := w.g.lines.At(x.Line)
	r := w.lines[x.Line]
	if r == nil {
		r = &rollback{least: x.Started, next: line.checkpoint, final: line.final}
		w.lines[x.Line] = r
	}
	r.least = min(r.least, x.Started)
	r.back = r.back || x.restorable()
	if !r.back || r.whole {
		return
	}
	for r.next != 0 && !w.usable(r) {
		r.next = w.g.checkpoints.At(r.next - 1).before
	}
	if r.next == 0 {
		r.whole = true
		w.whole(line, exec)
		return
	}
	w.goBack(line, r, exec)
}

// usable reports whether the line may go back to r.next.
func (w *walk) usable(r *rollback) bool {
	c := w.g.checkpoints.At(r.next - 1)
	return !c.Void && c.Index < r.least && (c.ExpiresAt == 0 || c.ExpiresAt > w.until)
}

// goBack reaches what the line did since the checkpoint.
func (w *walk) goBack(line *Line, r *rollback, cause uint32) {
	if !r.entered {
		r.entered = true
		for next := line.open; next != 0; {
			if x := w.g.nodes.At(next - 1); x.Started != 0 && !x.Undone {
				w.reach(next-1, Why{Rollback, cause})
			}
			next = w.g.nodes.At(next - 1).older
		}
	}
	covered := w.g.checkpoints.At(r.next - 1).Covered
	for r.final != 0 {
		x := w.g.nodes.At(r.final - 1)
		if x.Final <= covered {
			return
		}
		if !x.Undone && x.Progress != Cancelled {
			w.reach(r.final-1, Why{Rollback, cause})
		}
		r.final = x.older
	}
}

// whole reaches everything of a line that has nothing to go back to.
func (w *walk) whole(line *Line, cause uint32) {
	for next := line.newest; next != 0; {
		x := w.g.nodes.At(next - 1)
		if !x.Undone {
			w.reach(next-1, Why{Rollback, cause})
		}
		next = x.before
	}
}

// effectless reports whether an execution ended without any effect.
func (x *Node) effectless() bool { return x.Progress == Cancelled || x.Progress == Failed && x.Clean }

// restorable reports whether an execution makes its line go back.
func (x *Node) restorable() bool {
	return x.Effect == Reversible && x.Progress != Planned && !x.effectless()
}

// method is SCO-4.
func (w *walk) method(x *Node) (m Method, checkpoint uint32) {
	switch {
	case x.Progress == Planned:
		return Cancel, 0
	case x.effectless() || x.Effect == None:
		return Invalid, 0
	case x.Effect == Compensable:
		return Compensate, 0
	case x.Effect != Reversible:
		return Residual, 0
	}
	if r := w.lines[x.Line]; r.next != 0 {
		return Restore, r.next
	}
	return Residual, 0
}

// plan makes the plan of what was reached, the first so many of it by SCO-1
// alone.
func (w *walk) plan(direct int, kept []Member) *Plan {
	p := &Plan{Members: make([]Member, 0, len(w.order)+len(kept))}
	for _, i := range w.descending() {
		to := w.order[i]
		x := w.g.nodes.At(to.exec)
		m := Member{Exec: to.exec, Why: to.why, Direct: int(i) < direct}
		if x.Undone {
			p.through = append(p.through, m)
			continue
		}
		m.Method, m.Checkpoint = w.method(x)
		p.Members = append(p.Members, m)
	}
	w.keep(p, kept)
	w.count(p)
	return p
}

// descending returns the places in order of what was reached, the newest
// execution first. Sorting numbers is twice as fast as sorting what they mean.
func (w *walk) descending() []uint32 {
	keys := make([]uint64, len(w.order))
	for i, to := range w.order {
		keys[i] = uint64(^to.exec)<<32 | uint64(i)
	}
	slices.Sort(keys)
	places := make([]uint32, len(keys))
	for i, key := range keys {
		places[i] = uint32(key)
	}
	return places
}

// keep brings the members of the plan in force in as they stand. Only a line
// that goes further back than before reopens its restores.
func (w *walk) keep(p *Plan, kept []Member) {
	known := p.Members
	for _, old := range kept {
		m, found := find(known, old.Exec)
		if !found { // it was undone
			p.Members = append(p.Members, Member{Exec: old.Exec, Why: Why{InForce, old.Exec}})
			m = &p.Members[len(p.Members)-1]
		}
		m.Method, m.Checkpoint, m.Direct = old.Method, old.Checkpoint, old.Direct
		if old.Method == Restore {
			w.reopen(m, w.g.nodes.At(old.Exec))
		}
	}
	if len(p.Members) > len(known) {
		slices.SortFunc(p.Members, descending)
	}
}

// reopen sets a kept restore back if its line goes further back. What was
// restored stays so where there is nothing older to restore.
func (w *walk) reopen(m *Member, x *Node) {
	r := w.lines[x.Line]
	if r == nil || !r.back || r.next >= m.Checkpoint || r.next == 0 && x.Undone {
		return
	}
	m.Checkpoint, m.Reopened = r.next, true
	if r.next == 0 {
		m.Method = Residual
	}
}

// count fills in what follows from the members.
func (w *walk) count(p *Plan) {
	agents, lines := make(map[uint32]struct{}), make(map[uint32]struct{})
	for i := range p.Members {
		m := &p.Members[i]
		x := w.g.nodes.At(m.Exec)
		w.in.add(m.Exec)
		if _, known := agents[x.Agent]; !known {
			agents[x.Agent] = struct{}{}
			p.Agents = append(p.Agents, x.Agent)
		}
		if _, known := lines[x.Line]; m.Method == Restore && !known {
			lines[x.Line] = struct{}{}
			p.Lines = append(p.Lines, x.Line)
		}
		switch {
		case m.Method == Residual && x.Effect == Irrevocable:
			p.Irrevocable++
		case m.Method == Residual && x.Effect == Undeclared:
			p.Undeclared++
		}
	}
	slices.Sort(p.Agents)
	slices.Sort(p.Lines)
	slices.Sort(w.soft)
	for _, exec := range slices.Compact(w.soft) {
		if !w.in.has(exec) && !w.g.nodes.At(exec).Undone {
			p.Review = append(p.Review, exec)
		}
	}
}

// Through returns what was undone before and leads to members, descending.
func (p *Plan) Through() (execs []uint32) {
	for i := range p.through {
		execs = append(execs, p.through[i].Exec)
	}
	return execs
}

// Chain returns the executions that lead from a seed to a member (AGT-3), the
// seed first, each with the step that leads to it; nil if exec is no member.
// What was undone before may stand between.
func (p *Plan) Chain(exec uint32) []Member {
	var chain []Member
	m, ok := p.Find(exec)
	for ok {
		chain = append(chain, *m)
		if m.Why.Rule == Seed || m.Why.Rule == InForce {
			break
		}
		from := m.Why.From
		if m, ok = p.Find(from); !ok {
			m, ok = find(p.through, from)
		}
	}
	slices.Reverse(chain)
	return chain
}
