package coord

import (
	"bytes"
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
)

const (
	origin = testlog.Origin
	start  = int64(1_790_000_000_000) // registered_at of the first entry
)

// world is a log in the making: a state, what was admitted, and everybody's
// keys.
type world struct {
	t     testing.TB
	state *State
	log   []entry.Registered
	at    int64
	keys  map[entry.Principal]string // the seed that a principal signs with

	author *testlog.Author
}

// newWorld returns a log with a genesis policy by "root" and these principals:
// agents a and b, agent c whose span is agent, monitor m, operator o, enroller e,
// engine r, coordinator k, approvers p1 to p3.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := emptyWorld(tb)
	w.put(w.genesis())
	for _, p := range []entry.Principal{"a", "b"} {
		w.put(w.enrol("root", p, entry.RoleAgent))
	}
	c := w.enrol("root", "c", entry.RoleAgent)
	c.Span = entry.SpanAgent
	w.put(c)
	w.put(w.enrol("root", "m", entry.RoleMonitor))
	w.put(w.enrol("root", "o", entry.RoleOperator))
	w.put(w.enrol("root", "e", entry.RoleEnroller))
	w.put(w.enrol("root", "r", entry.RoleEngine))
	w.put(w.enrol("root", "k", entry.RoleCoordinator))
	for _, p := range []entry.Principal{"p1", "p2", "p3"} {
		w.put(w.enrol("root", p, entry.RoleApprover))
	}
	return w
}

// compiled are the rules of all worlds: what they are depends on the policy alone.
var compiled Rules

func emptyWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{t: tb, state: NewState(origin), at: start, keys: map[entry.Principal]string{}}
	w.author = &testlog.Author{TB: tb, Now: func() int64 { return w.at }, Seeds: w.keys}
	return w
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func public(tb testing.TB, seed string) entry.PublicKey {
	tb.Helper()
	return testlog.Public(tb, seed)
}

// The author's entries, under the names that the tests of this package have.

func (w *world) seed(p entry.Principal) string             { return w.author.Seed(p) }
func (w *world) header(iss entry.Principal) entry.Header   { return w.author.Header(iss) }
func (w *world) head(iss entry.Principal, body entry.Body) { w.author.Complete(iss, body) }
func (w *world) sign(body entry.Body) *entry.Entry         { return w.author.Sign(body) }

func (w *world) enrol(iss, p entry.Principal, roles ...entry.Role) *entry.Agent {
	return w.author.Enrol(iss, p, roles...)
}

func (w *world) exec(iss entry.Principal, id string, parents ...entry.Ref) *entry.Execution {
	return w.author.Exec(iss, id, parents...)
}

func (w *world) step(x *entry.Execution, progress entry.Progress) *entry.Execution {
	return w.author.Step(x, progress)
}

func (w *world) checkpoint(iss entry.Principal, id string, after entry.Ref) *entry.Checkpoint {
	return w.author.Checkpoint(iss, id, after)
}

func (w *world) genesis() *entry.Policy {
	p := entry.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: public(w.t, "root")})
	p.Header = w.header("root")
	p.Wid = ""
	return p
}

// nextPolicy returns a policy like the one in force.
func (w *world) nextPolicy() *entry.Policy {
	old, at := w.state.Chain().Policy()
	p := *old
	p.Header = w.header("root")
	p.Wid, p.Previous = "", &at
	return &p
}

func (w *world) signal(iss entry.Principal, standing entry.Standing, subject entry.Ref) *entry.Signal {
	s := w.author.Signal(iss, standing, subject)
	w.nameBefore(s)
	return s
}

// nameBefore makes a signal name the recorded incident that its subject was a
// member of.
func (w *world) nameBefore(s *entry.Signal) {
	if n, ok := w.state.resolve(w.state.executions.names, s.Subject); ok {
		if before, ok := w.state.recordedOf(n); ok {
			ref := w.state.logRef(before.opened)
			s.Supersedes = &ref
		}
	}
}

func someDigest(content string) entry.Digest { return entry.DigestOf(content) }

// put registers an entry that must be admitted, and returns where it stands.
func (w *world) put(body entry.Body) entry.LogRef {
	w.t.Helper()
	e := w.sign(body)
	must(w.t, w.admit(e))
	return entry.LogRef{Index: w.state.Size() - 1, LeafHash: merkle.HashLeaf(e.AppendLeaf(nil, w.at))}
}

// admit registers an entry, or checks that its refusal left no trace.
func (w *world) admit(e *entry.Entry) error {
	w.t.Helper()
	index := w.state.Size()
	before := w.snapshot()
	err := w.state.Admit(e, index, w.at)
	if !bytes.Equal(before, w.snapshot()) {
		w.t.Fatalf("Admit of entry %d changed the state", index)
	}
	if err == nil {
		w.state.Apply(e, index, w.at)
		w.log = append(w.log, entry.Registered{Entry: e, Index: index, RegisteredAt: w.at})
	}
	return err
}

// refuse checks that an entry is refused with this problem at this member.
func (w *world) refuse(e *entry.Entry, problem entry.Problem, field string) {
	w.t.Helper()
	_ = w.refused(e, problem, field)
}

// refused is refuse for those who want to see the refusal.
func (w *world) refused(e *entry.Entry, problem entry.Problem, field string) *entry.Refusal {
	w.t.Helper()
	err := w.admit(e)
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok || refusal.Problem != problem || refusal.Field != field {
		w.t.Fatalf("%s: %v, want %s at %q", e.Kind, err, problem, field)
	}
	return refusal
}

func (w *world) snapshot() []byte { return snapshot(w.t, w.state) }

func snapshot(tb testing.TB, s *State) []byte {
	tb.Helper()
	var out bytes.Buffer
	must(tb, s.Snapshot(&out))
	return out.Bytes()
}

// restored returns the state that a snapshot gives.
func restored(tb testing.TB, data []byte) *State {
	tb.Helper()
	s := NewState(origin)
	must(tb, s.Restore(bytes.NewReader(data)))
	return s
}

// checkAll checks that every way to the state gives the same bytes, and that
// an audit finds nothing.
func (w *world) checkAll() {
	w.t.Helper()
	want := w.snapshot()
	half := len(w.log) / 2
	rebuilt := NewState(origin)
	for _, e := range w.log[:half] {
		rebuilt.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	then, frozen, twin := snapshot(w.t, rebuilt), rebuilt.Frozen(), rebuilt.Clone()
	for _, s := range []*State{rebuilt, twin} {
		for _, e := range w.log[half:] {
			s.Apply(e.Entry, e.Index, e.RegisteredAt)
		}
	}
	if !bytes.Equal(snapshot(w.t, rebuilt), want) {
		w.t.Fatal("a state rebuilt from zero differs")
	}
	if !bytes.Equal(snapshot(w.t, twin), want) {
		w.t.Fatal("a clone that took up the rest of the log differs")
	}
	if !bytes.Equal(snapshot(w.t, frozen), then) {
		w.t.Fatal("what is frozen has changed")
	}
	again := restored(w.t, want)
	if !bytes.Equal(snapshot(w.t, again), want) {
		w.t.Fatal("a restored state differs")
	}
	w.checkDerived(again)
	w.checkDerived(twin)
	if size, found := AuditLog(w.t, origin, w.log, half); found != nil || size != uint64(len(w.log)) {
		w.t.Fatalf("audit of %d entries: %d are right, %+v", len(w.log), size, found)
	}
}
