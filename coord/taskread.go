package coord

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// Consult fills in what the policy wants done about a task: about one that failed, with
// retries left, or was interrupted, what its rules say; and about one that waits, for
// whom, and how an operator gives the task to an agent. now is in Unix milliseconds.
func (s *State) Consult(v *api.Task, now int64, rules *Rules) {
	number, t, ok := s.findTask(v.Task)
	if !ok {
		return
	}
	people := false
	if s.recovers(t) {
		d := s.recovery(number, now, rules)
		c, given := claimFor(d.Action.Strategy)
		people = !given
		v.Recovery = &api.TaskRecovery{Strategy: string(d.Action.Strategy), Rule: d.Rule.String(), Reason: string(d.Action.Reason),
			Due: d.Due, Remediation: d.Remediation, Another: c.another && t.failedBy(t.agent)}
	}
	v.Unassignable = claimable(v) && !slices.ContainsFunc(s.agentsByCapability[t.kind], func(p entry.Principal) bool { return !another(v) || !t.failedBy(p) })
	v.Waits, v.GivenBy = taskWaits(v, people), givenBy(v)
}

// claimable reports whether a task waits for nothing but a claim by somebody who has its
// type among its capabilities.
func claimable(v *api.Task) bool {
	return v.Type != "" && (v.State == entry.TaskCreated || v.Recovery != nil)
}

// another reports whether a task is not to be given to the agent that failed at it just now.
func another(v *api.Task) bool { return v.Recovery != nil && v.Recovery.Another }

// Candidates fills in who may get a task that waits for nothing but a claim, and whom an
// operator may give it to. The candidates are the same agents as [State.Route] chooses
// from, in the order of its choice, at most candidatesMax. A task without a type has none.
// [State.Consult] is to be called before.
func (s *State) Candidates(v *api.Task) {
	if _, t, ok := s.findTask(v.Task); ok && claimable(v) {
		v.Candidates = slices.SortedStableFunc(s.candidates(t, another(v), s.tasks.held), t.compare)
		v.Candidates = v.Candidates[:min(len(v.Candidates), candidatesMax)]
	}
	v.Reassign = reassignment(v)
}

// Task returns the task that a reference names. The reason and the time of its first
// entry stand in the log alone, and its lease nowhere: they are left out.
func (s *State) Task(ref entry.Ref) (view api.Task, ok bool) {
	number, _, ok := s.findTask(ref)
	if ok {
		view = s.viewTask(number)
	}
	return view, ok
}

// Tasks returns up to limit tasks, as [State.Task] does, whose first entry is below an
// index, the newest first; before 0 is the newest of all.
func (s *State) Tasks(before uint64, limit int) (views []api.Task) {
	end := len(s.tasks.list)
	if before != 0 {
		end, _ = slices.BinarySearchFunc(s.tasks.list, before, func(t task, index uint64) int { return cmp.Compare(t.created, index) })
	}
	for number := end - 1; number >= 0 && len(views) < limit; number-- {
		views = append(views, s.viewTask(uint32(number)))
	}
	return views
}

// TaskCounts returns how many tasks stand where. The map is not to be changed.
func (s *State) TaskCounts() map[entry.TaskState]int64 { return s.tasks.states }

// TaskRetries returns how many claims after failures there were, of all tasks.
func (s *State) TaskRetries() int64 { return s.tasks.retries }

func (s *State) viewTask(number uint32) api.Task {
	t := &s.tasks.list[number]
	v := api.Task{
		Task: s.taskRef(number), Wid: entry.WorkflowID(s.workflows.Text(t.workflow)), State: t.State, Epoch: t.Epoch,
		RetryCount: t.RetryCount, ResumeCount: t.ResumeCount, MaxRetries: t.maxRetries, LeaseMS: t.leaseMS, Type: t.kind, Agent: t.agent,
		Created: t.created, Changed: t.changed, ChangedAt: t.changedAt, Executions: len(t.execs), Failures: slices.Clone(t.failures),
	}
	if t.State == entry.TaskFailed || t.State == entry.TaskInterrupted {
		if gate, ok := errors.AsType[*entry.Refusal](s.effectGate(t)); ok {
			v.Gate = gate.Detail
		}
	}
	return v
}

// LostLease is a lease whose term is over.
type LostLease struct {
	Task  entry.Ref
	Epoch int64
	// Over is how who held it says that it has come to an end; nil: does not.
	Over *entry.Snapshot
}

// Losses returns the entries that say that leases were lost, as far as the log
// does not say already how the tasks went on.
func (s *State) Losses(lost []LostLease, now int64) (todo []entry.Body) {
	for _, one := range lost {
		_, t, ok := s.findTask(one.Task)
		if !ok || t.Epoch != one.Epoch {
			continue
		}
		order := TaskOrder{Task: one.Task, Op: entry.TaskFail, Reason: "the lease was lost"}
		if one.Over != nil {
			order.Reason = "its agent reported " + one.Over.Class + "." + one.Over.Code
			if one.Over.Interrupted() {
				order.Op = entry.TaskInterrupt
			}
		}
		if b, err := s.DraftTask(order); err == nil {
			switch {
			case one.Over != nil && s.ended(one.Over, one.Task):
				b.Snapshot = one.Over
			case one.Over != nil && now < t.heardAt+t.leaseMS:
				continue // the log does not show it yet
			}
			todo = append(todo, b)
		}
	}
	return todo
}

// ended reports whether the log shows that the execution which a snapshot names
// has ended, and is of the task, and of who made the snapshot.
func (s *State) ended(over *entry.Snapshot, task entry.Ref) bool {
	exec, x, ok := s.findExecution(over.Exec)
	number, of := s.tasks.of[exec]
	return ok && of && s.taskRef(number) == task && s.principal(x.Agent) == over.Agent &&
		(x.Progress == scope.Failed || x.Progress == scope.Cancelled)
}

// Claim is the newest claim of a task.
type Claim struct {
	Task    entry.Ref
	Agent   entry.Principal
	Epoch   int64
	LeaseMS int64 // term of its lease
	Held    bool  // whether the task is held under it
}

// Claims yields the claims under which tasks are held.
func (s *State) Claims() iter.Seq[Claim] {
	return func(yield func(Claim) bool) {
		for number := range s.tasks.list {
			if c := s.claim(uint32(number)); c.Held && !yield(c) {
				return
			}
		}
	}
}

// ClaimOf returns the claim that an applied entry is about: the newest one of the task
// that the entry changes, or the one whose holder logs an execution under it.
func (s *State) ClaimOf(e *entry.Entry) (c Claim, ok bool) {
	number := uint32(0)
	switch body := e.Body.(type) {
	case *entry.Task:
		number, _, ok = s.findTask(body.Task)
	case *entry.Execution:
		if len(s.tasks.of) == 0 {
			return c, false
		}
		if exec, x, known := s.findExecution(body.Ref()); known {
			number, ok = s.tasks.of[exec]
			ok = ok && s.tasks.list[number].heldBy(body.Iss) && x.First > s.tasks.list[number].claimed
		}
	}
	if ok {
		c = s.claim(number)
	}
	return c, ok
}

func (s *State) claim(number uint32) Claim {
	t := &s.tasks.list[number]
	return Claim{s.taskRef(number), t.agent, t.Epoch, t.leaseMS, t.State.Held()}
}

// TaskOrder says what is to become of a task.
type TaskOrder struct {
	Task   entry.Ref
	Op     string
	Agent  entry.Principal // of a claim: who is to hold it
	Resume bool            // of a claim after a failure: from a checkpoint
	Reason string
}

// DraftTask returns the entry that carries out an order: everything but jti, iss
// and iat. The error is a [*entry.Refusal] if the task is unknown or the table
// does not have the operation; whether it is admitted, only Admit tells.
func (s *State) DraftTask(o TaskOrder) (*entry.Task, error) {
	_, t, ok := s.findTask(o.Task)
	if !ok {
		return nil, unknown("task", "no task %s in the log", o.Task)
	}
	b, listed := t.Move(o.Op, o.Resume)
	if !listed {
		return nil, conflict("op", "%s of %s, which is %s", o.Op, o.Task, t.State)
	}
	b.Header = entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(t.workflow))}
	b.Task, b.Reason, b.Agent = o.Task, o.Reason, t.agent
	if claims(o.Op) {
		b.Agent = o.Agent
	}
	return &b, nil
}
