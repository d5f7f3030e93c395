package coord

import (
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// noteTaskPast keeps the parts of an entry that the task's recovery needs. These say how the
// task's claims ended, since its creation or since an operator last answered for it. They also say
// whether each later claim could resume from a checkpoint.
func (s *State) noteTaskPast(t *task, b *entry.Task, at int64) {
	switch newest := len(t.failures) - 1; {
	case b.Op == entry.TaskFail || b.Op == entry.TaskInterrupt:
		f := entry.TaskFailure{Class: "crash", Code: "lost", At: at}
		switch {
		case b.Op == entry.TaskInterrupt:
			f.Code = "interrupted"
		case b.Snapshot != nil:
			f.Class, f.Code, f.Attempts = b.Snapshot.Class, b.Snapshot.Code, b.Snapshot.Attempts
		}
		t.failures = append(t.failures, f)
		t.failures = t.failures[max(0, len(t.failures)-failuresMax):]
	case b.Op == entry.TaskRelease:
		t.failures = nil
	case claims(b.Op) && newest >= 0:
		t.failures[newest].Checkpoint = s.resumable(t, at)
	}
}

// pointLen is the length of the text that [entry.CheckpointName] returns.
const pointLen = len("task-0123456789abcdef-")

// addPoint notes the task that a checkpoint belongs to, if there is one. The checkpoint has a name
// of the task, and the holder of the task made it in the task's workflow.
func (s *State) addPoint(number uint32, c *entry.Checkpoint) {
	if len(c.Checkpoint) < pointLen {
		return
	}
	of, ok := s.tasks.byPoint[c.Checkpoint[:pointLen]]
	if !ok || !s.tasks.list[of].heldBy(c.Iss) || string(s.workflows.Text(s.tasks.list[of].workflow)) != string(c.Wid) {
		return
	}
	s.linkPoint(number, of)
}

func (s *State) linkPoint(number, of uint32) {
	s.tasks.pointOf[number] = of
	t := &s.tasks.list[of]
	t.points = append(t.points, number)
}

// resumable reports whether a task that failed or was interrupted may be claimed from a
// checkpoint. The checkpoint must be neither void nor expired. After a failure, the number of
// resumes is limited (TSK-1).
func (s *State) resumable(t *task, now int64) bool {
	if t.State == entry.TaskFailed && t.ResumeCount >= entry.MaxResumes {
		return false
	}
	return len(s.usable(t, now, 1)) > 0
}

// usable returns the indexes of the newest checkpoints of a task that are neither void nor expired,
// the newest first.
func (s *State) usable(t *task, now int64, most int) (indexes []uint64) {
	for _, number := range slices.Backward(t.points) {
		if len(indexes) == most {
			break
		}
		if c := s.graph.Checkpoint(number); !c.Void && (c.ExpiresAt == 0 || c.ExpiresAt > now) {
			indexes = append(indexes, c.Index)
		}
	}
	return indexes
}

// recovers reports whether the rules of recovery say how a task goes on. The task failed with
// retries left or was interrupted, and effectGate does not hold it up.
func (s *State) recovers(t *task) bool {
	return (t.State == entry.TaskFailed || t.State == entry.TaskInterrupted) && !t.retriesSpent() && s.effectGate(t) == nil
}

// recovery returns the decision of rules about a task that recovers.
func (s *State) recovery(number uint32, now int64, rules *Rules) recovery.TaskDecision {
	return rules.decide(s, number, s.past(number, now))
}

// past returns the past of a task that recovers.
func (s *State) past(number uint32, now int64) recovery.Task {
	t := &s.tasks.list[number]
	past := recovery.Task{Ref: s.taskRef(number), Type: t.kind, Epoch: t.Epoch, MaxRetries: t.maxRetries, Failures: slices.Clone(t.failures)}
	past.Failures[len(past.Failures)-1].Checkpoint = s.resumable(t, now)
	return past
}

// Decisions returns what the rules decide about each failure of a task, each as of its own time.
func (s *State) Decisions(task entry.Ref, now int64, rules *Rules) []recovery.TaskDecision {
	number, t, ok := s.findTask(task)
	if !ok || len(t.failures) == 0 {
		return nil
	}
	past := s.past(number, now)
	if t.State != entry.TaskFailed && t.State != entry.TaskInterrupted {
		past.Epoch, past.Failures = t.Epoch-1, t.failures // it was claimed again, and that claim says what it had
	}
	rules.mu.Lock()
	defer rules.mu.Unlock()
	return past.Decisions(rules.forTask(s, task))
}

// ruleRouter is the rule of what the router decides before it asks any rule of recovery.
const ruleRouter = "router"

// Decision returns what is decided about the newest failure of a task that waits. asked is false if
// the rules are not asked: a task without retries goes to people, and any other task that does not
// recover waits until its effects are known.
func (s *State) Decision(task entry.Ref, now int64, rules *recovery.Policy) (d recovery.TaskDecision, asked bool) {
	number, t, _ := s.findTask(task)
	past := s.past(number, now)
	if s.recovers(t) {
		return past.Decide(rules), true
	}
	d.Due = past.Failures[len(past.Failures)-1].At
	d.Rule.ID, d.Action.Strategy, d.Action.Reason = ruleRouter, recovery.Wait, recovery.ReasonEffectsUnknown
	if t.retriesSpent() {
		d.Action.Strategy, d.Action.Reason = recovery.Escalate, recovery.ReasonRetriesSpent
	}
	return d, false
}
