package coord

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestViews reads an incident through its life.
func TestViews(t *testing.T) {
	w, id := reported(t)
	plan, ok := w.state.Preview(id, nil, w.at)
	if !ok || plan.Refusal != nil || plan.Blast.Members != 3 || len(plan.Review) != 1 || plan.Members[0].Rule != "dependent" {
		t.Fatalf("preview %+v", plan)
	}
	d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	if d.Scope.Head != plan.Scope || *d.Blast != plan.Blast {
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
	if v.State != Escalated || v.Fence == nil || v.Proposal == nil || len(v.Proposal.Approve) != 1 || v.Proposal.Scope != plan.Scope {
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
	h, next, ok := w.state.History("a", 0, 10)
	if !ok || next != 0 || len(h.Signals) != 1 || h.Signals[0].Verdict.Disposition != entry.Corroborated || len(h.Memberships) != 1 || h.Independent != 1 || h.SelfReported != 0 {
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
			gotRefs, before = append(gotRefs, string(v.Ref)), v.Index
		}
	}
	if !slices.Equal(gotIDs, ids) || !slices.Equal(gotRefs, refs) {
		t.Errorf("incidents %v, executions %v", gotIDs, gotRefs)
	}
	var paged []SignalView
	for next, more := uint64(0), true; more; more = next != 0 {
		var h History
		h, next, _ = w.state.History("a", next, 2)
		paged = append(paged, h.Signals...)
	}
	if len(paged) != 7 {
		t.Errorf("%d signals in the history", len(paged))
	}
}

// TestReadersFollow shows that readers see what is committed, however long
// nobody read, and nothing else.
func TestReadersFollow(t *testing.T) {
	w := newWorld(t)
	c := New(origin, nil)
	fold := c.NewFold()
	for _, e := range w.log {
		fold.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	c.Committed(fold.Size())
	e, err := entry.New(w.exec("a", "x"))
	must(t, err)
	for range 3 * behindMax / 2 {
		fold.Apply(e, fold.Size(), w.at) // the same planned execution: only the size grows
		c.Committed(fold.Size())
	}
	committed := snapshot(t, fold)
	fold.Apply(e, fold.Size(), w.at)
	c.Read(func(s *State) {
		if !bytes.Equal(snapshot(t, s), committed) {
			t.Error("readers see another state than the committed one")
		}
	})
	frozen, size := c.Frozen()
	c.Committed(fold.Size())
	c.Read(func(s *State) {
		if s.size != size+1 {
			t.Errorf("readers see %d entries, want %d", s.size, size+1)
		}
	})
	if !bytes.Equal(snapshot(t, frozen), committed) {
		t.Error("what is frozen changes with what is committed")
	}
}

// TestFoldsShareWhatIsOld shows that the state that admits and the one that is
// read hold old executions once, and that nobody sees the other's changes while
// both go on and snapshots are written.
func TestFoldsShareWhatIsOld(t *testing.T) {
	w := newWorld(t)
	c := New(origin, nil)
	fold, alone := c.NewFold(), c.NewFold()
	apply := func(e *entry.Entry) {
		fold.Apply(e, fold.Size(), w.at)
		alone.Apply(e, alone.Size(), w.at)
	}
	for _, e := range w.log {
		apply(e.Entry)
	}
	c.Committed(fold.Size())
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			frozen, size := c.Frozen()
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
			c.Committed(fold.Size())
		}
	}
	const block = 1 << 10
	const executions = 20 * block // the list settles what is 16 blocks old
	put(0, entry.Planned)
	for i := 1; i < executions; i++ {
		put(i, entry.Planned, entry.Ref(fmt.Sprint("a#x", i-1)))
	}
	put(2*block+block/2, entry.Cancelled, entry.Ref(fmt.Sprint("a#x", 2*block+block/2-1)))
	c.Committed(fold.Size())
	close(stop)
	reading.Wait()
	c.Read(func(s *State) {
		if want := snapshot(t, alone); !bytes.Equal(snapshot(t, s), want) || !bytes.Equal(snapshot(t, fold), want) {
			t.Error("the two states differ from one that is on its own")
		}
		for number, want := range map[uint32]bool{0: true, block: true, 2 * block: false, 3 * block: true, uint32(executions - 1): false} {
			if once := fold.graph.Node(number) == s.graph.Node(number); once != want {
				t.Errorf("execution %d is there once: %t, want %t", number, once, want)
			}
		}
	})
}

// TestPreviewAsksOnlyWhileOpen says why people must decide, until they have.
func TestPreviewAsksOnlyWhileOpen(t *testing.T) {
	w := newWorld(t)
	w.done("b", "mail", entry.EffectIrrevocable)
	id := w.put(w.signal("b", entry.StandingExecutor, "b#mail")).Index
	w.next()
	asks := func(want bool) {
		t.Helper()
		v, ok := w.state.Preview(id, nil, w.at)
		if !ok || (v.Refusal != nil) != want {
			t.Errorf("%s: asks %v", w.incident(id).state, v.Refusal)
		}
	}
	asks(true)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.is(id, Authorized)
	asks(false)
	w.put(w.outcome("b", id, "b#mail", entry.ResultIrrevocable))
	w.next()
	w.is(id, Failed)
	asks(false)
}
