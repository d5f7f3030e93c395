package coord

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// task does something about a task, often something wrong.
func (g generator) task() {
	ref := entry.NewRef("o", "t"+strconv.Itoa(rapid.IntRange(0, 3).Draw(g.T, "task")))
	_, t, known := g.w.state.findTask(ref)
	if !known {
		_, id := ref.Split()
		b := g.w.newTask(id)
		b.Wid, b.Type = g.wid(), pick(g, "type", "", "cook")
		retries(pick[int64](g, "retries", 0, 1, 3))(b)
		g.try(b)
		return
	}
	switch pick(g, "about the task", 'm', 'm', 'm', 'm', 'm', 'w', 'w', 'w', 'c', 's') {
	case 'm':
		g.moveTask(ref, t)
	case 'w':
		g.workOn(ref, t)
	case 'c':
		iss := t.Agent
		if iss == "" || g.chance("foreign", 4) {
			iss = g.agent()
		}
		c := g.w.checkpoint(iss, entry.CheckpointName(ref)+strconv.Itoa(len(g.w.log)), "")
		c.Wid = entry.WorkflowID(g.w.state.workflows.Text(t.workflow))
		if g.chance("expires", 3) {
			c.ExpiresAt = g.w.at + minuteMS
		}
		g.try(c)
	case 's':
		s := g.w.signal(t.Agent, entry.StandingExecutor, ref)
		if s.Iss == "" || g.chance("another signaler", 3) {
			s = g.w.signal("m", entry.StandingMonitor, ref)
		}
		s.Wid = entry.WorkflowID(g.w.state.workflows.Text(t.workflow))
		s.Effects = pick(g, "effects", entry.EffectsNone, entry.EffectsPartial, entry.EffectsComplete)
		if g.chance("evidence", 2) {
			s.Evidence = []entry.Evidence{{Digest: someDigest("evidence")}}
		}
		g.nameBeforeTask(s, ref)
		g.try(s)
	}
}

func (g generator) nameBeforeTask(s *entry.Signal, ref entry.Ref) {
	number, _, _ := g.w.state.findTask(ref)
	if before, ok := g.w.state.recordedOf(taskBit | number); ok {
		at := g.w.state.logRef(before.opened)
		s.Supersedes = &at
	}
}

func (g generator) moveTask(ref entry.Ref, t *task) {
	ops := []string{entry.TaskAssign, entry.TaskReassign, entry.TaskRelease, entry.TaskCancel, entry.TaskFail, entry.TaskInterrupt,
		entry.TaskStart, entry.TaskReview, entry.TaskComplete, entry.TaskBlock}
	if !g.chance("not in the table", 4) {
		ops = slices.DeleteFunc(ops, func(op string) bool { _, listed := t.Move(op, "", false); return !listed })
	}
	if t.State.Held() && !g.chance("not its holder", 3) {
		ops = slices.DeleteFunc(ops, func(op string) bool { return !ofHolder(op) || op == entry.TaskBlock })
	}
	if len(ops) == 0 {
		return
	}
	op := pick(g, "op", ops...)
	if op == entry.TaskCancel && !g.chance("really cancel", 6) {
		return
	}
	iss := map[string]entry.Principal{entry.TaskAssign: "k", entry.TaskFail: "k", entry.TaskInterrupt: "k",
		entry.TaskReassign: "o", entry.TaskRelease: "o", entry.TaskCancel: "o"}[op]
	if iss == "" {
		if iss = t.Agent; iss == "" || g.chance("foreign", 6) {
			iss = g.agent()
		}
	}
	agent := entry.Principal("")
	if claims(op) {
		agent = g.agent()
	}
	b := g.w.move(iss, ref, op, agent)
	b.Wid = entry.WorkflowID(g.w.state.workflows.Text(t.workflow))
	switch {
	case g.chance("old epoch", 8):
		b.Epoch = max(0, b.Epoch-1)
	case b.To == entry.TaskAssigned && b.From == entry.TaskFailed && op != entry.TaskRelease && g.chance("resume", 2):
		b.RetryCount, b.ResumeCount = max(0, b.RetryCount-1), b.ResumeCount+1
	case (op == entry.TaskFail || op == entry.TaskInterrupt) && len(t.execs) > 0 && g.chance("snapshot", 2):
		b.Snapshot = g.w.shot(g.w.state.refOf(t.execs[len(t.execs)-1]))
		b.Snapshot.Class, b.Snapshot.Code = pick(g, "class", "crash", "transient", "safety"), pick(g, "code", "timeout", "panic")
	case (op == entry.TaskFail || op == entry.TaskInterrupt) && g.chance("lost", 2):
		g.w.at += t.leaseMS
		h := g.w.header(iss)
		b.Iat = h.Iat
	}
	g.try(b)
}

// workOn registers an execution for a task, or takes one further.
func (g generator) workOn(ref entry.Ref, t *task) {
	if len(t.execs) > 0 && g.chance("further", 2) {
		exec := g.w.state.refOf(t.execs[rapid.IntRange(0, len(t.execs)-1).Draw(g.T, "exec")])
		g.try(g.w.step(g.w.first(exec), pick(g, "progress", steps[1:]...)))
		return
	}
	iss := t.Agent
	if iss == "" || g.chance("foreign", 6) {
		iss = g.agent()
	}
	x := g.w.work(iss, "w"+strconv.Itoa(len(g.w.log)), ref, pick(g, "effect", effects...))
	x.Wid = entry.WorkflowID(g.w.state.workflows.Text(t.workflow))
	g.try(x)
}

// checkTasks recounts, from the log alone, what TSK-1 says of claims: one, and the
// retries, resumes, and re-assignments after interruption, block or release.
func (w *world) checkTasks() {
	w.t.Helper()
	type count struct{ claims, retries, resumes, others int64 }
	counts, over := map[entry.Ref]count{}, map[entry.Ref]bool{}
	all, _ := every[*entry.Task](w)
	before := map[entry.Ref]*entry.Task{}
	for _, b := range all {
		c := counts[b.Task]
		if old := before[b.Task]; b.To == entry.TaskAssigned {
			c.claims++
			c.retries += b.RetryCount - old.RetryCount
			c.resumes += b.ResumeCount - old.ResumeCount
			if c.claims > 1 && (old.Op == entry.TaskInterrupt || old.Op == entry.TaskBlock || b.Op == entry.TaskRelease) {
				c.others++
			}
			if b.Epoch != c.claims {
				w.t.Fatalf("%s: claim %d at epoch %d", b.Task, c.claims, b.Epoch)
			}
		}
		if over[b.Task] {
			w.t.Fatalf("%s goes on after its end", b.Task)
		}
		over[b.Task] = b.To.Over()
		counts[b.Task], before[b.Task] = c, b
	}
	for ref, c := range counts {
		_, t, _ := w.state.findTask(ref)
		if c.claims > 0 && c.claims != 1+c.retries+c.resumes+c.others || t.RetryCount != c.retries || t.ResumeCount != c.resumes ||
			c.retries > t.maxRetries || c.resumes > entry.MaxResumes {
			w.t.Fatalf("%s: %+v, it stands %+v of %d", ref, c, t.TaskStanding, t.maxRetries)
		}
	}
}

// TestRandomTasks drives tasks, work on them, signals and incidents at random, most
// of it refused. A refusal leaves no trace, the claims add up at any time, and
// every way to the state gives the same bytes.
func TestRandomTasks(t *testing.T) {
	states, incidents := map[entry.TaskState]int{}, map[entry.IncidentState]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		w.able("cook", "x", "y")
		g, agents := generator{r, w}, w.bundles(map[string]int{})
		for range rapid.IntRange(20, 100).Draw(r, "actions") {
			if g.chance("resume state", 12) {
				w.state = restored(t, w.snapshot())
			}
			switch pick(g, "kind of action", 't', 't', 't', 't', 'n', 'f', 'w') {
			case 't':
				g.task()
			case 'n':
				g.next()
			case 'f':
				g.finish()
			case 'w':
				w.at += pick[int64](g, "wait", 1000, minuteMS, 2*minuteMS, 2*hourMS)
			}
			w.checkTasks()
			w.checkIncidents()
			w.checkRoute()
			for i := range w.state.tasks.list { // the router soon gives on what is interrupted
				states[w.state.tasks.list[i].State]++
			}
		}
		w.checkAll()
		agents.check()
		for _, inc := range w.state.incidents {
			incidents[inc.state]++
		}
	})
	t.Logf("tasks: %v, incidents: %v", states, incidents)
	for _, state := range taskStates {
		if states[state] == 0 {
			t.Errorf("no task is ever %s: the streams are too simple", state)
		}
	}
}
