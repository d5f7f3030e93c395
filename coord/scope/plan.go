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

// Request is the input of a plan.
type Request struct {
	// Seeds are the executions in which something went wrong (SCO-3).
	Seeds []uint32
	// UsableUntil is the instant (Unix milliseconds) beyond which a checkpoint
	// must last to be usable.
	UsableUntil int64
	// Kept are the members of the plan in force if the plan is amended, else empty. They stay in
	// the new plan unchanged, with the reasons why they are members (SCO-5).
	Kept []Member
	// AlreadyUndone are executions that were undone before and lead to members of Kept,
	// descending.
	AlreadyUndone []Member
}

// Plan is the rollback set, with the method and the order of each member.
type Plan struct {
	Members []Member // strictly descending by Exec, and so by index
	Review  []uint32 // soft dependents that are no members, ascending
	Agents  []uint32 // of the members, ascending
	Lines   []uint32 // lines that go back to a checkpoint, ascending

	// Irrevocable and Undeclared count the members that cannot be undone, by their
	// declared effect.
	Irrevocable, Undeclared int

	// AlreadyUndone are executions that were undone before and lead to members,
	// descending. They have a Why and no method.
	AlreadyUndone []Member
}

// Member is an execution that must be undone.
type Member struct {
	Exec       uint32
	Method     Method
	Checkpoint uint32 // 1 + the one that its line goes back to; 0: none
	Why        Why
	// Direct says that SCO-1 alone leads to the member: it depends on a seed.
	Direct bool
	// Reopened says of a member that was kept that its line goes further back
	// than it did in the plan in force.
	Reopened bool
}

// Why is the step that leads to a member.
type Why struct {
	Rule Rule
	From uint32 // the execution that it comes from; of a seed, its own number
	// Of Rollback: By is 1 + the reversible execution that takes the line back,
	// 0 if From does; Checkpoint is 1 + the one that it goes back to, 0 if there
	// is none.
	By, Checkpoint uint32
}

// Rule is the reason why an execution is a member.
type Rule uint8

// The rules. A chain of steps begins with one by Seed.
const (
	Seed      Rule = iota // SCO-3: a signal names it
	Dependent             // SCO-1: it depends hard on From
	Rollback              // SCO-2: the line of both goes back to before From
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
	order []reached // the reached executions, in the order of reaching
	lines map[uint32]*rollback
	soft  []uint32 // dependents to be reviewed unless they are reached
}

// rollback is how far a line goes back, as far as is known.
type rollback struct {
	least   uint64 // below which index its checkpoint must lie: the least start of its members
	from    uint32 // the member that starts there
	by      uint32 // 1 + the member by which it goes back: the first to be restored; 0: it does not
	entered bool   // whether its unfinished executions were reached
	whole   bool   // no checkpoint is usable: the whole line was reached
	next    uint32 // 1 + the checkpoint that it goes back to
	final   uint32 // 1 + the newest final execution that was not looked at
}

// Plan computes the least set with the seeds that SCO-1 and SCO-2 close, in time
// proportional to its executions and their edges (and a bit for each execution
// of the graph), and the method of each member.
func (g *Graph) Plan(r Request) *Plan {
	w := &walk{g: g, until: r.UsableUntil, in: make(bitset, (g.Size()+63)/64), lines: map[uint32]*rollback{}}
	w.kept(r.Kept, true)
	for _, exec := range r.Seeds {
		if g.Node(exec).Line != NoLine {
			w.reach(exec, Why{Rule: Seed, From: exec})
		}
	}
	direct := w.close(0)
	w.kept(r.Kept, false)
	for settled, closed := 0, direct; ; settled++ {
		if closed = w.close(closed); settled == closed {
			break
		}
		w.settle(w.order[settled].exec)
	}
	return w.plan(direct, r)
}

// kept reaches the members that stay of the plan in force: the direct members, or the others.
func (w *walk) kept(members []Member, direct bool) {
	for i := range members {
		if m := &members[i]; m.Direct == direct && !w.g.Node(m.Exec).Undone {
			w.reach(m.Exec, m.Why)
		}
	}
}

// followedAtOnce is the number of executions whose edges close follows in turns.
const followedAtOnce = 64

// close is SCO-1 for what was reached from a place in order on. It returns how
// many that leaves. The edges of an execution lie anywhere in memory, each behind
// the one before: those of many are followed in turns, so that the processor
// waits for many at once.
func (w *walk) close(from int) int {
	var edges [followedAtOnce]uint32
	for from < len(w.order) {
		side := w.order[from:min(from+followedAtOnce, len(w.order))]
		for i, to := range side {
			edges[i] = w.g.nodes.At(to.exec).children
		}
		for left := len(side); left > 0; {
			left = 0
			for i, to := range side {
				if edges[i] != 0 {
					edges[i] = w.dependent(to.exec, edges[i])
					left++
				}
			}
		}
		from += len(side)
	}
	return from
}

func (w *walk) reach(exec uint32, why Why) {
	if !w.in.has(exec) {
		w.in.add(exec)
		w.order = append(w.order, reached{exec, why})
	}
}

// dependent is SCO-1 for one edge from an execution, also if that was undone
// before. It returns 1 + the execution's next edge.
func (w *walk) dependent(exec, edge uint32) (next uint32) {
	e := w.g.edges.At(edge - 1)
	switch {
	case e.parent&1 == 0:
		w.reach(e.child, Why{Rule: Dependent, From: exec})
	case !w.g.nodes.At(exec).Undone:
		w.soft = append(w.soft, e.child)
	}
	return e.next
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
		r = &rollback{least: x.Started, from: exec, next: line.checkpoint, final: line.final}
		w.lines[x.Line] = r
	}
	if x.Started < r.least {
		r.least, r.from = x.Started, exec
	}
	if r.by == 0 && x.restorable() {
		r.by = exec + 1
	}
	if r.by == 0 || r.whole {
		return
	}
	for r.next != 0 && !w.usable(r) {
		r.next = w.g.checkpoints.At(r.next - 1).before
	}
	if r.next == 0 {
		r.whole = true
		w.whole(line, r)
		return
	}
	w.goBack(line, r)
}

// usable reports whether the line may go back to r.next.
func (w *walk) usable(r *rollback) bool {
	c := w.g.checkpoints.At(r.next - 1)
	return !c.Void && c.Index < r.least && (c.ExpiresAt == 0 || c.ExpiresAt > w.until)
}

// goBack reaches the executions of the line since the checkpoint.
func (w *walk) goBack(line *Line, r *rollback) {
	if !r.entered {
		r.entered = true
		for next := line.open; next != 0; {
			if x := w.g.nodes.At(next - 1); x.Started != 0 && !x.Undone {
				w.reach(next-1, Why{Rule: Rollback, From: r.from})
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
			w.reach(r.final-1, Why{Rule: Rollback, From: r.from})
		}
		r.final = x.older
	}
}

// whole reaches everything of a line that has nothing to go back to.
func (w *walk) whole(line *Line, r *rollback) {
	for next := line.newest; next != 0; {
		x := w.g.nodes.At(next - 1)
		if !x.Undone {
			w.reach(next-1, Why{Rule: Rollback, From: r.from})
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

// plan makes the plan of the reached executions. SCO-1 alone reached the first ones, in the given
// number.
func (w *walk) plan(direct int, r Request) *Plan {
	p := &Plan{Members: make([]Member, 0, len(w.order)+len(r.Kept))}
	for _, i := range w.descending() {
		to := w.order[i]
		x := w.g.nodes.At(to.exec)
		m := Member{Exec: to.exec, Why: w.why(x, to.why), Direct: int(i) < direct}
		if old, undone := find(r.AlreadyUndone, to.exec); undone {
			m.Why = old.Why
		}
		if x.Undone {
			p.AlreadyUndone = append(p.AlreadyUndone, m)
			continue
		}
		m.Method, m.Checkpoint = w.method(x)
		p.Members = append(p.Members, m)
	}
	w.keep(p, r)
	w.count(p)
	return p
}

// why completes the step that led to an execution by what became of its line.
func (w *walk) why(x *Node, step Why) Why {
	r := w.lines[x.Line]
	if step.Rule != Rollback || r == nil {
		return step
	}
	step.By, step.Checkpoint = r.by, r.next
	if from := w.g.nodes.At(step.From); from.Effect == Reversible && from.Progress != Cancelled {
		step.By = 0
	}
	return step
}

// descending returns the places in the order of reaching, the newest execution first. Sorting
// numbers is twice as fast as sorting executions.
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

// keep adds the members of the plan in force unchanged, and the steps that lead to them. Only a
// line that goes further back than before reopens its restores.
func (w *walk) keep(p *Plan, r Request) {
	known := p.Members
	for _, old := range r.Kept {
		m, found := find(known, old.Exec)
		if !found { // it was undone
			p.Members = append(p.Members, Member{Exec: old.Exec})
			m = &p.Members[len(p.Members)-1]
		}
		m.Method, m.Checkpoint, m.Direct, m.Why = old.Method, old.Checkpoint, old.Direct, w.whyFurther(old)
		if old.Method == Restore {
			w.reopen(m, w.g.nodes.At(old.Exec))
		}
	}
	if len(p.Members) > len(known) {
		slices.SortFunc(p.Members, descending)
	}
	undone := p.AlreadyUndone
	for _, old := range r.AlreadyUndone {
		if _, again := find(undone, old.Exec); !again {
			p.AlreadyUndone = append(p.AlreadyUndone, old)
		}
	}
	if len(r.Kept) > 0 {
		p.AlreadyUndone = slices.DeleteFunc(p.AlreadyUndone, func(m Member) bool { _, member := p.Find(m.Exec); return member })
		slices.SortFunc(p.AlreadyUndone, descending)
	}
}

// whyFurther returns why a member was in the plan in force. If its line goes back
// further now, the checkpoint is the one that the line goes back to now.
func (w *walk) whyFurther(old Member) Why {
	x := w.g.nodes.At(old.Exec)
	if r := w.lines[x.Line]; old.Why.Rule == Rollback && r != nil && r.by != 0 && (r.next != 0 || !x.Undone) {
		old.Why.Checkpoint = min(old.Why.Checkpoint, r.next)
	}
	return old.Why
}

// reopen resets a kept restore if its line goes further back. A restored member stays restored if
// there is nothing older to restore.
func (w *walk) reopen(m *Member, x *Node) {
	r := w.lines[x.Line]
	if r == nil || r.by == 0 || r.next >= m.Checkpoint || r.next == 0 && x.Undone {
		return
	}
	m.Checkpoint, m.Reopened = r.next, true
	if r.next == 0 {
		m.Method = Residual
	}
}

// count adds the values that follow from the members.
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

// Chain returns the executions that lead from a seed to a member (AGT-3), the seed first, each with
// the step that leads to it; nil if exec is no member. The chain may contain executions that were
// undone before.
func (p *Plan) Chain(exec uint32) []Member {
	var chain []Member
	m, ok := p.Find(exec)
	for ok {
		chain = append(chain, *m)
		if m.Why.Rule == Seed {
			break
		}
		from := m.Why.From
		if m, ok = p.Find(from); !ok {
			m, ok = find(p.AlreadyUndone, from)
		}
	}
	slices.Reverse(chain)
	return chain
}
