package coord

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// TestViews reads an incident through its life.
func TestViews(t *testing.T) {
	w, id := reported(t)
	plan, ok := w.state.Preview(id, nil, w.at)
	if !ok || plan.Asks != nil || plan.Impact.Members != 3 || len(plan.Review) != 1 || plan.Members[0].Rule != "dependent" {
		t.Fatalf("preview %+v", plan)
	}
	d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	if d.RollbackSet.Head != plan.RollbackSet || *d.Impact != plan.Impact {
		t.Error("a preview of something else")
	}
	var chain []entry.Ref
	for _, step := range w.state.Why(id, "b#note", w.at) {
		chain = append(chain, step.Exec)
	}
	if want := []entry.Ref{"a#make", "b#pay", "b#note"}; !slices.Equal(chain, want) {
		t.Errorf("chain %v, want %v", chain, want)
	}
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	v, _ := w.state.Incident(id, w.at)
	if v.State != entry.IncidentEscalated || v.Fence == nil || v.Proposal == nil || len(v.Proposal.Approve) != 1 || v.Proposal.RollbackSet != plan.RollbackSet {
		t.Errorf("view %+v", v)
	}
	w.next()
	commands := w.state.Commands("b")
	if len(commands) != 1 || commands[0].Members != 1 || commands[0].Released != 1 || commands[0].Changed != commands[0].Decision {
		t.Errorf("commands %+v", commands)
	}
	w.finish(id, entry.Restored)
	inForce, _ := w.state.PlanInForce(id, w.at)
	if len(inForce.Members) != 3 || inForce.Members[2].Result != entry.Restored || !inForce.Members[2].Fenced {
		t.Errorf("plan %+v", inForce)
	}
	w.next()
	h, ok := w.state.History("a", 0, 10, w.at)
	if !ok || h.Rest != 0 || len(h.Signals) != 1 || h.Signals[0].Disposition != entry.Corroborated || len(h.Memberships) != 1 || h.Independent != 1 || h.SelfReported != 0 {
		t.Errorf("history %+v", h)
	}
	x, _ := w.state.Execution("a#make", w.at)
	if !x.Undone || x.FencedBy != id {
		t.Errorf("execution %+v", x)
	}
	if len(w.state.Commands("b")) != 0 {
		t.Error("commands of what is over")
	}
}

// TestPages reads incidents and workflows page by page.
func TestPages(t *testing.T) {
	w := newWorld(t)
	var ids, refs []string
	for i := range 7 {
		x := w.exec("a", fmt.Sprint(i))
		w.put(x)
		ids = append(ids, fmt.Sprint(w.put(w.signal("a", entry.StandingExecutor, x.Ref())).Index))
		refs = append(refs, string(x.Ref()))
	}
	slices.Reverse(ids)
	slices.Reverse(refs)
	var gotIDs, gotRefs []string
	for before := uint64(0); ; {
		page := w.state.Incidents(before, 3, w.at)
		if len(page) == 0 {
			break
		}
		for _, v := range page {
			gotIDs, before = append(gotIDs, fmt.Sprint(v.ID)), v.ID
		}
	}
	for before := uint64(0); ; {
		page, ok := w.state.Workflow("w", before, 3, w.at)
		if !ok || len(page) == 0 {
			break
		}
		for _, v := range page {
			gotRefs, before = append(gotRefs, string(v.Exec)), v.Index
		}
	}
	if !slices.Equal(gotIDs, ids) || !slices.Equal(gotRefs, refs) {
		t.Errorf("incidents %v, executions %v", gotIDs, gotRefs)
	}
	var paged []api.IncidentSignal
	for next, more := uint64(0), true; more; more = next != 0 {
		h, _ := w.state.History("a", next, 2, w.at)
		next, paged = h.Rest, append(paged, h.Signals...)
	}
	if len(paged) != 7 {
		t.Errorf("%d signals in the history", len(paged))
	}
}

// TestFoldsShareWhatIsOld shows that a state and a clone that follows it hold old
// executions once, and that nobody sees the other's changes while
// both go on and snapshots are written.
func TestFoldsShareWhatIsOld(t *testing.T) {
	w := newWorld(t)
	fold, alone := NewState(origin), NewState(origin)
	reader, behind, mu := (*State)(nil), []entry.Registered(nil), sync.Mutex{}
	apply := func(e *entry.Entry) {
		if reader != nil {
			behind = append(behind, entry.Registered{Entry: e, Index: fold.Size(), RegisteredAt: w.at})
		}
		fold.Apply(e, fold.Size(), w.at)
		alone.Apply(e, alone.Size(), w.at)
	}
	for _, e := range w.log {
		apply(e.Entry)
	}
	reader = fold.Clone()
	follow := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range behind {
			reader.Apply(e.Entry, e.Index, e.RegisteredAt)
		}
		behind = behind[:0]
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			frozen, size := reader.Frozen(), reader.Size()
			mu.Unlock()
			if got := restored(t, snapshot(t, frozen)); got.size != size {
				t.Errorf("a snapshot of %d entries at %d", got.size, size)
			}
		}
	})
	put := func(id int, progress entry.Progress, parents ...entry.Ref) {
		x := w.exec("a", fmt.Sprint("x", id), parents...)
		x.Progress = progress
		e, err := entry.New(x)
		must(t, err)
		if apply(e); fold.Size()%100 == 0 {
			follow()
		}
	}
	const block = 1 << 10
	const executions = 20 * block // the list settles what is 16 blocks old
	put(0, entry.Planned)
	for i := 1; i < executions; i++ {
		put(i, entry.Planned, entry.Ref(fmt.Sprint("a#x", i-1)))
	}
	put(2*block+block/2, entry.Cancelled, entry.Ref(fmt.Sprint("a#x", 2*block+block/2-1)))
	follow()
	close(stop)
	reading.Wait()
	if want := snapshot(t, alone); !bytes.Equal(snapshot(t, reader), want) || !bytes.Equal(snapshot(t, fold), want) {
		t.Error("the two states differ from one that is on its own")
	}
	for number, want := range map[uint32]bool{0: true, block: true, 2 * block: false, 3 * block: true, uint32(executions - 1): false} {
		if once := fold.graph.Node(number) == reader.graph.Node(number); once != want {
			t.Errorf("execution %d is there once: %t, want %t", number, once, want)
		}
	}
}

// whoDecides says who may put the plan of an incident in force.
func (w *world) whoDecides(id uint64) string {
	v, _ := w.state.Incident(id, w.at)
	preview, _ := w.state.Preview(id, nil, w.at)
	var inForce *api.Plan
	if plan, ok := w.state.PlanInForce(id, w.at); ok {
		inForce = &plan.Plan
	}
	return words.WhoDecides(&v, &preview.Plan, inForce)
}

// TestPreviewAsksOnlyWhileOpen says why people must decide, until they have.
func TestPreviewAsksOnlyWhileOpen(t *testing.T) {
	w := newWorld(t)
	w.done("b", "mail", entry.EffectIrrevocable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#mail")).Index
	w.next()
	asks := func(want string) {
		t.Helper()
		plan, ok := w.state.Preview(id, nil, w.at)
		v, _ := w.state.Incident(id, w.at)
		if got := w.whoDecides(id); !ok || !strings.HasPrefix(got, want) || (plan.Asks != nil) != (want == "people") {
			t.Errorf("%s: %s, want %s; asks %v", v.State, got, want, plan.Asks)
		}
		if v.Undecided() != (want == "people") || v.State.LeftUndone() != (want == "nothing") {
			t.Errorf("%s: undecided %t, left undone %t", v.State, v.Undecided(), v.State.LeftUndone())
		}
	}
	asks("people")
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.is(id, entry.IncidentAuthorized)
	asks("it is decided")
	w.put(w.outcome("b", id, "b#mail", entry.ResultIrrevocable))
	w.next()
	w.is(id, entry.IncidentFailed)
	asks("nothing")
}

// TestAnswer: an approval is of exactly the plan that is proposed; a refusal is of any.
func TestAnswer(t *testing.T) {
	w, id := reported(t)
	if got := w.whoDecides(id); !strings.HasPrefix(got, "the coordinator") {
		t.Errorf("the coordinator may not decide: %s", got)
	}
	w.decide("k", entry.ActEscalate, id)
	v, _ := w.state.Incident(id, w.at)
	plan, _ := w.state.Preview(id, nil, w.at)
	exp := w.at/1000 + 60
	a, err := v.Answer(&plan.Plan, false, "checked", exp)
	if err != nil || a.Proposal != v.Proposal.Ref || a.Verdict != "approve" || a.Exp != exp {
		t.Fatalf("answer %+v, error %v", a, err)
	}
	wid := a.Wid
	a.Header = w.header("p1")
	a.Wid = wid
	w.put(a)
	other := plan.Plan
	other.RollbackSet.Size++
	if _, err := v.Answer(&other, false, "checked", exp); !errors.Is(err, api.ErrOtherPlan) {
		t.Errorf("approval of another plan: error %v", err)
	}
	if a, err := v.Answer(&other, true, "wrong", exp); err != nil || a.Verdict != "refuse" {
		t.Errorf("refusal %+v, error %v", a, err)
	}
}

// TestFenceObstacle: before anything is decided about an incident, the obstacle is the one
// that every decision meets.
func TestFenceObstacle(t *testing.T) {
	for _, c := range []struct {
		state               entry.IncidentState
		incident, plan, why string
	}{
		{entry.IncidentReported, "", "too many", ""},
		{entry.IncidentReported, "not yet", "", "not yet"},
		{entry.IncidentReported, "not yet", "too many", "too many"},
		{entry.IncidentEscalated, "not yet", "too many", "not yet"},
	} {
		v := api.Incident{State: c.state, NotFenced: c.incident}
		if why := v.FenceObstacle(&api.Plan{NotFenced: c.plan}); why != c.why {
			t.Errorf("%+v: obstacle %q", c, why)
		}
	}
}

// reports checks which incidents report an execution, in the state and in one that was restored.
func (w *world) reports(exec entry.Ref, further int, want ...uint64) {
	w.t.Helper()
	for _, s := range []*State{w.state, restored(w.t, w.snapshot())} {
		all, _ := s.Workflow("w", 0, int(s.graph.Size()), w.at)
		i := slices.IndexFunc(all, func(x ExecutionView) bool { return x.Exec == exec })
		if i < 0 || !slices.Equal(all[i].Reported, want) || all[i].Further != further {
			w.t.Errorf("%s is reported by incidents %v and %d older, want %v and %d", exec, all[i].Reported, all[i].Further, want, further)
		}
	}
}

// TestReported tells the incidents that report an execution: by a signal about it or its task, that
// was not dismissed, also once an older incident has taken the signal up. A signal about a task
// reports no execution that began later.
func TestReported(t *testing.T) {
	w, task := taskWorld(t, entry.TaskInProgress)
	w.put(w.work("a", "x", task, entry.EffectNone))
	w.done("b", "y", entry.EffectCompensable, "a#x")
	w.reports("a#x", 0)
	older := w.put(w.signal("b", entry.StandingExecutor, "b#y")).Index
	w.decide("k", entry.ActAuthorize, older)
	younger := w.put(w.signal("a", entry.StandingExecutor, task)).Index
	w.reports("a#x", 0, younger)
	w.reports("b#y", 0, older)
	w.decide("k", entry.ActEscalate, older)
	w.put(w.answer("p1", older, "approve"))
	w.next()
	w.reports("a#x", 0, younger, older)
	w.done("b", "idle", entry.EffectNone)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#idle")).Index
	w.reports("b#idle", 0, id)
	d := w.order("p3", Order{Incident: id, Act: entry.ActDeny})
	d.Dispositions[0].Disposition = entry.Dismissed
	w.put(d)
	w.reports("b#idle", 0)
	w.compensate(older, "b#y")
	w.put(w.outcome("a", older, "a#x", entry.NotExecuted))
	w.next()
	w.is(older, entry.IncidentRecovered)
	w.put(w.work("a", "later", task, entry.EffectNone))
	w.reports("a#later", 0)
	w.reports("a#x", 0, younger, older)
	for _, x := range w.state.TaskWork(task, 9, w.at) {
		if want := map[entry.Ref][]uint64{"a#x": {younger, older}}[x.Exec]; !slices.Equal(x.Reported, want) {
			t.Errorf("%s of the task is reported by %v, want %v", x.Exec, x.Reported, want)
		}
	}
}

// TestReportedOften lists the newest incidents that report an execution, and counts the others.
func TestReportedOften(t *testing.T) {
	w := newWorld(t)
	w.done("b", "idle", entry.EffectNone)
	var ids []uint64
	for range reportedMax + 2 {
		id := w.put(w.signal("b", entry.StandingExecutor, "b#idle")).Index
		w.put(w.order("p3", Order{Incident: id, Act: entry.ActDeny}))
		ids = append([]uint64{id}, ids...)
		w.reports("b#idle", max(0, len(ids)-reportedMax), ids[:min(len(ids), reportedMax)]...)
		w.at += hourMS
	}
}

// TestTaskWork lists the executions of a task alone, the newest first.
func TestTaskWork(t *testing.T) {
	w, task := taskWorld(t, entry.TaskInProgress)
	for _, id := range []string{"1", "2", "3"} {
		w.put(w.work("a", id, task, entry.EffectNone))
		w.put(w.exec("a", "beside"+id))
	}
	for limit, want := range map[int]string{0: "", 2: "a#3 a#2 ", 3: "a#3 a#2 a#1 ", 9: "a#3 a#2 a#1 "} {
		text := ""
		for _, x := range w.state.TaskWork(task, limit, w.at) {
			text += string(x.Exec) + " "
		}
		if text != want {
			t.Errorf("%d executions: %s, want %s", limit, text, want)
		}
	}
	if work := w.state.TaskWork("o#none", 9, w.at); work != nil {
		t.Errorf("work of no task: %+v", work)
	}
}
