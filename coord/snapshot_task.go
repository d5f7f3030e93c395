package coord

import (
	"math"
	"slices"

	"recoveryledger/coord/codec"
	"recoveryledger/ledger/entry"
)

var taskStates = entry.TaskStates()

// snapshotTasks passes the tasks. Their executions name them.
func (s *State) snapshotTasks(c *codec.Codec) {
	place := uint32(0)
	codec.List(c, &s.tasks.list, min(s.size, math.MaxInt32), func(t *task) {
		s.snapshotLocal(c, s.tasks.names, place)
		s.snapshotTask(c, t)
		if c.Reading() && c.OK() {
			s.tasks.byPoint[entry.CheckpointName(s.taskRef(place))] = place
			s.countTask(place, 1)
		}
		place++
	})
}

func (s *State) snapshotTask(c *codec.Codec, t *task) {
	codec.Number(c, &t.created, s.size)
	codec.Number(c, &t.workflow, uint64(s.workflows.Size()))
	state := slices.Index(taskStates, t.State)
	codec.Number(c, &state, uint64(len(taskStates)))
	if c.OK() {
		t.State = taskStates[state]
	}
	c.Text(&t.kind, entry.MaxName)
	codec.Number(c, &t.maxRetries, entry.MaxRetries+1)
	codec.Number(c, &t.leaseMS, entry.MaxLeaseMS+1)
	c.Instant(&t.Epoch)
	c.Instant(&t.RetryCount)
	c.Instant(&t.ResumeCount)
	agent := string(t.Agent)
	c.Text(&agent, entry.MaxName)
	t.Agent = entry.Principal(agent)
	codec.Number(c, &t.claimed, s.size)
	codec.Number(c, &t.changed, s.size)
	c.Instant(&t.changedAt)
	c.Instant(&t.heardAt)
	codec.Number(c, &t.answered, s.size)
	codec.List(c, &t.failures, failuresMax, func(f *entry.TaskFailure) {
		c.Text(&f.Class, entry.MaxName)
		c.Text(&f.Code, entry.MaxName)
		c.Instant(&f.At)
		codec.Number(c, &f.Attempts, entry.MaxAttempts+1)
		c.Flag(&f.Checkpoint)
	})
	if c.Reading() {
		switch failed := t.State == entry.TaskFailed || t.State == entry.TaskInterrupted; {
		case (t.Agent == "") != (t.Epoch == 0):
			c.Refuse("a task claimed by nobody")
		case failed && len(t.failures) == 0:
			c.Refuse("a task that failed, and no failure")
		}
	}
}

// snapshotSubject passes the subject of a signal: twice the number of an execution, or twice the
// number of a task plus one.
func (s *State) snapshotSubject(c *codec.Codec, subject *uint32) {
	n := uint64(*subject) << 1
	if *subject&taskBit != 0 {
		n = uint64(*subject&^taskBit)<<1 | 1
	}
	codec.Number(c, &n, 2*math.MaxUint32)
	limit := uint64(s.graph.Size())
	if n&1 != 0 {
		limit = uint64(len(s.tasks.list))
	}
	if !c.Reading() {
		return
	}
	if *subject = uint32(n >> 1); n&1 != 0 {
		*subject |= taskBit
	}
	if n>>1 >= limit {
		*subject = 0
		c.Refuse("a signal about nothing")
	}
}
