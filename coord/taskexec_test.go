package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestWorkBelongsToWhoHoldsTheTask refuses executions for a task by others, by who
// held it once, and what an old claim would begin to do now; what it did becomes
// final.
func TestWorkBelongsToWhoHoldsTheTask(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task", retries(3))
	w.refuse(w.sign(w.work("a", "x", "o#none", entry.EffectNone)), entry.UnknownSubject, "task")
	w.refuse(w.sign(w.work("a", "x", ref, entry.EffectNone)), entry.NoStanding, "task")
	w.does("k", ref, entry.TaskAssign, "a")
	w.refuse(w.sign(w.work("b", "x", ref, entry.EffectNone)), entry.NoStanding, "task")
	elsewhere := w.work("a", "x", ref, entry.EffectNone)
	elsewhere.Wid = "w2"
	w.refuse(w.sign(elsewhere), entry.StateConflict, "wid")
	planned, flying := w.work("a", "planned", ref, entry.EffectReversible), w.work("a", "flying", ref, entry.EffectReversible)
	w.put(planned)
	w.put(flying)
	w.put(w.step(flying, entry.Started))
	other := w.create("other")
	w.does("k", other, entry.TaskAssign, "a")
	moved := w.step(planned, entry.Started)
	moved.Task = other
	w.refuse(w.sign(moved), entry.StateConflict, "task")
	w.put(w.exec("a", "alone"))
	joins := w.step(w.exec("a", "alone"), entry.Started)
	joins.Task = ref
	w.refuse(w.sign(joins), entry.StateConflict, "task")
	w.fails(ref)
	w.refuse(w.sign(w.work("a", "late", ref, entry.EffectNone)), entry.StaleEpoch, "task")
	w.refuse(w.sign(w.step(planned, entry.Started)), entry.StaleEpoch, "task")
	silent := w.step(flying, entry.Confirmed)
	silent.Task = ""
	w.put(silent)
	w.does("k", ref, entry.TaskAssign, "b")
	w.refuse(w.sign(w.work("a", "late", ref, entry.EffectNone)), entry.StaleEpoch, "task")
	w.fails(ref)
	w.does("k", ref, entry.TaskAssign, "a") // its own old claim gives it nothing
	w.refuse(w.sign(w.step(planned, entry.Started)), entry.StaleEpoch, "task")
	w.put(w.step(planned, entry.Cancelled))
	w.put(w.work("a", "late", ref, entry.EffectNone))
	w.checkAll()
}

// TestZombieOfItsOwnTask: an agent that holds its task again, while a process of
// its earlier claim goes on, is not spoken for by that process: what depends on
// an execution which the earlier claim never ended is refused. What it ended may
// be depended on, and so may what others left.
func TestZombieOfItsOwnTask(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task", retries(3))
	w.does("k", ref, entry.TaskAssign, "a")
	run, done, planned := w.work("a", "run", ref, entry.EffectNone), w.work("a", "done", ref, entry.EffectNone), w.work("a", "planned", ref, entry.EffectNone)
	for _, x := range []*entry.Execution{run, done} {
		x.Progress = entry.Started
		w.put(x)
	}
	w.put(planned)
	w.put(w.step(done, entry.Confirmed))
	w.fails(ref)
	w.does("k", ref, entry.TaskAssign, "b")
	other := w.work("b", "other", ref, entry.EffectNone)
	other.Progress = entry.Started
	w.put(other)
	w.fails(ref)
	w.does("k", ref, entry.TaskAssign, "a")
	child := func(id string, parents ...string) *entry.Execution {
		x := w.work("a", id, ref, entry.EffectIrrevocable)
		for _, parent := range parents {
			agent := entry.Principal("a")
			if parent == "other" {
				agent = "b"
			}
			x.Parents = append(x.Parents, entry.Parent{Exec: entry.NewRef(agent, parent), Dep: entry.Soft})
		}
		return x
	}
	w.refuse(w.sign(child("late", "run")), entry.StaleEpoch, "parents[0].exec")
	w.refuse(w.sign(child("late", "done", "planned")), entry.StaleEpoch, "parents[1].exec")
	w.put(child("after", "done", "other"))
	w.put(w.step(run, entry.Failed)) // the log tells what happened
	w.put(child("late", "run"))
	own := w.work("a", "run-2", ref, entry.EffectNone)
	own.Progress = entry.Started
	w.put(own)
	w.put(child("step", "run-2"))
	w.checkAll()
}

// TestEffectGate holds a task back while an execution of it may have had effects
// that nobody has reconciled, and opens when somebody has.
func TestEffectGate(t *testing.T) {
	task := func(w *world) entry.Ref { return w.create("task", retries(3)) }
	signal := func(w *world, subject entry.Ref, effects entry.Effects) *entry.Signal {
		s := w.signal("a", entry.StandingExecutor, subject)
		s.Effects = effects
		return s
	}
	for _, c := range []struct {
		name      string
		happens   func(w *world, ref entry.Ref)
		closed    bool
		reconcile func(w *world, ref entry.Ref) // nil: nothing can
	}{
		{"without effects", func(w *world, ref entry.Ref) { w.put(w.work("a", "x", ref, entry.EffectNone)) }, false, nil},
		{"planned", func(w *world, ref entry.Ref) { w.put(w.work("a", "x", ref, entry.EffectIrrevocable)) }, false, nil},
		{"started, then known", func(w *world, ref entry.Ref) {
			x := w.work("a", "x", ref, entry.EffectIrrevocable)
			w.put(x)
			w.put(w.step(x, entry.Started))
		}, true, func(w *world, ref entry.Ref) {
			w.put(w.step(w.work("a", "x", ref, entry.EffectIrrevocable), entry.Confirmed))
		}},
		{"started for ever, then released", func(w *world, ref entry.Ref) {
			x := w.work("a", "x", ref, entry.EffectIrrevocable)
			w.put(x)
			w.put(w.step(x, entry.Started))
		}, true, func(w *world, ref entry.Ref) {
			w.does("o", ref, entry.TaskRelease, "b")
			w.stands(ref, entry.TaskAssigned, 2, 0, 0)
			w.fails(ref)
		}},
		{"failed and signaled, then restored", func(w *world, ref entry.Ref) {
			x := w.work("a", "x", ref, entry.EffectReversible)
			w.put(w.checkpoint("a", "cp", ""))
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Failed))
			w.put(signal(w, "a#x", entry.EffectsPartial))
		}, true, func(w *world, _ entry.Ref) {
			id := w.state.incidents[0].opened
			w.decide("k", entry.ActEscalate, id)
			w.put(w.answer("p1", id, "approve"))
			w.next()
			w.put(w.outcome("a", id, "a#x", entry.Restored))
			w.next()
			w.is(id, entry.IncidentRecovered)
		}},
		{"failed, dismissed, then none", func(w *world, ref entry.Ref) {
			x := w.work("a", "x", ref, entry.EffectReversible)
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Failed))
			w.put(signal(w, ref, entry.EffectsUnknown))
			w.decide("p1", entry.ActDeny, w.state.incidents[0].opened)
		}, true, func(w *world, _ entry.Ref) {
			w.at += 2 * hourMS
			w.put(signal(w, "a#x", entry.EffectsNone))
			w.decide("p1", entry.ActDeny, w.state.incidents[1].opened)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ref := task(w)
			w.does("k", ref, entry.TaskAssign, "a")
			c.happens(w, ref)
			w.fails(ref)
			again := func() *entry.Entry { return w.sign(w.move("o", ref, entry.TaskReassign, "b")) }
			if c.closed {
				w.refuse(again(), entry.StateConflict, "op")
				if v, _ := w.state.Task(ref); v.Gate == "" {
					t.Error("the view says nothing of the gate")
				}
				c.reconcile(w, ref)
			}
			must(t, w.admit(again()))
			w.checkAll()
		})
	}
}

// TestSignalAboutTask takes all executions of a task as seeds; who holds it, and
// who stands to one of them, may speak.
func TestSignalAboutTask(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task")
	w.does("k", ref, entry.TaskAssign, "a")
	w.refuse(w.sign(w.signal("a", entry.StandingExecutor, ref)), entry.StateConflict, "subject") // nothing to undo
	for _, id := range []string{"one", "two"} {
		x := w.work("a", id, ref, entry.EffectCompensable)
		w.put(x)
		w.put(w.step(x, entry.Started))
		w.put(w.step(x, entry.Confirmed))
	}
	w.done("b", "use", entry.EffectNone, "a#two")
	w.refuse(w.sign(w.signal("c", entry.StandingDownstream, ref)), entry.NoStanding, "standing")
	w.refuse(w.sign(w.signal("b", entry.StandingExecutor, ref)), entry.NoStanding, "standing")
	ranged := w.signal("a", entry.StandingExecutor, ref)
	ranged.Since = "a#one"
	w.refuse(w.sign(ranged), entry.StateConflict, "since")
	other := w.signal("a", entry.StandingExecutor, ref)
	other.Wid = "w2"
	w.refuse(w.sign(other), entry.StateConflict, "wid")
	id := w.put(w.signal("b", entry.StandingDownstream, ref)).Index
	w.decide("k", entry.ActContain, id)
	if held := w.incident(id).hold.members; len(held) != 2 { // the edge from a#two to b#use
		t.Errorf("%d executions held, want the two ends of the edge", len(held))
	}
	joined := w.put(w.signal("a", entry.StandingExecutor, "a#one")).Index
	if sig, _ := w.state.findSignal(joined); w.state.incidents[sig.incident].opened != id {
		t.Error("a signal about an execution of the task opens another incident")
	}
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	members := w.members(id)
	if len(members) != 3 || members["a#one"] != entry.MethodCompensate || members["a#two"] != entry.MethodCompensate || members["b#use"] != entry.MethodNone {
		t.Fatalf("members %v", members)
	}
	w.compensate(id, "a#two")
	w.compensate(id, "a#one")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.refuse(w.sign(w.signal("a", entry.StandingExecutor, ref)), entry.StateConflict, "subject") // all is undone
	w.checkAll()
}

// TestSpentTaskIsACause lets the coordinator undo the work of a task by itself
// once it has FAILED with its retries spent, and not before (INC-2). What its
// holder says of the whole task is for people.
func TestSpentTaskIsACause(t *testing.T) {
	for _, subject := range []entry.Ref{"o#task", "a#x"} {
		for _, spent := range []bool{false, true} {
			w := newWorld(t)
			ref := w.create("task", retries(1))
			w.does("k", ref, entry.TaskAssign, "a")
			if spent {
				w.fails(ref)
				w.does("k", ref, entry.TaskAssign, "a")
			}
			x := w.work("a", "x", ref, entry.EffectCompensable)
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Failed))
			w.fails(ref)
			id := w.put(w.signal("a", entry.StandingExecutor, subject)).Index
			w.next()
			want := entry.IncidentEscalated
			if spent && subject == "a#x" {
				want = entry.IncidentAuthorized
			}
			w.is(id, want)
			w.checkAll()
		}
	}
}

// TestAuditFindsTasks gives an audit logs whose operator admitted task entries
// that should not be there, each validly signed.
func TestAuditFindsTasks(t *testing.T) {
	for _, c := range []struct {
		name    string
		lie     func(w *world, ref entry.Ref) entry.Body
		problem entry.Problem
	}{
		{"a lease lost too early", func(w *world, ref entry.Ref) entry.Body {
			w.does("a", ref, entry.TaskStart)
			return w.move("k", ref, entry.TaskFail, "")
		}, entry.StateConflict},
		{"a retry too many", func(w *world, ref entry.Ref) entry.Body {
			w.fails(ref)
			w.does("k", ref, entry.TaskAssign, "b")
			w.fails(ref)
			return w.move("k", ref, entry.TaskAssign, "a")
		}, entry.StateConflict},
		{"a retry that is not counted", func(w *world, ref entry.Ref) entry.Body {
			w.fails(ref)
			b := w.move("k", ref, entry.TaskAssign, "b")
			b.RetryCount = 0
			return b
		}, entry.StateConflict},
		{"an epoch twice", func(w *world, ref entry.Ref) entry.Body {
			w.fails(ref)
			b := w.move("k", ref, entry.TaskAssign, "b")
			b.Epoch = 1
			return b
		}, entry.StaleEpoch},
		{"a completion by another", func(w *world, ref entry.Ref) entry.Body {
			w.does("a", ref, entry.TaskStart)
			return w.move("b", ref, entry.TaskComplete, "")
		}, entry.NoStanding},
		{"a zombie's work", func(w *world, ref entry.Ref) entry.Body {
			w.fails(ref)
			return w.work("a", "late", ref, entry.EffectNone)
		}, entry.StaleEpoch},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ref := w.create("task")
			w.does("k", ref, entry.TaskAssign, "a")
			e := w.sign(c.lie(w, ref))
			size := w.state.Size()
			log := slices.Concat(w.log, []entry.Registered{{Entry: e, Index: size, RegisteredAt: w.at}})
			right, found := AuditLog(t, origin, log, 0)
			if found == nil || right != size || found.Refusal.Problem != c.problem {
				t.Fatalf("audit: %+v, want %s at %d", found, c.problem, size)
			}
		})
	}
}

// TestANewIncidentOfATaskNamesTheNewest has two executions of a task roll back, one
// after the other, in both orders: who then signals the task names the incident
// that was opened last.
func TestANewIncidentOfATaskNamesTheNewest(t *testing.T) {
	for _, order := range [][]entry.Ref{{"a#x", "a#y"}, {"a#y", "a#x"}} {
		w := newWorld(t)
		ref := w.create("task")
		w.does("k", ref, entry.TaskAssign, "a")
		for _, id := range []string{"x", "y"} {
			x := w.work("a", id, ref, entry.EffectCompensable)
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Confirmed))
		}
		var opened []entry.LogRef
		for _, subject := range order {
			at := w.put(w.signal("a", entry.StandingExecutor, subject))
			w.decide("k", entry.ActAuthorize, at.Index)
			w.put(w.outcome("a", at.Index, subject, entry.ResultFailed))
			w.next()
			w.is(at.Index, entry.IncidentFailed)
			opened = append(opened, at)
		}
		s := w.signal("o", entry.StandingOperator, ref)
		s.Supersedes = &opened[0]
		w.refuse(w.sign(s), entry.UnknownSubject, "supersedes")
		s.Supersedes = &opened[1]
		w.put(s)
		w.checkAll()
	}
}
