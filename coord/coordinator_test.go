package coord

import (
	"context"
	"crypto/ed25519"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// desk is the ledger of a site as its coordinator sees it.
type desk struct{ *site }

func (d desk) Submit(ctx context.Context, e *entry.Entry) error {
	answer, err := d.log.Submit(ctx, e)
	if err == nil && answer.Refused != nil {
		return answer.Refused
	}
	return err
}

func (d desk) Wait(ctx context.Context, size uint64) error { return d.log.Wait(ctx, size) }

func (d desk) Now() int64 { return start + d.later.Load() }

// coordinator returns the coordinator of a site; refusals fail the test.
func (s *site) coordinator() *Coordinator {
	return &Coordinator{
		Replica: s.c, Log: desk{s}, Principal: "k",
		Seal: func(e *entry.Entry) error {
			e.Seal(public(s.t, "k").KeyID(), ed25519.Sign(private("k"), e.PAE()))
			return nil
		},
		Refused: func(body entry.Body, r *entry.Refusal) { s.t.Errorf("%s: %v", body.Kind(), r) },
	}
}

// drafted makes what depends on committed state.
func (s *site) drafted(draft func(w *world) entry.Body) *entry.Entry {
	s.t.Helper()
	var body entry.Body
	s.c.Read(func(state *State) {
		s.state = state
		body = draft(s.world)
	})
	return s.sign(body)
}

// TestCoordinator runs an incident through a real ledger: agents write, the coordinator
// authorizes and records; the ledger is stopped and opened in between, and the
// new coordinator goes on from the log alone.
func TestCoordinator(t *testing.T) {
	s := newSite(t)
	s.submit(4, "", s.signed(s.genesis(), s.enrol("root", "a", entry.RoleAgent), s.enrol("root", "b", entry.RoleAgent),
		s.enrol("root", "k", entry.RoleCoordinator))...)
	pay := s.exec("a", "pay")
	pay.Effect, pay.IdempotencyKey = entry.EffectCompensable, someDigest("pay")
	s.submit(5, "", s.signed(pay, s.step(pay, entry.Dispatched), s.step(pay, entry.Confirmed), s.exec("b", "use", "a#pay"),
		s.signal("a", entry.StandingExecutor, "a#pay"))...)
	id := s.log.Head().Size - 1
	step := func() {
		t.Helper()
		if _, _, err := s.coordinator().Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want IncidentState) {
		t.Helper()
		s.c.Read(func(state *State) {
			if v, ok := state.Incident(id, start); !ok || v.State != want {
				t.Fatalf("incident %+v, want %s", v, want)
			}
		})
	}
	step()
	is(Authorized)
	size := s.log.Head().Size
	s.stop()
	s.open()
	step()
	if s.log.Head().Size != size {
		t.Fatal("the coordinator wrote again what stands in the log")
	}
	s.submit(0, entry.FencedDependency, s.sign(s.exec("b", "use2", "a#pay")))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.outcome("b", id, "b#use", entry.NotExecuted) }))
	comp := s.drafted(func(w *world) entry.Body { return w.compensation(id, "a#pay") })
	x, _ := comp.Body.(*entry.Execution)
	s.submit(3, "", append([]*entry.Entry{comp}, s.signed(s.step(x, entry.Dispatched), s.step(x, entry.Confirmed))...)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.coordinator().Run(ctx) }() // wakes when the log grows
	size = s.log.Head().Size
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.outcome("a", id, "a#pay", entry.Compensated) }))
	must(t, s.log.Wait(t.Context(), size+2)) // the outcome, and the coordinator's record
	is(Recovered)
	cancel()
	must(t, <-done)
	s.check()
}

// TestCoordinatorOvertakesItself asks people about two incidents at once whose fences
// together are beyond what their signaler may fence. Both proposals are drafted from
// one state, in which each could be fenced: the first one makes the other untrue.
// Nobody is told of that refusal, and the next draft says that it does not fence.
func TestCoordinatorOvertakesItself(t *testing.T) {
	s := newSite(t)
	p := s.genesis()
	p.Limits.Signaler.FencedMS = 2 * hourMS // a fence takes answer_ms and decide_ms
	s.submit(3, "", s.signed(p, s.enrol("root", "a", entry.RoleAgent), s.enrol("root", "k", entry.RoleCoordinator))...)
	var ids []uint64
	for _, name := range []string{"one", "two"} {
		x := s.exec("a", name)
		x.Effect, x.IdempotencyKey = entry.EffectIrrevocable, someDigest(name)
		s.submit(4, "", s.signed(x, s.step(x, entry.Dispatched), s.step(x, entry.Confirmed), s.signal("a", entry.StandingExecutor, x.Ref()))...)
		ids = append(ids, s.log.Head().Size-1)
	}
	if _, _, err := s.coordinator().Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.c.Read(func(state *State) {
		for i, want := range []string{"", "ms of fences of signaler a, a fence may have 7200000 (limits.signaler.fenced_ms)"} {
			v, _ := state.Incident(ids[i], start)
			if v.State != Escalated || !strings.HasSuffix(v.NotFenced, want) || (want == "") != (v.NotFenced == "") {
				t.Errorf("incident %d is %s, not fenced: %q, want %q", ids[i], v.State, v.NotFenced, want)
			}
		}
	})
	s.check()
}

// TestCoordinatorTellsRefusals wants a refusal to be told that nothing overtook: the
// coordinator's principal is no coordinator.
func TestCoordinatorTellsRefusals(t *testing.T) {
	s := newSite(t)
	s.submit(3, "", s.signed(s.genesis(), s.enrol("root", "a", entry.RoleAgent), s.enrol("root", "k", entry.RoleOperator))...)
	x := s.exec("a", "x")
	s.submit(4, "", s.signed(x, s.step(x, entry.Dispatched), s.step(x, entry.Confirmed), s.signal("a", entry.StandingExecutor, "a#x"))...)
	coordinator, told := s.coordinator(), 0
	coordinator.Refused = func(entry.Body, *entry.Refusal) { told++ }
	if _, _, err := coordinator.Step(t.Context()); err != nil || told != 1 {
		t.Errorf("%d refusals told, want 1; %v", told, err)
	}
}
