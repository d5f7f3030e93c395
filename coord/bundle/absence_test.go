package bundle_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// indexed is a log whose coordinator writes an index entry when a bundle needs one.
type indexed struct {
	*foldlog.Log
	at    uint64 // newest index entry; 0: there is none
	index *testlog.Index
	lack  error // instead of waiting for an index entry
}

// Prove is an [assemble.Index], by the definition of the index.
func (x *indexed) Prove(subjects []entry.Subject, size uint64, _ bool) (*assemble.Proof, error) {
	if x.at == 0 || x.index.Size < size {
		if x.lack != nil {
			return nil, x.lack
		}
		x.cover()
	}
	p := &assemble.Proof{Indexed: x.index.Prove(subjects...), Entry: &x.Entries[x.at]}
	for i := range p.Subjects {
		s := &p.Subjects[i]
		for _, list := range s.Lists {
			if slices.Contains(bundle.IndexLabels()[s.Type], list.Label) {
				p.Found = append(p.Found, list.Indexes...)
			}
		}
	}
	return p, nil
}

func (x *indexed) cover() {
	x.index = x.Index(len(x.Leaves))
	x.at = x.Put("k", x.index.Entry(entry.Header{}))
}

// whole makes a bundle with the proof, and checks it as an agent that accepted something
// before.
func (x *indexed) whole(tb testing.TB, q api.BundleQuery, accepted bundle.Accepted) (*assemble.Made, bundle.Verdict, error) {
	tb.Helper()
	accepted.Root, accepted.Agent = x.Root, q.Agent
	q.From, q.Limit = accepted.Size(), 10
	m, err := new(assemble.Maker).Make(served{x.Log}, &assemble.Terms{Index: x.Prove}, q)
	if err != nil {
		return nil, bundle.Verdict{}, err
	}
	decoded, err := bundle.Decode(m.Data)
	must(tb, err)
	v, err := decoded.Check(accepted, x.At)
	return m, v, err
}

// TestWholeBundles follows an incident with proofs of absence: whatever stands behind the
// decision, in the index or behind it, the bundle shows what the rules ask for.
func TestWholeBundles(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	x := &indexed{Log: l}
	q := api.BundleQuery{Incident: id, Agent: "b"}
	know := bundle.Accepted{}
	for i, log := range []func(){
		func() {}, x.cover,
		func() { l.Do("c", "more", entry.EffectNone) },
		func() { l.Enrol("new", entry.RoleCoordinator) },
		func() { l.Put("root", revocation(l, "p", entry.RoleApprover)) },
		func() { l.Outcome(id, "b#mail", entry.ResultIrrevocable) },
		func() { l.Do("c", "bad", entry.EffectNone); l.Signal("c", "c#bad") },
		x.cover,
	} {
		log()
		for _, before := range []bundle.Accepted{know, {}} {
			_, v, err := x.whole(t, q, before)
			if err != nil || !v.Whole || len(v.Commands) != 2 {
				t.Fatalf("stage %d, from %d: %v, whole %t, %d commands", i, before.Size(), err, v.Whole, len(v.Commands))
			}
			know = v.Next
		}
	}
}

func revocation(l *foldlog.Log, p entry.Principal, role entry.Role) *entry.Agent {
	return &entry.Agent{Principal: p, Op: entry.Revoke, Key: l.Key(p).Public, Roles: []entry.Role{role}, Domain: "d", Span: entry.SpanWorkflow}
}

// TestWholeBundlesOfALongTail: more entries behind the index than a bundle may take along
// want another index entry.
func TestWholeBundlesOfALongTail(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	x := &indexed{Log: l}
	x.cover()
	first := x.at
	for range 600 {
		l.Put("c", foldlog.Execution(l.Header("c").JTI, entry.EffectNone))
	}
	m, v, err := x.whole(t, api.BundleQuery{Incident: id, Agent: "b"}, bundle.Accepted{})
	if err != nil || !v.Whole || x.at == first || m.Bundle.Index != x.at || len(m.Bundle.Entries) > 100 {
		t.Errorf("%v, whole %t, index at %d, before %d", err, v.Whole, x.at, first)
	}
	x.lack = entry.Refuse(entry.NotReady, "absences", "later")
	for range 600 {
		l.Put("c", foldlog.Execution(l.Header("c").JTI, entry.EffectNone))
	}
	if _, _, err := x.whole(t, api.BundleQuery{Incident: id, Agent: "b"}, bundle.Accepted{}); !errors.Is(err, x.lack) {
		t.Errorf("it answers %v", err)
	}
}

// TestBundlesWithoutAProof: who does not demand the proof gets a bundle without one, where
// no index entry is at hand or an amend is proposed. Who demands the proof gets the
// refusal, or the proposal.
func TestBundlesWithoutAProof(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	x := &indexed{Log: l, lack: assemble.ErrNoProof}
	q := api.BundleQuery{Incident: id, Agent: "b"}
	without := func(why string) {
		t.Helper()
		if _, v, err := x.whole(t, q, bundle.Accepted{}); err != nil || v.Whole || len(v.Commands) != 2 {
			t.Errorf("%s: %v, whole %t", why, err, v.Whole)
		}
	}
	without("no index entry")
	x.lack = nil
	l.Put("c", &entry.Signal{Subject: "b#pay", Class: "tool", Code: "error", Standing: entry.StandingDownstream, Effects: entry.EffectsUnknown,
		ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At})
	l.Decide(id, entry.ActEscalate)
	without("an amend is proposed")
	q.Absences = true
	if _, _, err := x.whole(t, q, bundle.Accepted{}); err == nil || !strings.Contains(err.Error(), "AGT-2: ") || !strings.Contains(err.Error(), "epoch") {
		t.Errorf("an amend is proposed: %v", err)
	}
}

// TestNoBundleWithoutTheIndex: a ledger that keeps no index gives no bundle to who demands
// the proof, and none at all under a policy that does; it still gives news.
func TestNoBundleWithoutTheIndex(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	q := api.BundleQuery{Incident: id, Agent: "b", Limit: 10}
	makes := func(q api.BundleQuery, want bool) {
		t.Helper()
		_, err := new(assemble.Maker).Make(served{l}, nil, q)
		refusal, refused := errors.AsType[*entry.Refusal](err)
		if refused == want || refused && (refusal.Problem != entry.NotFound || refusal.Field != "absences") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	makes(q, true)
	asks := q
	asks.Absences = true
	makes(asks, false)
	p := *l.Entries[0].Body.(*entry.Policy)
	p.Previous = &entry.LogRef{Index: 0, LeafHash: l.Entries[0].LeafHash()}
	p.Index = &entry.IndexPolicy{Required: true}
	l.Put("root", &p)
	makes(q, false)
	makes(api.BundleQuery{Agent: "b", Limit: 10}, true)
	if _, v, err := (&indexed{Log: l}).whole(t, q, bundle.Accepted{}); err != nil || !v.Whole {
		t.Errorf("with an index: %v", err)
	}
}

// TestWholeBundlesPastAVote has an approver vote for an override, which stops nothing alone, and
// the coordinator amend the plan: the agent obeys the amend, also where members were open before.
func TestWholeBundlesPastAVote(t *testing.T) {
	l := foldlog.New(t)
	coordinates := func() {
		for {
			todo, _ := l.State.Next(l.At + 1000)
			if len(todo) == 0 {
				return
			}
			l.Put("k", todo[0])
		}
	}
	l.Do("a", "base", entry.EffectNone)
	l.Do("b", "make", entry.EffectCompensable, "a#base")
	l.Do("b", "use", entry.EffectCompensable, "b#make")
	l.Do("b", "read", entry.EffectNone, "b#make")
	id := l.Signal("b", "b#make")
	coordinates()
	l.Put("p", override(t, l, id))
	l.Signal("a", "a#base")
	coordinates()
	if d := l.Entries[l.Incident(id).Decision.Ref.Index].Body.(*entry.Decision); d.Act != entry.ActAmend {
		t.Fatalf("nothing was amended: %+v", d)
	}
	x := &indexed{Log: l}
	for i, then := range []func(){func() {}, func() { l.Compensate(id, "b#use") }} {
		then()
		_, v, err := x.whole(t, api.BundleQuery{Incident: id, Agent: "b"}, bundle.Accepted{})
		if err != nil || !v.Whole || len(v.Commands) != 3 || slices.ContainsFunc(v.Commands, func(c bundle.Command) bool { return c.Refused != nil }) {
			t.Errorf("stage %d: %v, whole %t, %v", i, err, v.Whole, v.Commands)
		}
	}
}
