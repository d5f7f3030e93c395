package coord

import (
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestMergesAreBounded opens more incidents upstream of a plan in force than one
// amend takes up: the oldest are merged first, the next amend takes the others.
func TestMergesAreBounded(t *testing.T) {
	const rivals = mergesMax + 1
	w := newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.Members = 1000
	w.put(p)
	var ups []entry.Ref
	for i := range rivals {
		up := w.exec("a", fmt.Sprint("up", i))
		up.Effect = entry.EffectCompensable
		up.IdempotencyKey = someDigest(up.Exec)
		w.put(up)
		w.put(w.step(up, entry.Started))
		w.put(w.step(up, entry.Confirmed))
		ups = append(ups, up.Ref())
	}
	w.done("b", "down", entry.EffectCompensable, ups...)
	older := w.put(w.signal("b", entry.StandingExecutor, "b#down")).Index
	w.decide("k", entry.ActAuthorize, older)
	var ids []uint64
	for _, up := range ups {
		ids = append(ids, w.put(w.signal("a", entry.StandingExecutor, up)).Index)
	}
	w.next()
	if got := len(w.incident(older).signals); got != 1+mergesMax {
		t.Fatalf("%d signals after the first amend, want %d", got, 1+mergesMax)
	}
	w.is(ids[rivals-1], entry.IncidentReported)
	if w.incident(ids[rivals-1]).mergedInto != 0 || w.incident(ids[rivals-2]).mergedInto != older {
		t.Fatal("not the oldest are merged")
	}
	w.next()
	if got := len(w.members(older)); got != rivals+1 {
		t.Fatalf("%d members after the second amend, want %d", got, rivals+1)
	}
	w.next()
	for _, id := range ids {
		w.is(id, entry.IncidentDismissed)
	}
	w.checkAll()
}

// TestAmendAmongMany amends an incident while thousands of others are open: it
// costs about what it does alone, not a walk for each of them.
func TestAmendAmongMany(t *testing.T) {
	many := budget.Budget{Short: 500, Usual: 3000}.Now()
	w := newWorld(t)
	w.done("b", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "b#1")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	w.decide("k", entry.ActAuthorize, id)
	for i := range many {
		x := w.step(w.exec("a", fmt.Sprint(i)), entry.Confirmed)
		w.apply(x)
		w.apply(w.signal("a", entry.StandingExecutor, x.Ref()))
	}
	younger := w.put(w.signal("b", entry.StandingExecutor, "b#1")).Index
	_, inc, _ := w.state.findIncident(id)
	var rivals []mergeCandidate
	for _, number := range w.state.openIncidents() {
		if o := w.state.incidents[number]; o != inc {
			rivals = append(rivals, mergeCandidate{number, o.signals})
		}
	}
	elsewhere := rivals[:many]
	if allocations := testing.AllocsPerRun(3, func() { w.state.overlapping(inc.current, elsewhere, w.at, mergesMax) }); allocations > 100 {
		t.Errorf("%d incidents elsewhere cost %g allocations", many, allocations)
	}
	if met := w.state.overlapping(inc.current, rivals, w.at, mergesMax); len(met) != 1 || w.state.incidents[met[0].number].opened != younger {
		t.Fatalf("meets %v", met)
	}
	w.decide("k", entry.ActAmend, id)
	if got := w.members(id); len(got) != 2 || w.incident(younger).mergedInto != id {
		t.Fatalf("members %v", got)
	}
}

// TestLateApprovalOfWhatHasChanged has people approve an amend after its answer
// was due, and a member end meanwhile, while an incident of a lower number meets
// the plan in force: what the coordinator then writes about it is one proposal,
// by the approved one, and not an amend that carries out what nobody approved.
func TestLateApprovalOfWhatHasChanged(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	ends := w.planned("c", "3", entry.EffectCompensable, "a#1")
	lower := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	inForce := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	w.decide("k", entry.ActAuthorize, inForce)
	w.decide("k", entry.ActEscalate, inForce)
	w.at += w.state.policyFor(w.incident(inForce)).windows.AnswerMS - minuteMS
	w.put(w.answer("p1", inForce, "approve"))
	w.put(w.step(ends, entry.Cancelled))
	w.at += 2 * minuteMS
	todo, _ := w.state.Next(w.at)
	if d, ok := todo[0].(*entry.Decision); len(todo) != 1 || !ok || d.Incident != inForce || d.Act != entry.ActEscalate {
		t.Fatalf("the coordinator would write %d entries, first %+v", len(todo), todo[0])
	}
	if written := w.next(); len(written) != 1 {
		t.Fatalf("%d entries are taken", len(written))
	}
	w.put(w.answer("p1", inForce, "approve"))
	w.next()
	w.next()
	w.is(lower, entry.IncidentDismissed)
	if got := len(w.members(inForce)); got != 3 {
		t.Errorf("%d members, want 3", got)
	}
	w.checkAll()
}

// TestMergedTask signals a task again once an older incident has taken up the first signal: the
// second one joins the older incident, in the state that the log led to and in one that was
// restored.
func TestMergedTask(t *testing.T) {
	w, task := taskWorld(t, entry.TaskInProgress)
	w.put(w.work("a", "x", task, entry.EffectNone))
	w.done("b", "y", entry.EffectCompensable, "a#x")
	older := w.put(w.signal("b", entry.StandingExecutor, "b#y")).Index
	w.decide("k", entry.ActAuthorize, older)
	younger := w.put(w.signal("a", entry.StandingExecutor, task)).Index
	w.decide("k", entry.ActEscalate, older)
	w.put(w.answer("p1", older, "approve"))
	w.next()
	if got := w.incident(younger).mergedInto; got != older {
		t.Fatalf("merged into %d, want %d", got, older)
	}
	w.at += hourMS // a is heard about its own work again
	for _, s := range []*State{w.state, restored(t, w.snapshot())} {
		if number, joins := s.joins(s.mustSubject(task)); !joins || s.incidents[number].opened != older {
			t.Errorf("a signal about %s joins an incident: %v, %d", task, joins, number)
		}
	}
	again := w.put(w.signal("a", entry.StandingExecutor, task)).Index
	if id, _ := w.state.IncidentOf(again); id != older {
		t.Errorf("the second signal is of incident %d, want %d", id, older)
	}
	w.checkAll()
}

// TestDismissedMergeHoldsTask has people approve an amend that takes up a signal about an execution
// of a task, and dismisses the signal. The task is held until the incident is closed (TSK-1), in
// the state that the log led to and in one that was restored.
func TestDismissedMergeHoldsTask(t *testing.T) {
	w, task := taskWorld(t, entry.TaskInProgress)
	w.put(w.work("a", "x", task, entry.EffectNone))
	w.done("b", "y", entry.EffectCompensable, "a#x")
	older := w.put(w.signal("b", entry.StandingExecutor, "b#y")).Index
	w.decide("k", entry.ActAuthorize, older)
	younger := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
	w.put(w.order("k", Order{Incident: older, Act: entry.ActEscalate, Dismissed: []entry.Dismissal{{Index: younger, Reason: "it did no harm"}}}))
	w.put(w.answer("p1", older, "approve"))
	w.next()
	w.next()
	if w.is(younger, entry.IncidentDismissed); w.incident(younger).mergedInto != older {
		t.Fatalf("merged into %d, want %d", w.incident(younger).mergedInto, older)
	}
	if got := w.members(older); len(got) != 1 {
		t.Fatalf("members %v, want b#y alone", got)
	}
	w.fails(task)
	gates := func(want string) {
		t.Helper()
		for name, s := range map[string]*State{"running": w.state, "restored": restored(t, w.snapshot())} {
			if v, _ := s.Task(task); v.Gate != want {
				t.Errorf("%s: the task is held up by %q, want %q", name, v.Gate, want)
			}
		}
	}
	gates(fmt.Sprintf("a#x is part of incident %d, which is AUTHORIZED", older))
	w.refuse(w.sign(w.move("k", task, entry.TaskAssign, "a")), entry.StateConflict, "op")
	w.checkAll()
	w.compensate(older, "b#y")
	w.next()
	w.is(older, entry.IncidentRecovered)
	gates("")
	w.does("k", task, entry.TaskAssign, "a")
	w.checkAll()
}
