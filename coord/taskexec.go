package coord

import (
	"iter"
	"strconv"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// taskBit marks a task's number where an execution's number may stand too. The numbers of
// executions stay below it, because an edge of their graph holds twice a number.
const taskBit = 1 << 31

// admitWork checks that the task of an execution is in the log, and that the execution's agent
// holds the task now. So an agent that lost its claim begins nothing. A started execution may
// always become final, because the log tells what happened.
func (s *State) admitWork(x *entry.Execution) error {
	if x.Task == "" || x.Compensates != nil {
		return nil
	}
	_, t, _ := s.findTask(x.Task)
	switch {
	case string(x.Wid) != string(s.workflows.Text(t.workflow)):
		return conflict("wid", "%s belongs to workflow %s", x.Task, s.workflows.Text(t.workflow))
	case t.heldBy(x.Iss):
		return s.admitOfClaim(x, t)
	case t.Agent == x.Iss || s.worked(t, x.Iss):
		return staleClaim(x, t)
	}
	return entry.Refuse(entry.NoStanding, "task", "%s does not hold %s", x.Iss, x.Task)
}

// admitOfClaim checks that an agent which holds a task again begins nothing for its earlier claim.
// An execution must not depend on an execution that the earlier claim began and never ended. A
// process left over from the earlier claim would begin such an execution.
func (s *State) admitOfClaim(x *entry.Execution, t *task) error {
	for i := range x.Parents {
		number, parent, _ := s.findExecution(x.Parents[i].Exec)
		if parent.First < t.claimed && parent.Progress <= scope.Started && s.principal(parent.Agent) == x.Iss && s.isWorkOf(number, t) {
			return entry.Refuse(entry.StaleEpoch, parentField(i), "%s belongs to an earlier claim of %s on the task, and did not end", x.Parents[i].Exec, x.Iss).
				WithRemedy("stop: the work continues in the claim at epoch " + strconv.FormatInt(t.Epoch, 10))
		}
	}
	return nil
}

// isWorkOf reports whether an execution is one of a task.
func (s *State) isWorkOf(exec uint32, t *task) bool {
	number, of := s.tasks.of[exec]
	return of && &s.tasks.list[number] == t
}

// admitLaterWork is admitWork for a later entry of an execution.
func (s *State) admitLaterWork(x *entry.Execution, first uint32, old *scope.Node) error {
	number, of := s.tasks.of[first]
	if x.Task != "" && (!of || s.taskRef(number) != x.Task) {
		_, compensates := s.executions.comps[first]
		if !compensates {
			return conflict("task", "not that of entry %d, and it never changes", old.First)
		}
	}
	if !of || progressOf(x) != scope.Started {
		return nil
	}
	if t := &s.tasks.list[number]; !t.heldBy(x.Iss) || old.First < t.claimed {
		return staleClaim(x, t)
	}
	return nil
}

func staleClaim(x *entry.Execution, t *task) error {
	return entry.Refuse(entry.StaleEpoch, "task", "the claim of %s on its task is over: the task is %s at epoch %d", x.Iss, t.State, t.Epoch).
		WithRemedy("stop: another worker may now hold the task")
}

// worked reports whether a principal has executions of a task.
func (s *State) worked(t *task, p entry.Principal) bool {
	number, ok := s.principals.Find([]byte(p))
	if !ok {
		return false
	}
	for _, exec := range t.execs {
		if s.graph.Node(exec).Agent == number {
			return true
		}
	}
	return false
}

// noteActivity records that the holder of a task is active: an execution of its claim
// was registered.
func (s *State) noteActivity(exec, issuer uint32, at int64) {
	number, of := s.tasks.of[exec]
	if !of {
		return
	}
	if t := &s.tasks.list[number]; t.heldBy(s.principal(issuer)) && s.graph.Node(exec).First > t.claimed {
		t.heardAt = at
	}
}

// addWork notes which task an execution belongs to.
func (s *State) addWork(exec, number uint32) {
	s.tasks.of[exec] = number
	t := &s.tasks.list[number]
	t.execs = append(t.execs, exec)
}

// findSubject returns the subject of a signal: an execution, or a task.
func (s *State) findSubject(ref entry.Ref) (subject uint32, ok bool) {
	if exec, known := s.resolve(s.executions.names, ref); known {
		return exec, true
	}
	number, ok := s.resolve(s.tasks.names, ref)
	return taskBit | number, ok
}

// mustSubject is findSubject for a signal that was admitted.
func (s *State) mustSubject(ref entry.Ref) uint32 {
	subject, ok := s.findSubject(ref)
	if !ok {
		s.impossible("%s is unknown", ref)
	}
	return subject
}

// taskOf returns the task that a subject is.
func (s *State) taskOf(subject uint32) (t *task, is bool) {
	if subject&taskBit == 0 {
		return nil, false
	}
	return &s.tasks.list[subject&^taskBit], true
}

// executionsOf yields the executions of a subject: the subject itself, or all
// executions of a task (SCO-3).
func (s *State) executionsOf(subject uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		t, is := s.taskOf(subject)
		if !is {
			yield(subject)
			return
		}
		for _, exec := range t.execs {
			if !yield(exec) {
				return
			}
		}
	}
}

func (s *State) subjectRef(subject uint32) entry.Ref {
	if subject&taskBit != 0 {
		return s.taskRef(subject &^ taskBit)
	}
	return s.refOf(subject)
}

func (s *State) subjectWorkflow(subject uint32) uint32 {
	if t, is := s.taskOf(subject); is {
		return t.workflow
	}
	return s.graph.Node(subject).Workflow
}

// isAbout reports whether a signal's subject is an execution, or its task.
func (s *State) isAbout(sig *signal, exec uint32) bool {
	if sig.subject == exec {
		return true
	}
	number, of := s.tasks.of[exec]
	return of && sig.subject == taskBit|number
}
