package coord

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/ascending"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// Consult fills in what the policy wants done about a task. For a task that failed with retries
// left, or was interrupted, it fills in what the rules say. For a waiting task it fills in whose
// entry the task waits for, and how an operator gives the task to an agent. now is in Unix ms.
func (s *State) Consult(v *api.Task, now int64, rules *Rules) {
	number, t, ok := s.findTask(v.Task)
	if !ok {
		return
	}
	people := false
	v.Checkpoints = s.usable(t, now, checkpointsMax)
	if s.recovers(t) {
		v.Failures[len(v.Failures)-1].Checkpoint = s.resumable(t, now)
		d := s.recovery(number, now, rules)
		c, given := claimFor(d.Action.Strategy)
		people = !given
		v.Recovery = &api.TaskRecovery{Strategy: string(d.Action.Strategy), Rule: d.Rule.String(), Reason: string(d.Action.Reason),
			Due: d.Due, Remediation: d.Remediation, Another: c.another && t.failedBy(t.Agent)}
	}
	v.Unassignable = claimable(v) && !slices.ContainsFunc(s.agentsByCapability[t.kind], func(p entry.Principal) bool { return !another(v) || !t.failedBy(p) })
	v.Waits, v.GivenBy = taskWaits(v, people), givenBy(v)
}

// claimable reports whether a task waits only for a claim by an agent that has the task's type
// among its capabilities.
func claimable(v *api.Task) bool {
	return v.Type != "" && (v.State == entry.TaskCreated || v.Recovery != nil)
}

// another reports whether a task is not to be given to the agent that failed at it just now.
func another(v *api.Task) bool { return v.Recovery != nil && v.Recovery.Another }

// Candidates fills in which agents may get a task that waits only for a claim, and which agent an
// operator may give the task to. The candidates are the agents that [State.Route] chooses from, in
// the order of its choice, at most candidatesMax. A task without a type has no candidates. Call
// [State.Consult] first.
func (s *State) Candidates(v *api.Task) {
	if _, t, ok := s.findTask(v.Task); ok && claimable(v) {
		v.Candidates = slices.SortedStableFunc(s.candidates(t, another(v), nil), t.compare)
		v.Candidates = v.Candidates[:min(len(v.Candidates), candidatesMax)]
	}
	v.Reassign = reassignment(v)
}

// Task returns the task that a reference names. The reason and the time of its first entry are
// left out, because only the log has them. Its lease is left out too, because no entry has it.
func (s *State) Task(ref entry.Ref) (view api.Task, ok bool) {
	number, _, ok := s.findTask(ref)
	if ok {
		view = s.viewTask(number)
	}
	return view, ok
}

// Tasks returns up to limit tasks in the form of [State.Task], the newest first. The first entry
// of each has an index below before. If before is 0, the list begins with the newest task of all.
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

// HeldBy returns up to limit tasks that an agent holds, in the form of [State.Task], the newest
// first, and how many it holds in all.
func (s *State) HeldBy(agent entry.Principal, limit int) (views []api.Task, all int) {
	held := s.tasks.held[agent]
	for _, number := range ascending.Largest(limit, held) {
		views = append(views, s.viewTask(number))
	}
	return views, len(held)
}

// TaskWork returns up to limit executions of a task, the newest first. Compensations are none of
// them, whichever task they name.
func (s *State) TaskWork(ref entry.Ref, limit int, now int64) (views []ExecutionView) {
	if _, t, ok := s.findTask(ref); ok {
		for _, exec := range slices.Backward(t.execs[max(0, len(t.execs)-limit):]) {
			views = append(views, s.reported(exec, now))
		}
	}
	return views
}

// TaskCounts returns the number of tasks in each state. Do not change the map.
func (s *State) TaskCounts() map[entry.TaskState]int64 { return s.tasks.states }

// TaskRetries returns the number of claims after failures, of all tasks together.
func (s *State) TaskRetries() int64 { return s.tasks.retries }

func (s *State) viewTask(number uint32) api.Task {
	t := &s.tasks.list[number]
	v := api.Task{
		Task: s.taskRef(number), Wid: entry.WorkflowID(s.workflows.Text(t.workflow)), State: t.State, Epoch: t.Epoch,
		RetryCount: t.RetryCount, ResumeCount: t.ResumeCount, MaxRetries: t.maxRetries, LeaseMS: t.leaseMS, Type: t.kind, Agent: t.Agent,
		Created: t.created, Changed: t.changed, ChangedAt: t.changedAt, Executions: len(t.execs), Failures: slices.Clone(t.failures),
	}
	if t.State == entry.TaskFailed || t.State == entry.TaskInterrupted {
		if gate, ok := errors.AsType[*entry.Refusal](s.effectGate(t)); ok {
			v.Gate = gate.Detail
		}
	}
	return v
}

// Losses returns the entries that say that leases were lost. A lease is left out if the log
// already says how its task went on.
func (s *State) Losses(lost []entry.Lease, now int64) (todo []entry.Body) {
	for _, one := range lost {
		number, t, ok := s.findTask(one.Task)
		if !ok || t.Epoch != one.Epoch {
			continue
		}
		op, reason, ended := entry.TaskFail, "the lease was lost", false
		if one.Over != nil {
			ended, _ = s.ended(one.Over, one.Task, t) // a report that the log contradicts shows no end
			reason = "its agent reported " + one.Over.Class + "." + one.Over.Code
			if one.Over.Interrupted() {
				op = entry.TaskInterrupt
			}
		}
		if b, listed := s.moveTask(number, op, "", false); listed {
			b.Reason = reason
			switch {
			case ended:
				b.Snapshot = one.Over
			case one.Over != nil && now < t.heardAt+t.leaseMS:
				continue // the log does not show the end yet
			}
			todo = append(todo, &b)
		}
	}
	return todo
}

// ended reports whether the log shows that the execution in a snapshot is of the newest claim of a
// task, and failed or was cancelled. The execution must be of the task and of the snapshot's agent.
func (s *State) ended(over *entry.Snapshot, ref entry.Ref, t *task) (bool, error) {
	exec, x, ok := s.findExecution(over.Exec)
	number, of := s.tasks.of[exec]
	switch {
	case !ok: // REG-8
		return false, unknown("snapshot.exec", "no execution %s in the log", over.Exec)
	case !of || s.taskRef(number) != ref || s.principal(x.Agent) != over.Agent:
		return false, conflict("snapshot.exec", "%s is not an execution of %s for %s", over.Exec, over.Agent, ref)
	}
	return over.Agent == t.Agent && x.First > t.claimed && (x.Progress == scope.Failed || x.Progress == scope.Cancelled), nil
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

// ClaimOf returns the claim that an applied entry is about. An entry of a task is about the newest
// claim of the task. An execution is about the claim under which its agent logs the execution.
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
	return Claim{s.taskRef(number), t.Agent, t.Epoch, t.leaseMS, t.State.Held()}
}

// moveTask returns the entry that moves a task on by an operation, as [entry.TaskStanding.Move]
// does, without jti, iss, iat and reason. Only Admit tells whether the entry is admitted.
func (s *State) moveTask(number uint32, op string, agent entry.Principal, resume bool) (b entry.Task, listed bool) {
	t := &s.tasks.list[number]
	b, listed = t.Move(op, agent, resume)
	b.Header = entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(t.workflow))}
	b.Task = s.taskRef(number)
	return b, listed
}
