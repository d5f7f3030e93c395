package coord

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// create registers a new task of the operator.
func (w *world) create(id string, change ...func(*entry.Task)) entry.Ref {
	w.t.Helper()
	b := w.newTask(id)
	for _, f := range change {
		f(b)
	}
	w.put(b)
	return b.Task
}

func (w *world) newTask(id string) *entry.Task {
	return &entry.Task{Header: w.header("o"), Task: entry.NewRef("o", id), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "test"}
}

func retries(n int64) func(*entry.Task) { return func(b *entry.Task) { b.MaxRetries = &n } }

func ofType(kind string) func(*entry.Task) { return func(b *entry.Task) { b.Type = kind } }

// move returns the entry of an operation on a task, also of one that is not in
// the table.
func (w *world) move(iss entry.Principal, ref entry.Ref, op string, agent entry.Principal) *entry.Task {
	w.t.Helper()
	number, t, ok := w.state.findTask(ref)
	if !ok {
		w.t.Fatalf("no task %s", ref)
	}
	b, listed := w.state.moveTask(number, op, agent, false)
	if b.Reason = "test"; !listed {
		b = entry.Task{Header: entry.Header{V: 1, Aud: origin, Wid: "w"}, Task: ref, Op: op, From: t.State, To: taskOps[op], Reason: "test",
			Epoch: t.Epoch, RetryCount: t.RetryCount, ResumeCount: t.ResumeCount, Agent: agent}
		if claims(op) {
			b.Epoch++
		}
	}
	w.head(iss, &b)
	return &b
}

// does registers an operation on a task.
func (w *world) does(iss entry.Principal, ref entry.Ref, op string, agent ...entry.Principal) {
	w.t.Helper()
	w.put(w.move(iss, ref, op, append(agent, "")[0]))
}

// fails lets the lease of a task be lost.
func (w *world) fails(ref entry.Ref) {
	w.t.Helper()
	w.at += 2 * minuteMS
	w.does("k", ref, entry.TaskFail)
}

func (w *world) stands(ref entry.Ref, state entry.TaskState, epoch, retries, resumes int64) {
	w.t.Helper()
	_, t, ok := w.state.findTask(ref)
	if !ok {
		w.t.Fatalf("no task %s", ref)
	}
	if want := (entry.TaskStanding{State: state, Agent: t.Agent, Epoch: epoch, RetryCount: retries, ResumeCount: resumes}); t.TaskStanding != want {
		w.t.Fatalf("%s stands %+v, want %+v", ref, t.TaskStanding, want)
	}
}

// work returns the first entry of an execution for a task.
func (w *world) work(iss entry.Principal, id string, task entry.Ref, effect entry.Effect) *entry.Execution {
	x := w.exec(iss, id)
	if x.Task, x.Effect = task, effect; effect != entry.EffectNone {
		x.IdempotencyKey = someDigest(id)
	}
	return x
}

// taskOps are the operations and where they lead.
var taskOps = map[string]entry.TaskState{
	entry.TaskAssign: entry.TaskAssigned, entry.TaskReassign: entry.TaskAssigned, entry.TaskRelease: entry.TaskAssigned,
	entry.TaskStart: entry.TaskInProgress, entry.TaskReview: entry.TaskInReview, entry.TaskComplete: entry.TaskCompleted,
	entry.TaskBlock: entry.TaskBlocked, entry.TaskFail: entry.TaskFailed, entry.TaskInterrupt: entry.TaskInterrupted, entry.TaskCancel: entry.TaskCancelled,
}

// taskWorld has a task that stands in a state; whoever holds it is a.
func taskWorld(t *testing.T, state entry.TaskState) (*world, entry.Ref) {
	t.Helper()
	w := newWorld(t)
	ref := w.create("task", retries(3))
	if state != entry.TaskCreated && state != entry.TaskCancelled {
		w.does("k", ref, entry.TaskAssign, "a")
	}
	switch state {
	case entry.TaskInProgress, entry.TaskInReview, entry.TaskCompleted:
		w.does("a", ref, entry.TaskStart)
	}
	w.at += 2 * minuteMS
	switch state {
	case entry.TaskInReview:
		w.does("a", ref, entry.TaskReview)
	case entry.TaskCompleted:
		w.does("a", ref, entry.TaskComplete)
	case entry.TaskBlocked:
		w.does("a", ref, entry.TaskBlock)
	case entry.TaskFailed:
		w.does("k", ref, entry.TaskFail)
	case entry.TaskInterrupted:
		w.does("k", ref, entry.TaskInterrupt)
	case entry.TaskCancelled:
		w.does("o", ref, entry.TaskCancel)
	}
	w.at += 2 * minuteMS
	return w, ref
}

// TestTaskTable asks of every state, operation and role whether it is in the
// table of protocol.md, section 9, and by whom section 3 lets it be signed. The
// columns are the states in the order of taskStates; x is admitted.
func TestTaskTable(t *testing.T) {
	//          cr as pr rv bl fa in co ca
	table := map[string]string{
		"assign":    "x  .  .  .  .  x  x  .  .",
		"reassign":  "x  .  .  .  .  x  x  .  .",
		"release":   ".  .  .  .  x  .  .  .  .", // of FAILED only past the retries: TestTaskBudget
		"start":     ".  x  .  x  .  .  .  .  .",
		"review":    ".  .  x  .  .  .  .  .  .",
		"complete":  ".  .  x  x  .  .  .  .  .",
		"block":     ".  x  x  x  .  .  .  .  .",
		"fail":      "x  x  x  x  .  .  .  .  .",
		"interrupt": ".  x  x  x  .  .  .  .  .",
		"cancel":    "x  x  x  x  x  x  x  .  .",
	}
	signers := map[string]entry.Principal{"assign": "k", "fail": "k", "interrupt": "k", "reassign": "o", "release": "o", "cancel": "o",
		"start": "a", "review": "a", "complete": "a", "block": "a"}
	for column, state := range taskStates {
		w, ref := taskWorld(t, state)
		before := w.snapshot()
		for op, row := range table {
			for _, who := range []entry.Principal{"a", "b", "o", "k", "m", "p1"} {
				w.state = restored(t, before)
				want := entry.Problem("")
				holder := signers[op] == "a"
				switch {
				case who != signers[op] && (!holder || who != "b"):
					want = entry.UnauthorizedRole
				case who == "b" || holder && state == entry.TaskCreated || holder && state == entry.TaskCancelled: // nobody ever held it
					want = entry.NoStanding
				case strings.Fields(row)[column] != "x":
					want = entry.StateConflict
				}
				err := w.admit(w.sign(w.move(who, ref, op, "b")))
				refusal, _ := errors.AsType[*entry.Refusal](err)
				if !claims(op) && err != nil && want == "" && refusal.Field == "agent" {
					err = w.admit(w.sign(w.move(who, ref, op, "")))
					refusal, _ = errors.AsType[*entry.Refusal](err)
				}
				if problemOf(refusal) != want {
					t.Errorf("%s of %s by %s: %v, want %q", op, state, who, err, want)
				}
			}
		}
	}
}

// TestTaskEpochs refuses what comes with an epoch that is over, or not there yet.
func TestTaskEpochs(t *testing.T) {
	w, ref := taskWorld(t, entry.TaskInProgress)
	old := w.move("a", ref, entry.TaskComplete, "")
	w.fails(ref)
	again := w.move("k", ref, entry.TaskAssign, "b")
	again.Epoch = 1
	w.refuse(w.sign(again), entry.StaleEpoch, "epoch")
	again.Epoch = 3
	w.refuse(w.sign(again), entry.StaleEpoch, "epoch")
	w.does("k", ref, entry.TaskAssign, "b")
	w.does("b", ref, entry.TaskStart)
	w.head("a", old) // comes back
	w.refuse(w.sign(old), entry.StaleEpoch, "epoch")
	old.Epoch = 2
	w.refuse(w.sign(old), entry.NoStanding, "iss")
	w.does("b", ref, entry.TaskComplete)
	w.stands(ref, entry.TaskCompleted, 2, 1, 0)
	w.checkAll()
}

// TestTaskBudget counts retries where they are claimed, and holds a task that has
// spent them until an operator releases it.
func TestTaskBudget(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task") // max_retries is 1
	w.does("k", ref, entry.TaskAssign, "a")
	w.fails(ref)
	w.refuse(w.sign(w.move("o", ref, entry.TaskRelease, "a")), entry.StateConflict, "op")
	w.does("o", ref, entry.TaskReassign, "b")
	w.stands(ref, entry.TaskAssigned, 2, 1, 0)
	w.fails(ref)
	for _, c := range []struct {
		iss entry.Principal
		op  string
	}{{"k", entry.TaskAssign}, {"o", entry.TaskReassign}} {
		w.refuse(w.sign(w.move(c.iss, ref, c.op, "a")), entry.StateConflict, "retry_count")
		resume := w.move(c.iss, ref, c.op, "a")
		resume.RetryCount, resume.ResumeCount = 1, 1
		w.refuse(w.sign(resume), entry.StateConflict, "retry_count")
	}
	uncounted := w.move("k", ref, entry.TaskAssign, "a")
	uncounted.RetryCount = 1
	w.refuse(w.sign(uncounted), entry.StateConflict, "retry_count")
	w.does("o", ref, entry.TaskRelease, "a")
	w.stands(ref, entry.TaskAssigned, 3, 1, 0)
	w.fails(ref)
	w.refuse(w.sign(w.move("k", ref, entry.TaskAssign, "a")), entry.StateConflict, "retry_count")
	w.does("o", ref, entry.TaskCancel)
	w.stands(ref, entry.TaskCancelled, 3, 1, 0)
	never := w.create("never", retries(0))
	w.does("k", never, entry.TaskAssign, "a")
	w.fails(never)
	w.refuse(w.sign(w.move("k", never, entry.TaskAssign, "b")), entry.StateConflict, "retry_count")
	w.checkAll()
}

// TestTaskResumes counts resumes from a checkpoint apart, and no more than two.
func TestTaskResumes(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task", retries(2))
	w.does("k", ref, entry.TaskAssign, "a")
	resume := func() *entry.Task {
		number, _, _ := w.state.findTask(ref)
		b, _ := w.state.moveTask(number, entry.TaskAssign, "a", true)
		b.Reason = "from checkpoint"
		w.head("k", &b)
		return &b
	}
	for range entry.MaxResumes {
		w.fails(ref)
		w.put(resume())
	}
	w.fails(ref)
	w.refuse(w.sign(resume()), entry.StateConflict, "resume_count")
	both := resume()
	both.RetryCount++
	w.refuse(w.sign(both), entry.StateConflict, "retry_count")
	w.does("k", ref, entry.TaskAssign, "b")
	w.stands(ref, entry.TaskAssigned, 4, 1, 2)
	w.checkAll()
}

// TestTaskInterruptions shows that interruption and block cost no retry, however
// often.
func TestTaskInterruptions(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task", retries(0))
	w.does("k", ref, entry.TaskAssign, "a")
	for range 5 {
		w.at += 2 * minuteMS
		w.does("k", ref, entry.TaskInterrupt)
		w.does("k", ref, entry.TaskAssign, "a")
		w.does("a", ref, entry.TaskBlock)
		w.refuse(w.sign(w.move("k", ref, entry.TaskAssign, "a")), entry.StateConflict, "op")
		w.does("o", ref, entry.TaskRelease, "b")
		w.at += 2 * minuteMS
		w.does("k", ref, entry.TaskInterrupt)
		w.does("o", ref, entry.TaskReassign, "a")
	}
	w.stands(ref, entry.TaskAssigned, 16, 0, 0)
	w.checkAll()
}

// TestTaskMembers refuses entries that say what does not follow.
func TestTaskMembers(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(w *world, ref entry.Ref) *entry.Task
		problem entry.Problem
		field   string
	}{
		{"unknown task", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			b.Task = "o#none"
			return b
		}, entry.UnknownSubject, "task"},
		{"unknown agent", func(w *world, ref entry.Ref) *entry.Task { return w.move("k", ref, entry.TaskAssign, "nobody") }, entry.UnknownSubject, "agent"},
		{"no agent", func(w *world, ref entry.Ref) *entry.Task { return w.move("k", ref, entry.TaskAssign, "m") }, entry.UnknownSubject, "agent"},
		{"another workflow", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			b.Wid = "w2"
			return b
		}, entry.StateConflict, "wid"},
		{"from elsewhere", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			b.From = entry.TaskAssigned
			return b
		}, entry.StateConflict, "to"},
		{"to elsewhere", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			b.To = entry.TaskCompleted
			return b
		}, entry.StateConflict, "to"},
		{"more retries", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			retries(9)(b)
			return b
		}, entry.StateConflict, "type"},
		{"another holder", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("a", ref, entry.TaskReview, "")
			b.Agent = "b"
			return b
		}, entry.StateConflict, "agent"},
		{"somebody else's id", func(w *world, _ entry.Ref) *entry.Task {
			b := w.newTask("x")
			b.Task = "a#x"
			return b
		}, entry.StateConflict, "task"},
		{"the same task twice", func(w *world, _ entry.Ref) *entry.Task { return w.newTask("task") }, entry.StateConflict, "task"},
		{"a new task that is claimed", func(w *world, _ entry.Ref) *entry.Task {
			b := w.newTask("x")
			b.Epoch = 1
			return b
		}, entry.StaleEpoch, "epoch"},
		{"a new task that was tried", func(w *world, _ entry.Ref) *entry.Task {
			b := w.newTask("x")
			b.RetryCount = 1
			return b
		}, entry.StateConflict, "retry_count"},
		{"a new task that is done", func(w *world, _ entry.Ref) *entry.Task {
			b := w.newTask("x")
			b.To = entry.TaskCompleted
			return b
		}, entry.StateConflict, "to"},
		{"a new task with a holder", func(w *world, _ entry.Ref) *entry.Task {
			b := w.newTask("x")
			b.Agent = "a"
			return b
		}, entry.StateConflict, "agent"},
		{"a snapshot of what is not there", func(w *world, ref entry.Ref) *entry.Task {
			b := w.move("k", ref, entry.TaskFail, "")
			b.Snapshot = w.shot("a#none")
			return b
		}, entry.UnknownSubject, "snapshot.exec"},
		{"a snapshot of another task", func(w *world, ref entry.Ref) *entry.Task {
			w.put(w.exec("a", "else"))
			b := w.move("k", ref, entry.TaskFail, "")
			b.Snapshot = w.shot("a#else")
			return b
		}, entry.StateConflict, "snapshot.exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ref := taskWorld(t, entry.TaskInProgress)
			w.refuse(w.sign(c.make(w, ref)), c.problem, c.field)
			w.does("a", ref, entry.TaskComplete)
			w.checkAll()
		})
	}
}

// shot returns a snapshot of a failed execution.
func (w *world) shot(exec entry.Ref) *entry.Snapshot {
	agent, _ := exec.Split()
	return &entry.Snapshot{Exec: exec, Agent: agent, Status: "failed", StartedAt: w.at, TakenAt: w.at, Class: "crash", Code: "panic", ContextDigest: someDigest("context")}
}

// TestLeaseLossWaits admits the loss of a lease a term after its last entry, of
// the task or of its work, and not before.
func TestLeaseLossWaits(t *testing.T) {
	for _, op := range []string{entry.TaskFail, entry.TaskInterrupt} {
		w := newWorld(t)
		term := int64(30_000)
		ref := w.create("task", func(b *entry.Task) { b.LeaseMS = &term })
		w.does("k", ref, entry.TaskAssign, "a")
		w.at += term - 1
		w.refuse(w.sign(w.move("k", ref, op, "")), entry.StateConflict, "op")
		w.does("a", ref, entry.TaskStart)
		w.at += term - 1
		w.put(w.work("a", "step", ref, entry.EffectNone))
		w.at += term - 1
		w.refuse(w.sign(w.move("k", ref, op, "")), entry.StateConflict, "op")
		w.put(w.step(w.work("a", "step", ref, entry.EffectNone), entry.Started))
		w.put(w.exec("a", "unrelated"))
		w.at += term
		w.does("k", ref, op)
		w.checkAll()
	}
}

// TestCrashIsToldAtOnce admits a failure before the lease is lost if the agent has
// logged that its work of this claim failed, or was cancelled.
func TestCrashIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task", retries(2))
	w.does("k", ref, entry.TaskAssign, "a")
	w.put(w.work("a", "one", ref, entry.EffectNone))
	told := func(op string, exec entry.Ref) *entry.Entry {
		b := w.move("k", ref, op, "")
		b.Snapshot = w.shot(exec)
		return w.sign(b)
	}
	w.refuse(told(entry.TaskFail, "a#one"), entry.StateConflict, "op")
	w.put(w.step(w.work("a", "one", ref, entry.EffectNone), entry.Failed))
	must(t, w.admit(told(entry.TaskFail, "a#one")))
	w.does("k", ref, entry.TaskAssign, "a")
	w.refuse(told(entry.TaskFail, "a#one"), entry.StateConflict, "op") // that was the claim before
	w.put(w.work("a", "two", ref, entry.EffectNone))
	w.put(w.step(w.work("a", "two", ref, entry.EffectNone), entry.Cancelled))
	must(t, w.admit(told(entry.TaskInterrupt, "a#two")))
	w.stands(ref, entry.TaskInterrupted, 2, 1, 0)
	w.checkAll()
}
