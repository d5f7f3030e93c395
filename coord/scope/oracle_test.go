package scope

import (
	"slices"
)

// The oracle reads SCO-1 to SCO-4 literally, over entries as a log has them, and
// repeats every rule until nothing changes. It shares nothing with the graph
// but the numbers of methods, effects and steps.

// history is a small log: executions and checkpoints with the indexes of their
// entries.
type history struct {
	size        uint64
	spans       map[int]bool // of agents: whether the span is agent
	executions  []execution
	checkpoints []checkpoint
}

type execution struct {
	agent, workflow int
	effect          Effect
	progress        Progress
	first           uint64
	started, final  uint64 // 0: not yet
	parents         []Parent
	clean, undone   bool
	compensation    bool
}

type checkpoint struct {
	agent, workflow int
	index           uint64
	after           int // execution; -1: none
	expires         int64
	void            bool
}

// verdict is what the oracle says of an execution.
type verdict struct {
	in         bool
	method     Method
	checkpoint int // -1: none
}

func (h *history) sameLine(a, b int) bool {
	x, y := &h.executions[a], &h.executions[b]
	return !x.compensation && !y.compensation && x.agent == y.agent && (h.spans[x.agent] || x.workflow == y.workflow)
}

func (h *history) onLine(c *checkpoint, x *execution) bool {
	return c.agent == x.agent && (h.spans[c.agent] || c.workflow == x.workflow)
}

func pastPlanned(x *execution) bool { return x.progress != Planned }

// nothingHappened: cancelled, or failed where the executor's newest signal says
// effects none.
func nothingHappened(x *execution) bool {
	return x.progress == Cancelled || x.progress == Failed && x.clean
}

// covers reports whether the execution has a final entry at or before that of
// c.after.
func (h *history) covers(c *checkpoint, x *execution) bool {
	return c.after >= 0 && x.final != 0 && x.final <= h.executions[c.after].final
}

// reachable is SCO-1's walk: members and what was undone before.
func (h *history) reachable(seeds []int, members map[int]bool) map[int]bool {
	reach := map[int]bool{}
	for _, s := range seeds {
		if !h.executions[s].compensation {
			reach[s] = true
		}
	}
	for m := range members {
		reach[m] = true
	}
	for grew := true; grew; {
		grew = false
		for y := range h.executions {
			for _, p := range h.executions[y].parents {
				if !p.Soft && reach[int(p.Exec)] && !reach[y] {
					reach[y], grew = true, true
				}
			}
		}
	}
	return reach
}

// goesBackTo returns the checkpoint that the line of x goes back to; back is
// false if it does not go back, and the checkpoint -1 if there is none to.
func (h *history) goesBackTo(x int, members map[int]bool, until int64) (c int, back bool) {
	for m := range members {
		e := &h.executions[m]
		back = back || h.sameLine(m, x) && e.effect == Reversible && pastPlanned(e) && !nothingHappened(e)
	}
	c = -1
	if !back {
		return c, back
	}
	for i := range h.checkpoints {
		candidate := &h.checkpoints[i]
		usable := !candidate.void && (candidate.expires == 0 || candidate.expires > until) && h.onLine(candidate, &h.executions[x])
		for m := range members {
			if e := &h.executions[m]; h.sameLine(m, x) && pastPlanned(e) && candidate.index >= e.started {
				usable = false
			}
		}
		if usable && (c < 0 || candidate.index > h.checkpoints[c].index) {
			c = i
		}
	}
	return c, back
}

func (h *history) scope(seeds []int, until int64) []verdict {
	members := map[int]bool{}
	for grew := true; grew; {
		grew = false
		add := func(x int) {
			if !members[x] && !h.executions[x].undone {
				members[x], grew = true, true
			}
		}
		for x := range h.reachable(seeds, members) { // SCO-1
			add(x)
		}
		for x := range h.executions { // SCO-2
			e := &h.executions[x]
			if e.compensation {
				continue
			}
			c, back := h.goesBackTo(x, members, until)
			stands := pastPlanned(e) && e.progress != Cancelled
			if back && (c < 0 || stands && !h.covers(&h.checkpoints[c], e)) {
				add(x)
			}
		}
	}
	verdicts := make([]verdict, len(h.executions))
	for x := range h.executions {
		verdicts[x] = verdict{checkpoint: -1}
		if members[x] {
			verdicts[x] = h.method(x, members, until)
		}
	}
	return verdicts
}

// method is SCO-4.
func (h *history) method(x int, members map[int]bool, until int64) verdict {
	e := &h.executions[x]
	v := verdict{in: true, checkpoint: -1}
	switch {
	case e.progress == Planned:
		v.method = Cancel
	case nothingHappened(e), e.effect == None:
		v.method = Invalid
	case e.effect == Compensable:
		v.method = Compensate
	case e.effect == Reversible:
		v.method = Residual
		if c, _ := h.goesBackTo(x, members, until); c >= 0 {
			v.method, v.checkpoint = Restore, c
		}
	default:
		v.method = Residual
	}
	return v
}

// review lists the soft dependents of members that are no members.
func (h *history) review(verdicts []verdict, seeds []int) (list []uint32) {
	reach := h.reachable(seeds, nil)
	for x, v := range verdicts {
		reach[x] = reach[x] || v.in
	}
	for y := range h.executions {
		for _, p := range h.executions[y].parents {
			if p.Soft && verdicts[p.Exec].in && !verdicts[y].in && !h.executions[y].undone && !slices.Contains(list, uint32(y)) {
				list = append(list, uint32(y))
			}
		}
	}
	return list
}

// direct is the members that SCO-1 alone gives.
func (h *history) direct(seeds []int) map[int]bool { return h.reachable(seeds, nil) }
