package coordinator

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/coordlog"
	"recoveryledger/testdata/testlog"
)

// desk is the ledger of a site as its coordinator sees it.
type desk struct{ *site }

func (d desk) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	return coordlog.Log{Log: d.log}.Submit(ctx, entries...)
}

func (d desk) Wait(ctx context.Context, size uint64) error { return d.log.Wait(ctx, size) }

func (d desk) Now() int64 { return start + d.later.Load() }

// coordinator returns the coordinator of a site; refusals fail the test.
func (s *site) coordinator() *Coordinator {
	return &Coordinator{
		Replica: s.c, Log: desk{s}, Principal: "k", Has: s.log.Has,
		Seal: func(e *entry.Entry) error {
			e.Seal(testlog.Public(s.t, "k").KeyID(), ed25519.Sign(testlog.Private("k"), e.PAE()))
			return nil
		},
		Refused: func(body entry.Body, r *entry.Refusal) { s.t.Errorf("%s: %v", body.Kind(), r) },
	}
}

// drafted makes what depends on committed state.
func (s *site) drafted(draft func(w *world) entry.Body) *entry.Entry {
	s.t.Helper()
	var body entry.Body
	s.c.Read(func(state *coord.State) {
		s.state = state
		body = draft(s.world)
	})
	return s.Sign(body)
}

// TestCoordinator runs an incident through a real ledger: agents write, the coordinator
// authorizes and records; the ledger is stopped and opened in between, and the
// new coordinator goes on from the log alone.
func TestCoordinator(t *testing.T) {
	s := newSite(t)
	s.submit(4, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "b", entry.RoleAgent),
		s.Enrol("root", "k", entry.RoleCoordinator))...)
	pay := s.Exec("a", "pay")
	pay.Effect, pay.IdempotencyKey = entry.EffectCompensable, someDigest("pay")
	s.submit(5, "", s.signed(pay, s.Step(pay, entry.Started), s.Step(pay, entry.Confirmed), s.Exec("b", "use", "a#pay"),
		s.Signal("a", entry.StandingExecutor, "a#pay"))...)
	id := s.log.Head().Size - 1
	step := func() {
		t.Helper()
		if _, _, err := s.coordinator().Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want entry.IncidentState) {
		t.Helper()
		s.c.Read(func(state *coord.State) {
			if v, ok := state.Incident(id, start); !ok || v.State != want {
				t.Fatalf("incident %+v, want %s", v, want)
			}
		})
	}
	step()
	is(entry.IncidentAuthorized)
	size := s.log.Head().Size
	s.stop()
	s.open()
	step()
	if s.log.Head().Size != size {
		t.Fatal("the coordinator wrote again what stands in the log")
	}
	s.submit(0, entry.FencedDependency, s.Sign(s.Exec("b", "use2", "a#pay")))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.outcome("b", id, "b#use", entry.NotExecuted) }))
	comp := s.drafted(func(w *world) entry.Body { return w.compensation(id, "a#pay") })
	x, _ := comp.Body.(*entry.Execution)
	s.submit(3, "", append([]*entry.Entry{comp}, s.signed(s.Step(x, entry.Started), s.Step(x, entry.Confirmed))...)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.coordinator().Run(ctx) }() // wakes when the log grows
	size = s.log.Head().Size
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.outcome("a", id, "a#pay", entry.Compensated) }))
	must(t, s.log.Wait(t.Context(), size+2)) // the outcome, and the coordinator's record
	is(entry.IncidentRecovered)
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
	p.Limits.Signaler.FencedMS = 2 * hour // a fence takes answer_ms and decide_ms
	s.submit(3, "", s.signed(p, s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "k", entry.RoleCoordinator))...)
	var ids []uint64
	for _, name := range []string{"one", "two"} {
		x := s.Exec("a", name)
		x.Effect, x.IdempotencyKey = entry.EffectIrrevocable, someDigest(name)
		s.submit(4, "", s.signed(x, s.Step(x, entry.Started), s.Step(x, entry.Confirmed), s.Signal("a", entry.StandingExecutor, x.Ref()))...)
		ids = append(ids, s.log.Head().Size-1)
	}
	if _, _, err := s.coordinator().Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.c.Read(func(state *coord.State) {
		for i, want := range []string{"", "ms of fences of signaler a, a fence may have 7200000 (limits.signaler.fenced_ms)"} {
			v, _ := state.Incident(ids[i], start)
			if v.State != entry.IncidentEscalated || !strings.HasSuffix(v.NotFenced, want) || (want == "") != (v.NotFenced == "") {
				t.Errorf("incident %d is %s, not fenced: %q, want %q", ids[i], v.State, v.NotFenced, want)
			}
		}
	})
	s.check()
}

// TestCoordinatorTellsOfSilence drops amends that nobody answered, by an amend and by
// a record, and dismisses an incident: of each it tells once.
func TestCoordinatorTellsOfSilence(t *testing.T) {
	s := newSite(t)
	s.submit(5, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "k", entry.RoleCoordinator),
		s.Enrol("root", "p1", entry.RoleApprover), s.Enrol("root", "p2", entry.RoleApprover))...)
	signaled := func(name string, effect entry.Effect) uint64 {
		x := s.Exec("a", name)
		x.Effect, x.IdempotencyKey = effect, someDigest(name)
		s.submit(4, "", s.signed(x, s.Step(x, entry.Started), s.Step(x, entry.Confirmed), s.Signal("a", entry.StandingExecutor, x.Ref()))...)
		return s.log.Head().Size - 1
	}
	var told []coord.Silence
	later := func(ms int64, want ...coord.Silence) {
		t.Helper()
		s.later.Add(ms)
		s.at = start + s.later.Load()
		coordinator := s.coordinator()
		coordinator.Silent = func(of coord.Silence) { told = append(told, of) }
		if _, _, err := coordinator.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, want) {
			t.Fatalf("told %+v, want %+v", told, want)
		}
		told = nil
	}
	amended := signaled("pay", entry.EffectCompensable)
	dismissed := signaled("mail", entry.EffectIrrevocable)
	later(0)
	later(11 * minute)
	propose := func() {
		t.Helper()
		s.submit(1, "", s.drafted(func(w *world) entry.Body {
			return w.order("p1", coord.Order{Incident: amended, Act: entry.ActEscalate})
		}))
	}
	propose()
	later(hour-1, coord.Silence{Incident: dismissed, Wid: "w", Amend: false}) // proposed 11 minutes before
	later(1, coord.Silence{Incident: amended, Wid: "w", Amend: true})
	later(hour)
	propose()
	comp := s.drafted(func(w *world) entry.Body { return w.compensation(amended, "a#pay") })
	x, _ := comp.Body.(*entry.Execution)
	s.submit(3, "", append([]*entry.Entry{comp}, s.signed(s.Step(x, entry.Started), s.Step(x, entry.Confirmed))...)...)
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.outcome("a", amended, "a#pay", entry.Compensated) }))
	later(hour, coord.Silence{Incident: amended, Wid: "w", Amend: true})
	s.c.Read(func(state *coord.State) {
		if v, _ := state.Incident(amended, s.at); v.State != entry.IncidentRecovered || !v.Unacknowledged() {
			t.Errorf("%s, lapsed %+v", v.State, v.Lapsed)
		}
	})
	later(hour)
	s.check()
}

// TestCoordinatorTellsRefusals wants a refusal to be told that nothing overtook: the
// coordinator's principal is no coordinator.
func TestCoordinatorTellsRefusals(t *testing.T) {
	s := newSite(t)
	s.submit(3, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "k", entry.RoleOperator))...)
	x := s.Exec("a", "x")
	s.submit(4, "", s.signed(x, s.Step(x, entry.Started), s.Step(x, entry.Confirmed), s.Signal("a", entry.StandingExecutor, "a#x"))...)
	coordinator, told := s.coordinator(), 0
	coordinator.Refused = func(entry.Body, *entry.Refusal) { told++ }
	if _, _, err := coordinator.Step(t.Context()); err != nil || told != 1 {
		t.Errorf("%d refusals told, want 1; %v", told, err)
	}
}
