package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// site is a real ledger on a memory disk, with a coordinator, and a world that
// signs for it.
type site struct {
	*world
	fs   vfs.FS
	dir  string
	log  *ledger.Log
	c    *Replica
	stop func()
	// later is how long after start it is, in milliseconds.
	later atomic.Int64
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func newSite(tb testing.TB) *site {
	tb.Helper()
	s := &site{world: emptyWorld(tb), fs: vfs.NewMem(), dir: "data"}
	s.open()
	return s
}

// open opens the ledger and runs its order.
func (s *site) open() {
	s.t.Helper()
	skey, vkey, err := note.GenerateKey(zeros{}, origin)
	must(s.t, err)
	signer, err := note.NewSigner(skey)
	must(s.t, err)
	verifier, err := note.NewVerifier(vkey)
	must(s.t, err)
	s.c = New(origin, nil)
	s.log, err = ledger.Open(s.dir, &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: signer, Verifier: verifier}}, FS: s.fs,
		NewFold:  func() ledger.Fold { return s.c.NewFold() },
		Frozen:   func() (ledger.Fold, uint64) { return s.c.Frozen() },
		Precheck: s.c.Precheck, Committed: s.c.Committed, MaxStep: s.c.MaxStep,
		Fatal:         func(err error) { panic(err) },
		Now:           func() time.Time { return time.UnixMilli(start + s.later.Load()) },
		Uptime:        func() time.Duration { return time.Duration(s.later.Load()) * time.Millisecond },
		SnapshotEvery: 16,
	})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func(log *ledger.Log) { done <- log.Run(ctx) }(s.log)
	s.stop = sync.OnceFunc(func() {
		cancel()
		must(s.t, <-done)
		must(s.t, s.log.Close())
	})
	s.t.Cleanup(s.stop)
}

// signed signs each of the bodies.
func (s *site) signed(bodies ...entry.Body) (signed []*entry.Entry) {
	s.t.Helper()
	for _, body := range bodies {
		signed = append(signed, s.Sign(body))
	}
	return signed
}

// submit sends entries as one batch and checks how many are taken and why the
// next is not; "" if all are.
func (s *site) submit(taken int, problem entry.Problem, batch ...*entry.Entry) {
	s.t.Helper()
	answer, err := s.log.Submit(s.t.Context(), batch...)
	must(s.t, err)
	var got entry.Problem
	if answer.Refused != nil {
		got = answer.Refused.Problem
	}
	if len(answer.Registered) != taken || got != problem {
		s.t.Fatalf("%d registered, refused %v; want %d, %q", len(answer.Registered), answer.Refused, taken, problem)
	}
}

// entries yields the log as an audit wants it.
func (s *site) entries() iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for e, err := range s.log.Entries(s.t.Context(), 0, s.log.Head().Size) {
			if err != nil {
				yield(entry.Registered{}, err)
				return
			}
			if !yield(*e, nil) {
				return
			}
		}
	}
}

// check stops the ledger, compares the state that admitted with one rebuilt
// from its entries, and audits them.
func (s *site) check() {
	s.t.Helper()
	rebuilt := coord.NewState(origin)
	for e, err := range s.entries() {
		must(s.t, err)
		rebuilt.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	report, err := audit.NewFollower(origin).Follow(s.t.Context(), s.entries(), nil)
	must(s.t, err)
	if report.Finding != nil || report.Size != s.log.Head().Size {
		s.t.Fatalf("audit: %+v", report)
	}
	s.stop()
	if !bytes.Equal(snapshot(s.t, rebuilt), snapshot(s.t, s.c.state)) {
		s.t.Fatal("the state differs from one rebuilt from the log")
	}
}

// TestKeyEnrolledInTheSameBatch registers a policy, an agent and its first
// execution at once: nothing of it is committed when signatures are checked, so
// that the order must.
func TestKeyEnrolledInTheSameBatch(t *testing.T) {
	s := newSite(t)
	s.submit(3, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Exec("a", "x"))...)
	if _, ok := s.c.View().Chain.Agent("a"); !ok {
		t.Fatal("the committed view lacks the agent")
	}
	forged := s.Sign(s.Exec("b", "x"))
	forged.Sig[0] ^= 1
	s.submit(1, entry.BadSignature, s.Sign(s.Enrol("root", "b", entry.RoleAgent)), forged)
	s.submit(1, "", s.Sign(s.Exec("b", "x")))
	s.check()
}

// TestKeyRevokedBetweenPrecheckAndOrder revokes a key in the batch that uses it:
// when signatures are checked it still counts, when its turn comes no more.
func TestKeyRevokedBetweenPrecheckAndOrder(t *testing.T) {
	s := newSite(t)
	s.submit(2, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent))...)
	revoke := s.Enrol("root", "a", entry.RoleAgent)
	revoke.Op = entry.Revoke
	late := s.Sign(s.Exec("a", "late"))
	s.submit(2, entry.UnknownIssuer, s.Sign(s.Exec("a", "x")), s.Sign(revoke), late)
	if !late.SignatureChecked {
		t.Fatal("the key did not count when signatures were checked: the test shows nothing")
	}
	s.submit(0, entry.UnknownIssuer, s.Sign(s.Exec("a", "later")))
	s.check()
}

// TestRotation replaces a key in the batch that uses old and new.
func TestRotation(t *testing.T) {
	s := newSite(t)
	s.submit(3, "", s.signed(s.genesis(), s.Enrol("root", "e", entry.RoleEnroller), s.Enrol("root", "a", entry.RoleAgent))...)
	before, old := s.Sign(s.Exec("a", "before")), s.Sign(s.Exec("a", "old"))
	s.Seeds["a"] = "second key of a"
	rotate := s.Enrol("e", "a", entry.RoleAgent)
	rotate.Op = entry.Rotate
	s.submit(3, entry.UnknownIssuer, before, s.Sign(rotate), s.Sign(s.Exec("a", "new")), old)
	s.submit(1, "", s.Sign(s.Exec("a", "newer", "a#before", "a#new")))
	s.check()
}

// TestPolicyInTheSameBatch shows that rights which a policy gives count at once.
func TestPolicyInTheSameBatch(t *testing.T) {
	s := newSite(t)
	s.submit(2, "", s.signed(s.genesis(), s.Enrol("root", "o", entry.RoleOperator))...)
	s.submit(0, entry.UnauthorizedRole, s.Sign(s.Enrol("o", "a", entry.RoleAgent)))
	policy, at := s.c.View().Chain.Policy()
	next := *policy
	next.Header, next.Previous = s.Header("root"), &at
	next.Wid = ""
	next.Roles = map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleOperator}}
	s.submit(3, "", s.signed(&next, s.Enrol("o", "a", entry.RoleAgent), s.Exec("a", "x"))...)
	s.check()
}

// TestReopen runs a ledger over several snapshots, stops it, and goes on: the
// state is the same whether it was kept, restored or rebuilt.
func TestReopen(t *testing.T) {
	s := newSite(t)
	s.submit(2, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent))...)
	var last entry.Ref
	for round := range 3 {
		for i := range 40 {
			x := s.Exec("a", fmt.Sprintf("x%d.%d", round, i))
			if last != "" {
				x.Parents = []entry.Parent{{Exec: last, Dep: entry.Hard}}
			}
			x.Progress, last = entry.Confirmed, x.Ref()
			s.submit(1, "", s.Sign(x))
		}
		s.submit(1, "", s.Sign(s.Checkpoint("a", fmt.Sprint(round), last)))
		s.stop()
		before := snapshot(t, s.c.state)
		s.open()
		if !bytes.Equal(snapshot(t, s.c.state), before) {
			t.Fatal("the state changed by stopping and opening")
		}
		if _, ok := s.c.View().Chain.Agent("a"); !ok || s.c.View().Size != s.log.Head().Size {
			t.Fatal("the view lacks what was committed before")
		}
	}
	s.check()
}

// TestConcurrentSubmitters lets agents race for the same references; whatever
// was admitted, an audit agrees.
func TestConcurrentSubmitters(t *testing.T) {
	s := newSite(t)
	s.submit(1, "", s.Sign(s.genesis()))
	const agents, each = 8, 40
	batches := make([][]*entry.Entry, agents)
	for i := range agents {
		name := entry.Principal(fmt.Sprintf("agent-%d", i))
		s.submit(1, "", s.Sign(s.Enrol("root", name, entry.RoleAgent)))
		for j := range each {
			x := s.Exec(name, fmt.Sprint(j))
			if j > 0 && i > 0 { // may come before its parent: refused then
				x.Parents = []entry.Parent{{Exec: entry.NewRef(entry.Principal(fmt.Sprintf("agent-%d", i-1)), fmt.Sprint(j-1)), Dep: entry.Hard}}
			}
			batches[i] = append(batches[i], s.Sign(x))
		}
	}
	var wait sync.WaitGroup
	for _, batch := range batches {
		wait.Go(func() {
			for _, e := range batch {
				answer, err := s.log.Submit(t.Context(), e)
				if err != nil || answer.Refused != nil && answer.Refused.Problem != entry.UnknownSubject {
					t.Errorf("answer %+v, error %v", answer, err)
				}
			}
		})
	}
	wait.Wait()
	if size := s.log.Head().Size; size < 1+agents+each {
		t.Errorf("%d entries: the first agent's were refused", size)
	}
	s.check()
}
