// Package scope computes the rollback set (SCO-1 to SCO-5).
//
// An undo follows effects forward, and never causes backward. A [Graph] has the executions of a
// log, their dependencies, and the checkpoints of agents. From the failed executions [Graph.Plan]
// computes the least set that must be undone with them, the method of each member, and the reason
// of each member.
//
// The package is pure and knows numbers only. The caller that fills the graph knows the names. No
// part of an execution is a pointer.
package scope

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/coord/compact"
)

// Effect is the declared effect of an execution on the world.
type Effect uint8

// The effects, in the order of entry.Effect.
const (
	None Effect = iota
	Reversible
	Compensable
	Irrevocable
	Undeclared
)

// Progress is how far an execution has come.
type Progress uint8

// The steps of progress; the last three are final.
const (
	Planned Progress = iota
	Started
	Confirmed
	Failed
	Cancelled
)

// Final reports whether no further progress is possible.
func (p Progress) Final() bool { return p >= Confirmed }

// After reports whether p is an advance over q (EXE-1): planned < started <
// final.
func (p Progress) After(q Progress) bool { return !q.Final() && p > q }

// Graph is the executions of a log by number, from 0, in the order of their
// first entries, with the edges between them, and the lines and checkpoints of
// agents. The zero value is an empty graph. Plan may be called concurrently;
// everything else may not.
type Graph struct {
	nodes       compact.List[Node]
	edges       compact.List[edge] // those to the parents of each execution in turn
	lines       compact.List[Line]
	checkpoints compact.List[Checkpoint]
	numbers     map[lineKey]uint32 // of lines
}

// Node has the values of an execution that the rules need.
type Node struct {
	First   uint64 // index of its first entry: its place in every rule (EXE-1)
	Started uint64 // index of its first entry past planned; 0: none yet
	Final   uint64 // index of its final entry; 0: none yet
	At      int64  // registered_at of the first entry

	Agent    uint32
	Workflow uint32
	Line     uint32 // NoLine for a compensation

	edges    uint32 // its parents are so many edges from this one on
	children uint32 // 1 + the newest edge from a child; 0: none
	before   uint32 // 1 + the execution before it on its line
	// newer and older chain the unfinished executions of a line; finals are
	// chained by older alone, from the newest on. 1 + number, 0: none.
	newer, older uint32

	parents  uint16
	Effect   Effect
	Progress Progress
	// Clean says of a failed execution that its executor's newest signal
	// reports no effects.
	Clean bool
	// Undone says that it was restored, compensated or not executed by an
	// incident.
	Undone bool
}

// NoLine is the line of a compensation, which belongs to none.
const NoLine = 1<<32 - 1

// edge leads from a parent to a child.
type edge struct {
	parent uint32 // doubled; odd: soft
	child  uint32
	next   uint32 // 1 + the edge from the child before, of the same parent
}

// Line is an agent's executions in one workflow, or in all of them where its
// span is agent (SCO-2); compensations are none of them.
type Line struct {
	Agent    uint32
	Workflow uint32 // AllWorkflows where the span is agent

	newest     uint32 // 1 + its newest execution
	open       uint32 // 1 + its newest unfinished execution
	final      uint32 // 1 + the execution that became final last
	checkpoint uint32 // 1 + its newest checkpoint
}

// AllWorkflows takes the place of the workflow on a line of an agent whose span is agent.
const AllWorkflows = 1<<32 - 1

type lineKey struct{ agent, workflow uint32 }

// Checkpoint is a restore point of a line.
type Checkpoint struct {
	Index     uint64
	Covered   uint64 // index of the final entry of the execution that it comes after; 0: of none
	ExpiresAt int64  // Unix milliseconds; 0: never
	Line      uint32
	before    uint32 // 1 + the one before on the line
	Void      bool   // for ever (SCO-2)
}

// Parent is a dependency.
type Parent struct {
	Exec uint32
	Soft bool
}

// Size returns how many executions there are.
func (g *Graph) Size() uint32 { return g.nodes.Size() }

// Node returns an execution, until the graph changes. The caller must not change the execution.
func (g *Graph) Node(exec uint32) *Node { return g.nodes.At(exec) }

// Line returns a line, until the graph changes. The caller must not change the line.
func (g *Graph) Line(number uint32) *Line { return g.lines.At(number) }

// LineOf returns the number of an agent's line; all where its span is agent.
func (g *Graph) LineOf(agent, workflow uint32, all bool) (number uint32, ok bool) {
	if all {
		workflow = AllWorkflows
	}
	number, ok = g.numbers[lineKey{agent, workflow}]
	return number, ok
}

// AddLine returns the number of an agent's line, which gets one if it has none.
func (g *Graph) AddLine(agent, workflow uint32, all bool) uint32 {
	if number, ok := g.LineOf(agent, workflow, all); ok {
		return number
	}
	if all {
		workflow = AllWorkflows
	}
	if g.numbers == nil {
		g.numbers = map[lineKey]uint32{}
	}
	number := g.lines.Add(Line{Agent: agent, Workflow: workflow})
	g.numbers[lineKey{agent, workflow}] = number
	return number
}

// Add appends an execution, of which First, Started, Final, At, Agent, Workflow,
// Line, Effect and Progress are set, and returns its number. Its parents must be
// there.
func (g *Graph) Add(one Node, parents []Parent) uint32 {
	one.edges, one.parents = g.edges.Size(), uint16(len(parents))
	number := g.nodes.Add(one)
	for _, p := range parents {
		parent := g.nodes.Change(p.Exec)
		from := p.Exec << 1
		if p.Soft {
			from |= 1
		}
		parent.children = 1 + g.edges.Add(edge{parent: from, child: number, next: parent.children})
	}
	if one.Line == NoLine {
		return number
	}
	x, line := g.nodes.Change(number), g.lines.Change(one.Line)
	x.before, line.newest = line.newest, number+1
	if x.Progress.Final() {
		x.older, line.final = line.final, number+1
		return number
	}
	if x.older = line.open; x.older != 0 {
		g.nodes.Change(x.older - 1).newer = number + 1
	}
	line.open = number + 1
	return number
}

// Advance records the entry at index, in which an execution has come further.
func (g *Graph) Advance(exec uint32, to Progress, index uint64) {
	x := g.nodes.Change(exec)
	if x.Started == 0 {
		x.Started = index
	}
	if x.Progress = to; !to.Final() {
		return
	}
	x.Final = index
	if x.Line == NoLine {
		return
	}
	line := g.lines.Change(x.Line)
	if x.newer == 0 {
		line.open = x.older
	} else {
		g.nodes.Change(x.newer - 1).older = x.older
	}
	if x.older != 0 {
		g.nodes.Change(x.older - 1).newer = x.newer
	}
	x.newer, x.older = 0, line.final
	line.final = exec + 1
}

// SortFinals chains final executions in the order in which they became final,
// after a graph was made of executions as they are, not entry by entry.
func (g *Graph) SortFinals() {
	var finals []uint32
	for exec := range g.nodes.Size() {
		if x := g.nodes.At(exec); x.Line != NoLine && x.Progress.Final() {
			finals = append(finals, exec)
			g.lines.Change(x.Line).final = 0
		}
	}
	slices.SortFunc(finals, func(a, b uint32) int { return cmp.Compare(g.nodes.At(a).Final, g.nodes.At(b).Final) })
	for _, exec := range finals {
		x := g.nodes.Change(exec)
		line := g.lines.Change(x.Line)
		x.older, line.final = line.final, exec+1
	}
}

// SetClean records whether the executor's newest signal says that an execution had no effects.
func (g *Graph) SetClean(exec uint32, clean bool) { g.nodes.Change(exec).Clean = clean }

// Parents yields the parents of an execution in their order.
func (g *Graph) Parents(exec uint32) func(yield func(Parent) bool) {
	x := g.nodes.At(exec)
	return func(yield func(Parent) bool) {
		for i := range uint32(x.parents) {
			from := g.edges.At(x.edges + i).parent
			if !yield(Parent{from >> 1, from&1 == 1}) {
				return
			}
		}
	}
}

// ParentsOf returns how many parents an execution has.
func (g *Graph) ParentsOf(exec uint32) int { return int(g.nodes.At(exec).parents) }

// Children yields the executions that name an execution as parent, the newest first.
func (g *Graph) Children(exec uint32) func(yield func(child uint32, soft bool) bool) {
	return func(yield func(uint32, bool) bool) {
		for next := g.nodes.At(exec).children; next != 0; {
			e := g.edges.At(next - 1)
			if !yield(e.child, e.parent&1 == 1) {
				return
			}
			next = e.next
		}
	}
}

// AddCheckpoint appends a checkpoint, of which Index, Covered, ExpiresAt and
// Line are set, and returns its number.
func (g *Graph) AddCheckpoint(c Checkpoint) uint32 {
	line := g.lines.Change(c.Line)
	c.before = line.checkpoint
	number := g.checkpoints.Add(c)
	line.checkpoint = number + 1
	return number
}

// Checkpoint returns a checkpoint, until the graph changes. The caller must not change the
// checkpoint.
func (g *Graph) Checkpoint(number uint32) *Checkpoint { return g.checkpoints.At(number) }

// Checkpoints returns how many checkpoints there are.
func (g *Graph) Checkpoints() uint32 { return g.checkpoints.Size() }

// Covered returns the index up to which the newest valid checkpoint of a line covers executions
// (CHK-1); 0: nothing is covered.
func (g *Graph) Covered(line uint32) uint64 {
	for next := g.lines.At(line).checkpoint; next != 0; {
		c := g.checkpoints.At(next - 1)
		if !c.Void {
			return c.Covered
		}
		next = c.before
	}
	return 0
}

// Undo records the outcome at index: the execution was restored, compensated or not executed. If
// the execution had begun, the checkpoints of its line since its first entry are void, because they
// hold undone work.
func (g *Graph) Undo(exec uint32, index uint64) {
	x := g.nodes.Change(exec)
	x.Undone = true
	if x.Line != NoLine && x.Started != 0 {
		g.Void(x.Line, x.First, index)
	}
}

// Redo takes Undo back if the undo of the execution does not hold. Void checkpoints stay void.
func (g *Graph) Redo(exec uint32) { g.nodes.Change(exec).Undone = false }

// Void makes the checkpoints of a line between two indexes void for ever: those
// after a restore point, or after something that was undone.
func (g *Graph) Void(line uint32, after, before uint64) {
	for next := g.lines.At(line).checkpoint; next != 0; {
		c := g.checkpoints.At(next - 1)
		if c.Index <= after {
			return
		}
		if c.Index < before && !c.Void {
			g.checkpoints.Change(next - 1).Void = true
		}
		next = c.before
	}
}

// Range yields the executions of the agent and the workflow of the execution
// last, from it back to first, which is of them.
func (g *Graph) Range(first, last uint32) func(yield func(uint32) bool) {
	workflow := g.nodes.At(last).Workflow
	return func(yield func(uint32) bool) {
		for next := last + 1; next != 0 && next-1 >= first; {
			x := g.nodes.At(next - 1)
			if x.Workflow == workflow && !yield(next-1) {
				return
			}
			next = x.before
		}
	}
}

// Clone returns a graph with the same content, to be changed on its own. It is a
// change of g as far as goroutines are concerned.
func (g *Graph) Clone() Graph {
	return Graph{nodes: g.nodes.Clone(), edges: g.edges.Clone(), lines: g.lines.Clone(),
		checkpoints: g.checkpoints.Clone(), numbers: maps.Clone(g.numbers)}
}
