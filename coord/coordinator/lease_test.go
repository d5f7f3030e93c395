package coordinator

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

// clock is a monotonic clock that stands still.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// renewal returns the signed renewal of a lease.
func renewal(tb testing.TB, r entry.Renewal) *entry.SignedRenewal {
	tb.Helper()
	r.Aud = origin
	message, err := r.PAE()
	must(tb, err)
	return &entry.SignedRenewal{Renewal: r, KeyID: testlog.Public(tb, string(r.Iss)).KeyID(), Sig: ed25519.Sign(testlog.Private(string(r.Iss)), message)}
}

// renewOne renews what is one lease.
func (s *site) renewOne(r *entry.SignedRenewal) (api.Lease, error) {
	s.t.Helper()
	all, err := s.c.Renew(r, time.Time{}, ledgerNow)
	if err != nil {
		return api.Lease{}, err
	}
	if len(all) != 1 {
		s.t.Fatalf("%d leases", len(all))
	}
	if all[0].Refused != nil {
		return api.Lease{}, all[0].Refused
	}
	if one := all[0].Lease; r.Leases[0].Over == nil && one.ExpiresAt != ledgerNow+one.TermMS {
		s.t.Errorf("a renewed lease of %d ms expires at %d, and it is %d", one.TermMS, one.ExpiresAt, ledgerNow)
	}
	return all[0].Lease, nil
}

// ledgerNow is the ledger's clock when a lease is renewed or shown, in Unix milliseconds.
const ledgerNow = 1_800_000_000_000

// leased returns a site with a task that a holds, on a clock of its own.
func leased(t *testing.T) (*site, *clock) {
	t.Helper()
	s, at := newSite(t), &clock{time.Now()}
	s.c.leases.now = at.now
	s.submit(5, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "b", entry.RoleAgent),
		s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	s.submit(1, "", s.Sign(s.newTask("task")))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", entry.TaskAssign, "a") }))
	return s, at
}

// pass lets time pass, for the ledger and for leases.
func (s *site) pass(at *clock, d time.Duration) {
	s.later.Add(d.Milliseconds())
	s.at += d.Milliseconds()
	at.at = at.at.Add(d)
}

func (s *site) sweep() {
	s.t.Helper()
	if _, _, err := s.coordinator().Step(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) taskIs(want entry.TaskState) {
	s.t.Helper()
	s.c.Read(func(state *coord.State) {
		if v, ok := state.Task("o#task"); !ok || v.State != want {
			s.t.Fatalf("the task is %s, want %s", v.State, want)
		}
	})
}

// TestLeaseIsLost renews a lease through a real ledger's coordinator, lets it be lost,
// and sees the loss in the log; a step of the wall clock, and a restart, lose
// nothing.
func TestLeaseIsLost(t *testing.T) {
	s, at := leased(t)
	for seq := range int64(5) {
		s.pass(at, 80*time.Second)
		s.sweep()
		if _, err := s.renewOne(renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: s.c.leases.session, Seq: seq + 1})); err != nil {
			t.Fatal(err)
		}
	}
	s.taskIs(entry.TaskAssigned)
	s.later.Add((10 * time.Hour).Milliseconds()) // a step: no term has passed
	s.at += (10 * time.Hour).Milliseconds()
	s.sweep()
	s.taskIs(entry.TaskAssigned)
	s.pass(at, 89*time.Second)
	s.stop()
	s.open()
	s.c.leases.now = at.now
	s.c.leases.begin(s.c.state)
	s.pass(at, 89*time.Second)
	s.sweep()
	s.taskIs(entry.TaskAssigned) // a full term since the restart
	s.pass(at, time.Second)
	s.sweep()
	s.taskIs(entry.TaskFailed)
	if held, lost := s.c.leases.Counts(); held != 0 || lost != 1 {
		t.Errorf("%d held and %d lost, want 0 and 1", held, lost)
	}
	s.check()
}

// TestWorkKeepsALease counts what the holder logs for a task as heard, and nothing
// else.
func TestWorkKeepsALease(t *testing.T) {
	s, at := leased(t)
	left := func() time.Duration {
		one, ok := s.c.leases.Find("o#task", ledgerNow)
		if !ok {
			t.Fatal("no lease")
		}
		return time.Duration(one.ExpiresAt-ledgerNow) * time.Millisecond
	}
	s.pass(at, time.Minute)
	s.submit(1, "", s.Sign(s.Exec("a", "unrelated")))
	if left() != 30*time.Second {
		t.Fatalf("%v left after an unrelated entry", left())
	}
	s.submit(1, "", s.Sign(s.work("a", "one", "o#task", entry.EffectNone)))
	if left() != 90*time.Second {
		t.Fatalf("%v left after an entry for the task", left())
	}
	s.pass(at, time.Minute)
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("a", "o#task", entry.TaskStart, "") }))
	if left() != 90*time.Second {
		t.Fatalf("%v left after start", left())
	}
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("a", "o#task", entry.TaskComplete, "") }))
	if _, ok := s.c.leases.Find("o#task", 0); ok {
		t.Fatal("a completed task is held")
	}
	s.check()
}

// TestRenewalsRefused gives renewals that break one rule each; the lease stays as
// it is.
func TestRenewalsRefused(t *testing.T) {
	s, at := leased(t)
	session := s.c.leases.session
	good := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 7})
	if one, err := s.renewOne(good); err != nil || one.Seq != 7 || one.TermMS != 90_000 || one.RenewMS != 30_000 {
		t.Fatalf("%+v, %v", one, err)
	}
	elsewhere := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8})
	elsewhere.Aud = "ledger.example/other"
	forged := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8})
	forged.Sig[0] ^= 1
	changed := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8})
	changed.Seq = 9
	stolen := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8})
	stolen.KeyID = testlog.Public(t, "b").KeyID()
	refuse := func(name string, r *entry.SignedRenewal, problem entry.Problem, field string) {
		t.Helper()
		before, _ := s.c.leases.Find("o#task", 0)
		_, err := s.renewOne(r)
		refusal, _ := errors.AsType[*entry.Refusal](err)
		if after, _ := s.c.leases.Find("o#task", 0); problemOf(refusal) != problem || refusal.Field != field || after != before {
			t.Errorf("%s: %v, want %s at %q; lease %+v, was %+v", name, err, problem, field, after, before)
		}
	}
	refuse("elsewhere", elsewhere, entry.WrongAudience, "aud")
	refuse("forged", forged, entry.BadSignature, "sig")
	refuse("changed", changed, entry.BadSignature, "sig")
	refuse("stolen", stolen, entry.UnknownIssuer, "keyid")
	refuse("no agent", renewal(t, entry.Renewal{Iss: "o", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8}), entry.UnauthorizedRole, "iss")
	refuse("foreign", renewal(t, entry.Renewal{Iss: "b", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8}), entry.NoStanding, "iss")
	refuse("unknown task", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#none", Epoch: 1}}, Session: session, Seq: 8}), entry.NotFound, "leases[0].task")
	refuse("old epoch", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 2}}, Session: session, Seq: 8}), entry.StaleEpoch, "leases[0].epoch")
	refuse("before a restart", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: "before", Seq: 8}), entry.StateConflict, "session")
	refuse("again", good, entry.StateConflict, "seq")
	s.pass(at, 90*time.Second)
	refuse("lost", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8}), entry.StateConflict, "leases[0].task")
	s.sweep()
	s.taskIs(entry.TaskFailed)
	refuse("lost, and logged", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8}), entry.StateConflict, "leases[0].task")
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", entry.TaskAssign, "b") }))
	refuse("lost to another", renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 8}), entry.StaleEpoch, "leases[0].epoch")
	if _, err := s.renewOne(renewal(t, entry.Renewal{Iss: "b", Leases: []entry.Lease{{Task: "o#task", Epoch: 2}}, Session: session, Seq: 1})); err != nil {
		t.Error(err)
	}
}

// TestLeasesAreJudgedOneByOne renews, under one signature, a lease twice, one that
// was lost, one of another agent, one that is over, one of a task that is not there,
// and one more: each has its own answer, and what is refused stays as it is.
func TestLeasesAreJudgedOneByOne(t *testing.T) {
	s, at := leased(t)
	session := s.c.leases.session
	give := func(id string, agent entry.Principal) {
		s.submit(1, "", s.Sign(s.newTask(id)))
		s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", entry.NewRef("o", id), entry.TaskAssign, agent) }))
	}
	give("foreign", "b")
	give("blocked", "a")
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("a", "o#blocked", entry.TaskBlock, "") }))
	s.pass(at, 89*time.Second)
	give("more", "a")
	held := func(id entry.Ref, epoch int64) entry.Lease { return entry.Lease{Task: id, Epoch: epoch} }
	r := renewal(t, entry.Renewal{Iss: "a", Session: session, Seq: 5, Leases: []entry.Lease{held("o#more", 1), held("o#more", 1), held("o#foreign", 1),
		held("o#blocked", 1), held("o#blocked", 2), held("o#none", 1), held("o#task", 7), held("o#task", 1)}})
	s.renewedAs(r, "", "seq state-conflict", "iss no-standing", "leases[3].task state-conflict", "leases[4].epoch stale-epoch",
		"leases[5].task not-found", "leases[6].epoch stale-epoch", "")
	s.renewedAs(r, "seq state-conflict", "seq state-conflict", "iss no-standing", "leases[3].task state-conflict", "leases[4].epoch stale-epoch",
		"leases[5].task not-found", "leases[6].epoch stale-epoch", "seq state-conflict")
	s.pass(at, time.Second)
	if one, _ := s.c.leases.Find("o#foreign", 0); one.ExpiresAt != 0 || one.Seq != 0 {
		t.Errorf("the lease of another: %+v", one)
	}
	for _, id := range []entry.Ref{"o#more", "o#task"} {
		if one, _ := s.c.leases.Find(id, 0); one.ExpiresAt != 89_000 || one.Seq != 5 {
			t.Errorf("%s: %+v", id, one)
		}
	}
	late := renewal(t, entry.Renewal{Iss: "a", Session: session, Seq: 6, Leases: []entry.Lease{held("o#task", 1)}})
	if _, err := s.c.Renew(late, at.at, 0); !errors.Is(err, ErrLate) {
		t.Errorf("a renewal when another node may lead: %v", err)
	}
	if all, err := s.c.Renew(late, at.at.Add(1), 0); err != nil || all[0].Refused != nil || all[0].Lease.Seq != 6 {
		t.Errorf("the same renewal, for certain in time: %+v, %v", all, err)
	}
	s.pass(at, 90*time.Second)
	s.renewedAs(renewal(t, entry.Renewal{Iss: "a", Session: session, Seq: 7, Leases: []entry.Lease{held("o#task", 1)}}), "leases[0].task state-conflict")
	s.renewedAs(renewal(t, entry.Renewal{Iss: "b", Session: "before", Seq: 6, Leases: []entry.Lease{held("o#foreign", 1)}}), "leases[0].task state-conflict")
}

// renewedAs compares what becomes of each lease of a renewal, as field and problem.
func (s *site) renewedAs(r *entry.SignedRenewal, want ...string) {
	s.t.Helper()
	all, err := s.c.Renew(r, time.Time{}, 0)
	must(s.t, err)
	for i, one := range all {
		got := ""
		if one.Refused != nil {
			got = one.Refused.Field + " " + string(one.Refused.Problem)
		}
		if i >= len(want) || got != want[i] || got == "" && (one.Lease.Task != r.Leases[i].Task || one.Lease.Seq != r.Seq) {
			s.t.Errorf("lease %d of %s: %q, %+v", i, r.Leases[i].Task, got, one.Lease)
		}
	}
}

// TestSweepTouchesOnlyWhatIsDue counts which leases a sweep looks at.
func TestSweepTouchesOnlyWhatIsDue(t *testing.T) {
	at := &clock{time.Now()}
	l, s := manyLeases(t, 1000, at)
	at.at = at.at.Add(60 * time.Second)
	for i := range 900 {
		l.byTask[taskName(i)].until = at.at.Add(90 * time.Second) // as a renewal does
	}
	if lost, wait := l.Lost(); len(lost) != 0 || wait != 30*time.Second {
		t.Fatalf("%d lost, the next in %v", len(lost), wait)
	}
	at.at = at.at.Add(30 * time.Second)
	lost, wait := l.Lost()
	if len(lost) != 100 || wait != lostPause {
		t.Fatalf("%d lost, the next in %v", len(lost), wait)
	}
	if again, _ := l.Lost(); len(again) != 0 {
		t.Fatalf("%d lost at once again", len(again))
	}
	if todo := s.Losses(lost, 0); len(todo) != 100 {
		t.Fatalf("%d entries", len(todo))
	}
}

func taskName(i int) entry.Ref { return entry.Ref(fmt.Sprintf("o#%d", i)) }

// manyLeases returns so many leases that a holds.
func manyLeases(tb testing.TB, n int, at *clock) (*Leases, *coord.State) {
	tb.Helper()
	w := newWorld(tb)
	put := func(body entry.Body) { // without the checks of world.put
		e := w.Sign(body)
		must(tb, w.state.Admit(e, w.state.Size(), w.at))
		w.state.Apply(e, w.state.Size(), w.at)
	}
	for i := range n {
		b := w.newTask(fmt.Sprint(i))
		put(b)
		put(w.move("k", b.Task, entry.TaskAssign, "a"))
	}
	l := newLeases()
	l.now = at.now
	l.begin(w.state)
	return l, w.state
}

// TestNewTermOfLeases: a new term is a new session, in which a lease has a full term whatever was
// left of it.
func TestNewTermOfLeases(t *testing.T) {
	s, at := leased(t)
	session := s.c.leases.session
	s.pass(at, 80*time.Second)
	s.c.NewTerm()
	one, ok := s.c.leases.Find("o#task", 0)
	if !ok || one.ExpiresAt != 90_000 || one.Session == session || one.Seq != 0 {
		t.Fatalf("%+v", one)
	}
	old := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: session, Seq: 9})
	if _, err := s.renewOne(old); err == nil {
		t.Error("a renewal of the session before counts")
	}
	s.check()
}
