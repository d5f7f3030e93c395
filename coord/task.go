package coord

import (
	"slices"

	"recoveryledger/coord/ascending"
	"recoveryledger/coord/compact"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// tasks are the tasks of a log, by number.
type tasks struct {
	names   *compact.Names // issuer's number and local id
	list    []task
	of      map[uint32]uint32 // by execution: its task
	pointOf map[uint32]uint32 // by checkpoint: its task

	// Derived:
	byPoint map[string]uint32            // by the beginning of the names of their checkpoints
	waiting map[uint32]struct{}          // tasks that no agent holds and that are not over
	held    map[entry.Principal][]uint32 // tasks that each agent holds, ascending
	states  map[entry.TaskState]int64    // number of tasks in each state
	retries int64                        // claims after failures, of all tasks
}

// task holds what the rules need of a task. Its executions and checkpoints are derived.
type task struct {
	entry.TaskStanding
	created    uint64 // index
	workflow   uint32
	kind       string // its type; empty: none
	maxRetries int64
	leaseMS    int64
	claimed    uint64 // index of the newest claim
	changed    uint64 // index of the newest entry of the task
	changedAt  int64  // when the newest entry of the task was registered
	heardAt    int64  // time of the task's newest entry, or of its holder's executions
	answered   uint64 // index of the newest release, which answers for effects before it
	failures   []entry.TaskFailure
	execs      []uint32 // ascending
	points     []uint32 // its checkpoints, ascending
}

// retriesSpent reports whether the task failed and has no retries left (TSK-1). An interruption
// costs no retry.
func (t *task) retriesSpent() bool {
	return t.State == entry.TaskFailed && t.RetriesSpent(t.maxRetries)
}

// heldBy reports whether a principal holds the task.
func (t *task) heldBy(p entry.Principal) bool { return t.State.Held() && t.Agent == p }

// findTask returns the task that a reference names.
func (s *State) findTask(ref entry.Ref) (number uint32, t *task, ok bool) {
	if number, ok = s.resolve(s.tasks.names, ref); ok {
		t = &s.tasks.list[number]
	}
	return number, t, ok
}

func (s *State) taskRef(number uint32) entry.Ref { return s.ref(s.tasks.names, number) }

// admitTask checks the table of protocol.md, section 9. REG-4 checks that a role may sign an
// operation.
func (s *State) admitTask(b *entry.Task, at int64) error {
	_, t, ok := s.findTask(b.Task)
	if b.Op == entry.TaskCreate {
		return s.admitCreate(b, ok)
	}
	if !ok { // REG-8
		return unknown("task", "no task %s in the log", b.Task).WithRemedy("create the task first")
	}
	if b.Agent != "" && claims(b.Op) && !s.isAgent(b.Agent) {
		return unknown("agent", "%s is not an enrolled agent with a valid key", b.Agent)
	}
	resume := b.ResumeCount != t.ResumeCount
	want, listed := t.Move(b.Op, b.Agent, resume)
	epoch := t.Epoch
	if claims(b.Op) {
		epoch++
	}
	switch { // REG-9
	case string(b.Wid) != string(s.workflows.Text(t.workflow)):
		return conflict("wid", "%s belongs to workflow %s", b.Task, s.workflows.Text(t.workflow))
	case b.Epoch != epoch:
		return entry.Refuse(entry.StaleEpoch, "epoch", "%d, but the newest claim of %s is %d, and %s asks for %d", b.Epoch, b.Task, t.Epoch, b.Op, epoch).
			WithRemedy("read the state of the task; an earlier epoch gives no rights")
	case ofHolder(b.Op) && b.Iss != t.Agent:
		return entry.Refuse(entry.NoStanding, "iss", "%s does not hold %s at epoch %d", b.Iss, b.Task, t.Epoch)
	case !listed:
		return conflict("op", "%s of %s, which is %s", b.Op, b.Task, t.State)
	}
	if err := checkMove(b, &want); err != nil {
		return err
	}
	if want.To == entry.TaskAssigned {
		return s.admitClaim(b, t, resume)
	}
	return s.admitEnd(b, t, at)
}

// ofHolder reports whether only the holder of a task may do an operation.
func ofHolder(op string) bool {
	return op == entry.TaskStart || op == entry.TaskReview || op == entry.TaskComplete || op == entry.TaskBlock
}

// claims reports whether an operation gives the task to an agent.
func claims(op string) bool {
	return op == entry.TaskAssign || op == entry.TaskReassign || op == entry.TaskRelease
}

// isAgent reports whether a principal may hold a task.
func (s *State) isAgent(p entry.Principal) bool {
	info, ok := s.chain.Agent(p)
	return ok && slices.Contains(info.Roles, entry.RoleAgent)
}

// admitCreate checks that an id belongs to its issuer and is given once, and that a new task has
// no past.
func (s *State) admitCreate(b *entry.Task, known bool) error {
	issuer, _ := b.Task.Split()
	switch {
	case issuer != b.Iss:
		return conflict("task", "%s creates a task of %s", b.Iss, issuer).WithRemedy("an id belongs to its issuer: name it " + string(b.Iss) + "#…")
	case known:
		return conflict("task", "%s exists already", b.Task).WithRemedy("give every task a new id")
	case b.From != entry.TaskCreated || b.To != entry.TaskCreated:
		return conflict("to", "a new task goes from CREATED to CREATED")
	case b.Epoch != 0:
		return entry.Refuse(entry.StaleEpoch, "epoch", "%d, but a new task has no claim", b.Epoch)
	case b.RetryCount != 0 || b.ResumeCount != 0:
		return conflict("retry_count", "retry_count and resume_count must be 0 when a task is created")
	case b.Agent != "" || b.Snapshot != nil:
		return conflict("agent", "a new task has no agent and no snapshot").WithRemedy("assign the task with another entry")
	}
	return nil
}

// checkMove checks that an entry says what follows from the present state of the task.
func checkMove(b, want *entry.Task) error {
	switch {
	case b.From != want.From || b.To != want.To:
		return conflict("to", "%s to %s, but %s leads from %s to %s", b.From, b.To, b.Op, want.From, want.To)
	case b.RetryCount != want.RetryCount:
		return conflict("retry_count", "%d, and the count before is %d", b.RetryCount, want.RetryCount)
	case b.ResumeCount != want.ResumeCount:
		return conflict("resume_count", "%d, and the count before is %d", b.ResumeCount, want.ResumeCount)
	case b.Type != "" || b.MaxRetries != nil || b.LeaseMS != nil:
		return conflict("type", "type, max_retries and lease_ms stand in the first entry of a task and never change")
	case b.Agent != "" && b.Agent != want.Agent:
		return conflict("agent", "the newest claim is of %q", want.Agent)
	}
	return nil
}

// admitClaim checks TSK-1.
func (s *State) admitClaim(b *entry.Task, t *task, resume bool) error {
	if b.Agent == "" {
		return conflict("agent", "missing").WithRemedy("name the agent that gets the task")
	}
	if b.Snapshot != nil {
		return conflict("snapshot", "a claim has no snapshot")
	}
	gate := s.effectGate(t)
	switch {
	case t.State == entry.TaskCreated || t.State == entry.TaskBlocked:
		return nil
	case b.Op == entry.TaskRelease && gate == nil && !t.retriesSpent():
		return conflict("op", "%s needs no release: it is %s after %d of %d retries", b.Task, t.State, t.RetryCount, t.maxRetries).WithRemedy("use the operation reassign")
	case b.Op == entry.TaskRelease:
		return nil
	case t.retriesSpent():
		return conflict("retry_count", "%s has spent its retries: %d of %d", b.Task, t.RetryCount, t.maxRetries).WithRemedy("an operator may release or cancel the task")
	case resume && b.ResumeCount > entry.MaxResumes:
		return conflict("resume_count", "%s was resumed %d times", b.Task, entry.MaxResumes).WithRemedy("claim the task as a retry, from the beginning")
	case gate != nil:
		return gate
	}
	return nil
}

// admitEnd checks an entry that ends a claim. The coordinator may say that a lease is lost no
// sooner than a term after the lease's last entry (TSK-2). It may say so sooner if the agent has
// said in the log that the claim is over: the snapshot names an execution of this claim that
// failed or was cancelled.
func (s *State) admitEnd(b *entry.Task, t *task, at int64) error {
	ended := false
	if b.Snapshot != nil {
		var err error
		if ended, err = s.ended(b.Snapshot, b.Task, t); err != nil {
			return err
		}
	}
	if b.Op != entry.TaskFail && b.Op != entry.TaskInterrupt || !t.State.Held() || ended {
		return nil
	}
	if until := t.heardAt + t.leaseMS; at < until {
		return conflict("op", "the lease of %s on %s ends at %d", t.Agent, b.Task, until).
			WithRemedy("wait a term after the lease's last entry, or name in the snapshot an execution of this claim that failed or was cancelled")
	}
	return nil
}

// effectGate returns why a task must not be claimed again yet: an execution of the task may have
// had effects that are not reconciled (TSK-1). It is nil if the task may be claimed.
func (s *State) effectGate(t *task) error {
	closed := func(format string, args ...any) error {
		return conflict("op", format, args...).
			WithRemedy("let the agent log the final progress, or signal effects none or complete; or let an operator check the effects and release the task")
	}
	for _, exec := range t.execs {
		if inc, open := s.openOn(exec); open {
			return conflict("op", "%s is part of incident %d, which is %s", s.refOf(exec), inc.opened, inc.state).WithRemedy("wait until the incident is closed")
		}
		x := s.graph.Node(exec)
		if x.First < t.answered || x.Effect == scope.None || x.Undone {
			continue
		}
		if x.Progress == scope.Started {
			return closed("%s was started, and its effect is unknown", s.refOf(exec))
		}
		if s.effectsInDoubt(exec) {
			return closed("the effects of %s are partial or unknown", s.refOf(exec))
		}
	}
	return nil
}

// openOn returns an open incident that concerns an execution.
func (s *State) openOn(exec uint32) (*incident, bool) {
	number, ok := s.joins(exec)
	if !ok {
		return nil, false
	}
	return s.incidents[number], true
}

// effectsInDoubt reports whether the effects of an execution are partial or unknown, by the newest
// signal of the execution's agent about the execution or its task.
func (s *State) effectsInDoubt(exec uint32) bool {
	newest := (*signal)(nil)
	for _, sig := range s.signalsAbout(exec) {
		own := sig.standing == entry.StandingExecutor && sig.issuer == s.graph.Node(exec).Agent
		if own && (newest == nil || sig.index > newest.index) {
			newest = sig
		}
	}
	return newest != nil && newest.inDoubt
}

// applyTask takes up an entry of a task.
func (s *State) applyTask(b *entry.Task, issuer uint32, index uint64, at int64) {
	if b.Op == entry.TaskCreate {
		_, id := b.Task.Split()
		number, _ := s.tasks.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, id))
		t := task{TaskStanding: entry.TaskStanding{State: entry.TaskCreated}, created: index, kind: b.Type,
			maxRetries: retriesDefault, leaseMS: leaseDefaultMS, changed: index, changedAt: at, heardAt: at}
		t.workflow, _ = s.workflows.Add([]byte(b.Wid))
		if b.MaxRetries != nil {
			t.maxRetries = *b.MaxRetries
		}
		if b.LeaseMS != nil {
			t.leaseMS = *b.LeaseMS
		}
		s.tasks.list = append(s.tasks.list, t)
		s.tasks.byPoint[entry.CheckpointName(b.Task)] = number
		s.countTask(number, 1)
		return
	}
	number := s.mustResolve(s.tasks.names, b.Task)
	t := &s.tasks.list[number]
	s.countTask(number, -1)
	s.noteTaskPast(t, b, at)
	agent := t.Agent
	t.TaskStanding = b.Standing()
	t.changed, t.changedAt, t.heardAt = index, at, at
	if b.To == entry.TaskAssigned {
		t.claimed = index
	} else {
		t.Agent = agent
	}
	if b.Op == entry.TaskRelease {
		t.answered = index
	}
	s.countTask(number, 1)
}

// countTask adds a task to the derived counts if n is 1, or takes it out if n is -1.
func (s *State) countTask(number uint32, n int64) {
	t := &s.tasks.list[number]
	s.tasks.states[t.State] += n
	s.tasks.retries += n * t.RetryCount
	delete(s.tasks.waiting, number)
	switch {
	case t.State.Held():
		if n > 0 {
			s.tasks.held[t.Agent] = ascending.Add(s.tasks.held[t.Agent], number)
		} else if s.tasks.held[t.Agent] = ascending.Drop(s.tasks.held[t.Agent], number); len(s.tasks.held[t.Agent]) == 0 {
			delete(s.tasks.held, t.Agent)
		}
	case !t.State.Over() && n > 0:
		s.tasks.waiting[number] = struct{}{}
	}
}
