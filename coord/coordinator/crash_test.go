package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// errCrash ends a coordinator as a crash does.
var errCrash = errors.New("crash")

// fragile is a log at whose n-th write the process dies: before it is sent, or
// when it is durable and nobody has heard of it.
type fragile struct {
	desk
	left   int
	before bool
}

func (f *fragile) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	if f.left--; f.left == 0 && f.before {
		return 0, errCrash
	}
	taken, err = f.desk.Submit(ctx, entries...)
	if f.left == 0 {
		err = errCrash
	}
	return taken, err
}

// TestCoordinatorResumesFromTheLogAlone runs incidents that go every way: authorized
// and recorded, closed as unknown at their deadlines one member after the other,
// contained, proposed, approved, denied for want of an answer, amended, merged.
// The process dies at every write of the coordinator in turn, before it and after
// it; what is not synced is lost. Whoever starts again with the disk alone writes
// what was missing: nothing twice, nothing later than its deadline.
func TestCoordinatorResumesFromTheLogAlone(t *testing.T) {
	budget.Unraced(t, "one step of the coordinator after the other; TestConcurrentSubmitters has the goroutines")
	want, _ := conducted(t, 0, false)
	if len(want) < 15 {
		t.Fatalf("%d entries of the coordinator: the test shows little\n%v", len(want), want)
	}
	for at := 1; at <= len(want); at++ {
		for _, before := range []bool{true, false} {
			got, crashed := conducted(t, at, before)
			if !crashed || !slices.Equal(got, want) {
				t.Errorf("crash at write %d, before it: %t (%t)\ngot  %v\nwant %v", at, before, crashed, got, want)
			}
		}
	}
}

// conducted runs the incidents with a crash at a write of the coordinator, 0 for
// none, and returns what the coordinator wrote and when, sorted.
func conducted(t *testing.T, at int, before bool) (written []string, crashed bool) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s := &site{world: emptyWorld(t), fs: disk, dir: "data"}
	s.open()
	s.incidents()
	log := &fragile{desk{s}, at, before}
	coordinator := s.coordinator()
	coordinator.Log = log
	coordinator.Refused = nil // others overtake it where two incidents meet
	for {
		_, wake, err := coordinator.Step(t.Context())
		if errors.Is(err, errCrash) {
			crashed = true
			disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 0))})
			s.stop()
			s.fs = disk
			s.open()
			coordinator = s.coordinator()
			coordinator.Refused = nil
			continue
		}
		must(t, err)
		if s.approve() {
			continue
		}
		if wake == math.MaxInt64 {
			break
		}
		s.later.Store(wake - start)
		s.at = wake
	}
	s.c.Read(func(state *coord.State) {
		if n := open(state); n != 0 {
			t.Errorf("%d incidents are open", n)
		}
	})
	for e, err := range s.log.Entries(t.Context(), 0, s.log.Head().Size) {
		must(t, err)
		switch body := e.Body.(type) {
		case *entry.Decision:
			written = append(written, fmt.Sprintf("%d: %s of %d", e.RegisteredAt-start, body.Act, body.Incident))
		case *entry.Outcome:
			written = append(written, fmt.Sprintf("%d: %s is %s", e.RegisteredAt-start, body.Exec, body.Result))
		case *entry.Record:
			written = append(written, fmt.Sprintf("%d: record of %d, %s", e.RegisteredAt-start, body.Incident, body.State))
		}
	}
	s.check()
	slices.Sort(written) // a restart looks at the incidents from the first on again
	return written, crashed
}

// incidents registers agents, what they did, and signals about it.
func (s *site) incidents() {
	s.t.Helper()
	s.submit(6, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "b", entry.RoleAgent),
		s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "p1", entry.RoleApprover), s.Enrol("root", "m", entry.RoleMonitor))...)
	did := func(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) {
		x := s.Exec(iss, id, parents...)
		if x.Effect = effect; effect != entry.EffectNone {
			x.IdempotencyKey = someDigest(id)
			s.submit(2, "", s.signed(x, s.Step(x, entry.Started))...)
		} else {
			s.submit(1, "", s.Sign(x))
		}
		s.submit(1, "", s.Sign(s.Step(x, entry.Confirmed)))
	}
	did("a", "up", entry.EffectCompensable)
	did("a", "pay", entry.EffectCompensable, "a#up")
	did("b", "ship", entry.EffectCompensable, "a#pay")
	did("a", "read", entry.EffectNone)
	did("a", "mail", entry.EffectIrrevocable)
	did("b", "mail", entry.EffectIrrevocable)
	did("a", "made", entry.EffectCompensable)
	did("b", "used", entry.EffectNone, "a#made")
	for _, sig := range []*entry.Signal{
		s.Signal("a", entry.StandingExecutor, "a#pay"),    // unknown at the deadline, amended by the next
		s.Signal("a", entry.StandingExecutor, "a#up"),     // merged
		s.Signal("a", entry.StandingExecutor, "a#read"),   // recorded at once
		s.Signal("a", entry.StandingExecutor, "a#mail"),   // nobody answers
		s.Signal("b", entry.StandingExecutor, "b#mail"),   // approved
		s.Signal("b", entry.StandingDownstream, "a#made"), // contained, and nobody answers
	} {
		s.submit(1, "", s.Sign(sig))
	}
}

// approve answers the proposal about b#mail, once, and reports whether it did.
func (s *site) approve() (answered bool) {
	s.t.Helper()
	var answer *entry.Approval
	s.c.Read(func(state *coord.State) {
		for _, v := range state.Incidents(0, 100, s.at) {
			if p := v.Proposal; p != nil && v.Signals[0].Subject == "b#mail" && len(p.Approve) == 0 {
				answer = &entry.Approval{Header: s.Header("p1"), Incident: v.ID, Proposal: p.Ref, Verdict: "approve", Exp: s.at/1000 + 3600, Reason: "test"}
			}
		}
	})
	if answer != nil {
		s.submit(1, "", s.Sign(answer))
	}
	return answer != nil
}
