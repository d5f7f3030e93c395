// Package foldlog is a log in memory that admits what the fold admits. The tests of rooms
// above the fold make their logs with it.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package foldlog

import (
	"cmp"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

// Log is a ledger, its state and its entries.
type Log struct {
	*testlog.Log
	State   *coord.State
	Entries []entry.Registered
}

// New returns a log with a genesis policy by root, agents a, b and c, the coordinator k,
// the approver p and the operator o.
func New(tb testing.TB) *Log {
	tb.Helper()
	l := &Log{Log: testlog.New(tb), State: coord.NewState(testlog.Origin)}
	l.Put("root", entry.Genesis(testlog.Origin, entry.AuthorityKey{Principal: "root", Key: l.Key("root").Public}))
	for _, p := range []entry.Principal{"a", "b", "c"} {
		l.Enrol(p, entry.RoleAgent)
	}
	l.Enrol("k", entry.RoleCoordinator)
	l.Enrol("p", entry.RoleApprover)
	l.Enrol("o", entry.RoleOperator)
	return l
}

// Key returns the key of a principal.
func (l *Log) Key(p entry.Principal) testlog.Key { return testlog.NewKey(l.TB, p, string(p)) }

// Enrol enrols a principal in a role.
func (l *Log) Enrol(p entry.Principal, role entry.Role) {
	l.TB.Helper()
	l.Put("root", &entry.Agent{Principal: p, Op: entry.Enrol, Key: l.Key(p).Public, Roles: []entry.Role{role}, Domain: "d", Span: entry.SpanWorkflow})
}

// Sign returns the entry with that content, by a principal, now.
func (l *Log) Sign(iss entry.Principal, body entry.Body) *entry.Entry {
	l.TB.Helper()
	h := entry.HeaderOf(body)
	h.V, h.JTI, h.Iss, h.Aud, h.Iat = 1, l.Header(iss).JTI, iss, testlog.Origin, l.At/1000
	switch body.Kind() {
	case entry.KindPolicy, entry.KindAgent, entry.KindIndex: // of no workflow
	default:
		h.Wid = cmp.Or(h.Wid, "w")
	}
	return l.Key(iss).Sign(l.TB, body)
}

// Put registers an entry by a principal, which must be admitted, and returns its index.
func (l *Log) Put(iss entry.Principal, body entry.Body) uint64 {
	l.TB.Helper()
	e := l.Sign(iss, body)
	if err := l.State.Admit(e, l.State.Size(), l.At+1000); err != nil {
		l.TB.Fatalf("%s of %s: %v", e.Kind, iss, err)
	}
	l.Forge(e)
	index := l.State.Size()
	l.State.Apply(e, index, l.At)
	return index
}

// Forge appends an entry without asking whether it is admissible, as whoever owns the
// ledger could. The state does not take it up.
func (l *Log) Forge(e *entry.Entry) {
	l.TB.Helper()
	index := l.Add(e)
	l.Entries = append(l.Entries, entry.Registered{Entry: e, Index: index, RegisteredAt: l.At})
}

// Digest returns some digest.
func Digest(digit string) entry.Digest { return entry.Digest("sha256:" + strings.Repeat(digit, 64)) }

// Execution returns the first entry of an execution with its hard parents.
func Execution(id string, effect entry.Effect, parents ...entry.Ref) *entry.Execution {
	x := &entry.Execution{Exec: id, Effect: effect, Progress: entry.Planned, Parents: []entry.Parent{}}
	if effect != entry.EffectNone {
		x.IdempotencyKey = entry.DigestOf(id)
	}
	for _, p := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: p, Dep: entry.Hard})
	}
	return x
}

// Do registers an execution from planned to confirmed.
func (l *Log) Do(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) {
	l.TB.Helper()
	x := Execution(id, effect, parents...)
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		next := *x
		next.Progress = progress
		l.Put(iss, &next)
	}
}

// InFlight registers an irrevocable execution that is started, and the signal of its agent
// that it failed without an effect. end makes the execution final: nothing is left to undo
// then, so that the plan of the incident is another one.
func (l *Log) InFlight(iss entry.Principal, id string) (incident uint64, end func()) {
	l.TB.Helper()
	put := func(progress entry.Progress) {
		x := Execution(id, entry.EffectIrrevocable)
		x.Progress = progress
		l.Put(iss, x)
	}
	put(entry.Planned)
	put(entry.Started)
	incident = l.Put(iss, &entry.Signal{Subject: entry.NewRef(iss, id), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsNone, ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At})
	return incident, func() { put(entry.Failed) }
}

// Signal registers a failure signal of an agent about its own execution, and returns the
// incident.
func (l *Log) Signal(iss entry.Principal, subject entry.Ref) (incident uint64) {
	l.TB.Helper()
	return l.Put(iss, &entry.Signal{Subject: subject, Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At})
}

// Decide registers a decision of the coordinator.
func (l *Log) Decide(incident uint64, act entry.Act) {
	l.TB.Helper()
	d, err := l.State.Draft(coord.Order{Incident: incident, Act: act, Reason: "test"}, l.At+1000)
	if err != nil {
		l.TB.Fatal(err)
	}
	l.Put("k", d)
}

// Approve escalates an incident, lets p approve, and registers what the coordinator
// writes then.
func (l *Log) Approve(incident uint64) {
	l.TB.Helper()
	l.Decide(incident, entry.ActEscalate)
	l.Put("p", &entry.Approval{Incident: incident, Proposal: l.Incident(incident).Proposal.Ref, Verdict: "approve", Exp: l.At/1000 + 3600, Reason: "test"})
	todo, _ := l.State.Next(l.At + 1000)
	for _, body := range todo {
		l.Put("k", body)
	}
}

// Incident returns the view of an incident.
func (l *Log) Incident(incident uint64) api.Incident {
	l.TB.Helper()
	view, ok := l.State.Incident(incident, l.At)
	if !ok {
		l.TB.Fatalf("no incident %d", incident)
	}
	return view
}

// Outcome registers what became of a member, by its agent. A compensated member must have
// been compensated by [Log.Compensate].
func (l *Log) Outcome(incident uint64, exec entry.Ref, result entry.Result) {
	l.TB.Helper()
	o := &entry.Outcome{Incident: incident, Decision: l.Incident(incident).Decision.Ref, Exec: exec, Result: result, ObservedAt: l.At}
	switch result {
	case entry.Restored:
		o.PostDigest = Digest("1")
	case entry.Compensated:
		o.CompExec = exec + ".undo"
	case entry.NotExecuted:
	default:
		o.Residual = "something"
	}
	agent, _ := exec.Split()
	l.Put(agent, o)
}

// Compensate registers a whole compensation of a member, and its outcome.
func (l *Log) Compensate(incident uint64, exec entry.Ref) {
	l.TB.Helper()
	agent, id := exec.Split()
	x := Execution(id+".undo", entry.EffectIrrevocable)
	x.Compensates = &entry.Compensates{Incident: incident, Decision: l.Incident(incident).Decision.Ref, Exec: exec}
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		next := *x
		next.Progress = progress
		l.Put(agent, &next)
	}
	l.Outcome(incident, exec, entry.Compensated)
}
