package coord

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const (
	origin = "ledger.example/test"
	start  = int64(1_790_000_000_000) // registered_at of the first entry
)

// world is a log in the making: a state, what was admitted, and everybody's
// keys.
type world struct {
	t     testing.TB
	state *State
	log   []entry.Registered
	at    int64
	jti   uint64
	keys  map[entry.Principal]string // the seed that a principal signs with
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
	return &world{t: tb, state: NewState(origin), at: start, keys: map[entry.Principal]string{}}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// private returns the key that a seed gives.
func private(seed string) ed25519.PrivateKey {
	sum := sha256.Sum256([]byte(seed))
	return ed25519.NewKeyFromSeed(sum[:])
}

func public(tb testing.TB, seed string) entry.PublicKey {
	tb.Helper()
	key, err := entry.NewPublicKey(private(seed).Public())
	must(tb, err)
	return key
}

// seed returns what a principal signs with: its own name unless it rotated.
func (w *world) seed(p entry.Principal) string {
	if seed, ok := w.keys[p]; ok {
		return seed
	}
	return string(p)
}

// header returns the next header of an issuer, in workflow w.
func (w *world) header(iss entry.Principal) entry.Header {
	w.jti++
	id := uuid.UUID(binary.BigEndian.AppendUint64(make([]byte, 8), w.jti))
	return entry.Header{V: 1, JTI: id.String(), Iss: iss, Aud: origin, Iat: w.at / 1000, Wid: "w"}
}

func (w *world) genesis() *entry.Policy {
	p := Genesis(origin, entry.AuthorityKey{Principal: "root", Key: public(w.t, "root")})
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

func (w *world) enrol(iss, p entry.Principal, roles ...entry.Role) *entry.Agent {
	a := &entry.Agent{
		Header: w.header(iss), Principal: p, Op: entry.Enrol, Key: public(w.t, w.seed(p)),
		Roles: roles, Domain: "d", Span: entry.SpanWorkflow,
	}
	a.Wid = ""
	return a
}

// exec returns a planned execution without parents and effect.
func (w *world) exec(iss entry.Principal, id string, parents ...entry.Ref) *entry.Execution {
	x := &entry.Execution{
		Header: w.header(iss), Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	}
	for _, p := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: p, Dep: entry.Hard})
	}
	return x
}

// step returns a later entry of an execution.
func (w *world) step(x *entry.Execution, progress entry.Progress) *entry.Execution {
	next := *x
	next.Header = w.header(x.Iss)
	next.Wid, next.Progress = x.Wid, progress
	return &next
}

func (w *world) checkpoint(iss entry.Principal, id string, after entry.Ref) *entry.Checkpoint {
	c := &entry.Checkpoint{Header: w.header(iss), Checkpoint: id, Digest: someDigest("state")}
	if after != "" {
		c.After = &after
	}
	return c
}

func (w *world) signal(iss entry.Principal, standing entry.Standing, subject entry.Ref) *entry.Signal {
	s := &entry.Signal{
		Header: w.header(iss), Subject: subject, Class: "tool", Code: "error", Standing: standing,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: w.at,
	}
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

// sign returns the entry with that content, signed by its issuer.
func (w *world) sign(body entry.Body) *entry.Entry {
	w.t.Helper()
	e, err := entry.New(body)
	must(w.t, err)
	seed := w.seed(e.Header.Iss)
	e.Seal(public(w.t, seed).KeyID(), ed25519.Sign(private(seed), e.PAE()))
	return e
}

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
	then, frozen, twin := snapshot(w.t, rebuilt), rebuilt.frozen(), rebuilt.clone()
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
	w.checkFollower(half)
}

// checkFollower audits the log at one go, and with a stop after so many entries,
// behind which a restored follower goes on: nothing is found, and all is alike.
func (w *world) checkFollower(stop int) {
	w.t.Helper()
	straight, before, after := NewFollower(origin), NewFollower(origin), NewFollower(origin)
	follow := func(f *Follower, log []entry.Registered) AuditReport {
		w.t.Helper()
		report, err := f.Follow(w.t.Context(), each(log), nil)
		must(w.t, err)
		if report.Finding != nil {
			w.t.Fatalf("audit: %+v", report.Finding)
		}
		return report
	}
	want := follow(straight, w.log)
	if want.Size != uint64(len(w.log)) {
		w.t.Fatalf("audit of %d entries: %+v", len(w.log), want)
	}
	follow(before, w.log[:stop])
	must(w.t, after.Restore(bytes.NewReader(followerSnapshot(w.t, before))))
	got := follow(after, w.log[stop:])
	if got.Size != want.Size || !slices.Equal(got.Kinds, want.Kinds) || after.RegisteredAt() != straight.RegisteredAt() {
		w.t.Fatalf("an audit that went on after %d entries says %+v, one at one go %+v", stop, got, want)
	}
	if !bytes.Equal(followerSnapshot(w.t, after), followerSnapshot(w.t, straight)) {
		w.t.Fatalf("an audit that went on after %d entries differs", stop)
	}
}

func followerSnapshot(tb testing.TB, f *Follower) []byte {
	tb.Helper()
	var out bytes.Buffer
	must(tb, f.Snapshot(&out))
	return out.Bytes()
}

// each yields the entries as a store would: decoded anew.
func each(log []entry.Registered) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for _, e := range log {
			decoded, at, err := entry.DecodeLeaf(e.AppendLeaf(nil))
			if !yield(entry.Registered{Entry: decoded, Index: e.Index, RegisteredAt: at}, err) {
				return
			}
		}
	}
}
