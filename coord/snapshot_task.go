package coord

import (
	"math"
	"slices"

	"recoveryledger/ledger/entry"
)

var taskStates = entry.TaskStates()

// tasks passes the tasks. Their executions name them.
func (p *passage) tasks(s *State) {
	place := uint32(0)
	list(p, &s.tasks.list, min(s.size, math.MaxInt32), func(t *task) {
		if p.reading() {
			p.d.name(s.tasks.names, p.d.local(s.principals.Size()))
		} else {
			p.e.local(s.tasks.names.Text(place))
		}
		p.task(s, t)
		if p.reading() && p.ok() {
			s.tasks.byPoint[entry.CheckpointName(s.taskRef(place))] = place
			s.countTask(place, 1)
		}
		place++
	})
}

func (p *passage) task(s *State, t *task) {
	number(p, &t.created, s.size)
	number(p, &t.workflow, uint64(s.workflows.Size()))
	state := slices.Index(taskStates, t.State)
	number(p, &state, uint64(len(taskStates)))
	if p.ok() {
		t.State = taskStates[state]
	}
	p.text(&t.kind, entry.MaxName)
	number(p, &t.maxRetries, entry.MaxRetries+1)
	number(p, &t.leaseMS, entry.MaxLeaseMS+1)
	instant(p, &t.Epoch)
	instant(p, &t.RetryCount)
	instant(p, &t.ResumeCount)
	agent := string(t.agent)
	p.text(&agent, entry.MaxName)
	t.agent = entry.Principal(agent)
	number(p, &t.claimed, s.size)
	number(p, &t.changed, s.size)
	instant(p, &t.changedAt)
	instant(p, &t.heardAt)
	number(p, &t.answered, s.size)
	list(p, &t.failures, failuresMax, func(f *entry.TaskFailure) {
		p.text(&f.Class, entry.MaxName)
		p.text(&f.Code, entry.MaxName)
		instant(p, &f.At)
		number(p, &f.Attempts, entry.MaxAttempts+1)
		flag(p, &f.Checkpoint)
	})
	if p.reading() {
		switch failed := t.State == entry.TaskFailed || t.State == entry.TaskInterrupted; {
		case (t.agent == "") != (t.Epoch == 0):
			p.d.refuse("a task claimed by nobody")
		case failed && len(t.failures) == 0:
			p.d.refuse("a task that failed, and no failure")
		}
	}
}

// subject passes what a signal is about: twice the number of an execution, or
// twice that of a task and one.
func (p *passage) subject(s *State, subject *uint32) {
	n := uint64(*subject) << 1
	if *subject&taskBit != 0 {
		n = uint64(*subject&^taskBit)<<1 | 1
	}
	number(p, &n, 2*math.MaxUint32)
	limit := uint64(s.graph.Size())
	if n&1 != 0 {
		limit = uint64(len(s.tasks.list))
	}
	if !p.reading() {
		return
	}
	if *subject = uint32(n >> 1); n&1 != 0 {
		*subject |= taskBit
	}
	if n>>1 >= limit {
		*subject = 0
		p.d.refuse("a signal about nothing")
	}
}
