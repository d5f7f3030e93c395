package coord

import (
	"math"
	"strconv"

	"recoveryledger/ledger/entry"
)

// line is an agent's executions in one workflow, or in all of them where its
// span is agent (SCO-2).
type line struct {
	agent    uint32
	workflow uint32 // allWorkflows where the span is agent
}

const allWorkflows = math.MaxUint32

// lines are the lines that have checkpoints, in the order of their first one.
type lines struct {
	list    []lineState
	numbers map[line]int
}

type lineState struct {
	line
	// covered is the final index of the execution that the newest checkpoint
	// comes after; 0: of none.
	covered uint64
}

// cover sets what the newest checkpoint of a line covers.
func (l *lines) cover(of line, final uint64) {
	number, ok := l.numbers[of]
	if !ok {
		number = len(l.list)
		l.numbers[of] = number
		l.list = append(l.list, lineState{line: of})
	}
	l.list[number].covered = final
}

// covered returns what the newest checkpoint of a line covers; 0: nothing.
func (l *lines) covered(of line) uint64 {
	if number, ok := l.numbers[of]; ok {
		return l.list[number].covered
	}
	return 0
}

// admitCheckpoint is CHK-1, and that an id is given once.
func (s *State) admitCheckpoint(c *entry.Checkpoint) error {
	final := uint64(0)
	if c.After != nil {
		_, after, ok := s.findExecution(*c.After)
		if !ok { // REG-8
			return unknown("after", "no execution %s in the log", *c.After)
		}
		if err := s.admitAfter(c, after); err != nil {
			return err
		}
		final = after.final
	}
	if _, ok := s.resolve(s.checkpoints, entry.NewRef(c.Iss, c.Checkpoint)); ok {
		return conflict("checkpoint", "%s has a checkpoint %s already", c.Iss, c.Checkpoint).WithRemedy("give every checkpoint a new id")
	}
	issuer, ok := s.principals.Find([]byte(c.Iss))
	if !ok { // its first entry
		return nil
	}
	of := line{issuer, allWorkflows}
	if !s.spansAll(c.Iss) {
		if of.workflow, ok = s.workflows.Find([]byte(c.Wid)); !ok {
			return nil
		}
	}
	if covered := s.lines.covered(of); final < covered {
		return conflict("after", "covers less than the checkpoint before, which covers what was final at entry %d", covered)
	}
	return nil
}

func (s *State) admitAfter(c *entry.Checkpoint, after *execution) error {
	switch {
	case string(s.principals.Text(after.agent)) != string(c.Iss):
		return conflict("after", "%s is not an execution of %s", *c.After, c.Iss)
	case string(s.workflows.Text(after.workflow)) != string(c.Wid) && !s.spansAll(c.Iss):
		return conflict("after", "%s belongs to workflow %s", *c.After, s.workflows.Text(after.workflow))
	case after.final == 0:
		return conflict("after", "%s is %s, not final", *c.After, after.progress).
			WithRemedy("log the final progress of the execution before the checkpoint that covers it")
	}
	return nil
}

// spansAll reports whether the agent's checkpoints reach over all its
// workflows.
func (s *State) spansAll(agent entry.Principal) bool {
	info, _ := s.chain.Agent(agent)
	return info.Span == entry.SpanAgent
}

func (s *State) applyCheckpoint(c *entry.Checkpoint, issuer uint32) {
	s.checkpoints.Add(localKey(make([]byte, 0, localKeyMax), issuer, c.Checkpoint))
	of, final := line{issuer, allWorkflows}, uint64(0)
	if !s.spansAll(c.Iss) {
		of.workflow, _ = s.workflows.Add([]byte(c.Wid))
	}
	if c.After != nil {
		final = s.executions.list.At(s.mustResolve(s.executions.names, *c.After)).final
	}
	s.lines.cover(of, final)
}

func parentField(i int) string { return "parents[" + strconv.Itoa(i) + "].exec" }
