package coordinator

import (
	"bytes"
	"errors"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

const (
	origin = testlog.Origin
	start  = int64(1_790_000_000_000) // registered_at of the first entry
	minute = int64(60_000)            // in milliseconds
	hour   = 60 * minute
)

// world makes and signs the entries of everybody. What depends on the log follows from
// state.
type world struct {
	*testlog.Author
	t     testing.TB
	state *coord.State
	log   []entry.Registered
	at    int64
}

func emptyWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{t: tb, state: coord.NewState(origin), at: start}
	w.Author = &testlog.Author{TB: tb, Now: func() int64 { return w.at }, Seeds: map[entry.Principal]string{}}
	return w
}

// newWorld returns a world whose state is that of a log with a genesis policy by
// "root", agents a and b, monitor m, operator o, enroller e and coordinator k.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := emptyWorld(tb)
	w.put(w.genesis())
	for p, role := range map[entry.Principal]entry.Role{"a": entry.RoleAgent, "b": entry.RoleAgent, "m": entry.RoleMonitor,
		"o": entry.RoleOperator, "e": entry.RoleEnroller, "k": entry.RoleCoordinator} {
		w.put(w.Enrol("root", p, role))
	}
	return w
}

// put registers an entry that must be admitted.
func (w *world) put(body entry.Body) {
	w.t.Helper()
	e := w.Sign(body)
	must(w.t, w.state.Admit(e, w.state.Size(), w.at))
	w.log = append(w.log, entry.Registered{Entry: e, Index: w.state.Size(), RegisteredAt: w.at})
	w.state.Apply(e, w.state.Size(), w.at)
}

// refused checks that an entry is refused with this problem at this member.
func (w *world) refused(e *entry.Entry, problem entry.Problem, field string) *entry.Refusal {
	w.t.Helper()
	err := w.state.Admit(e, w.state.Size(), w.at)
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok || refusal.Problem != problem || refusal.Field != field {
		w.t.Fatalf("%s: %v, want %s at %q", e.Kind, err, problem, field)
	}
	return refusal
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (w *world) genesis() *entry.Policy {
	p := entry.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: testlog.Public(w.t, "root")})
	p.Header = w.Header("root")
	p.Wid = ""
	return p
}

// nextPolicy returns a policy like the one in force.
func (w *world) nextPolicy() *entry.Policy {
	old, at := w.state.Chain().Policy()
	p := *old
	p.Header = w.Header("root")
	p.Wid, p.Previous = "", &at
	return &p
}

func someDigest(content string) entry.Digest { return entry.DigestOf(content) }

// order returns the decision that carries out an order, by a principal.
func (w *world) order(iss entry.Principal, o coord.Order) *entry.Decision {
	w.t.Helper()
	if o.Reason == "" {
		o.Reason = "test"
	}
	d, err := w.state.Draft(o, w.at)
	must(w.t, err)
	w.Complete(iss, d)
	return d
}

// decision returns the decision in force of an incident.
func (w *world) decision(incident uint64) entry.LogRef {
	w.t.Helper()
	v, ok := w.state.Incident(incident, w.at)
	if !ok || v.Decision == nil {
		w.t.Fatalf("incident %d: %+v", incident, v)
	}
	return v.Decision.Ref
}

// outcome returns the first outcome of a member for the decision in force.
func (w *world) outcome(iss entry.Principal, incident uint64, exec entry.Ref, r entry.Result) *entry.Outcome {
	w.t.Helper()
	o := &entry.Outcome{Header: w.Header(iss), Incident: incident, Exec: exec, Result: r, ObservedAt: w.at, Decision: w.decision(incident)}
	if r == entry.Compensated {
		o.CompExec = exec + ".undo"
	}
	return o
}

// compensation returns the first entry of a compensation of a member.
func (w *world) compensation(incident uint64, exec entry.Ref) *entry.Execution {
	w.t.Helper()
	agent, id := exec.Split()
	x := w.Exec(agent, id+".undo")
	x.Effect, x.IdempotencyKey = entry.EffectIrrevocable, someDigest(string(exec)+"|0")
	x.Compensates = &entry.Compensates{Incident: incident, Exec: exec, Decision: w.decision(incident)}
	return x
}

func (w *world) newTask(id string) *entry.Task {
	return &entry.Task{Header: w.Header("o"), Task: entry.NewRef("o", id), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "test"}
}

// move returns the entry of an operation on a task.
func (w *world) move(iss entry.Principal, ref entry.Ref, op string, agent entry.Principal) *entry.Task {
	w.t.Helper()
	v, _ := w.state.Task(ref)
	b, ok := v.Move(op, agent, "test")
	if !ok {
		w.t.Fatalf("%s of %s, which is %s", op, ref, v.State)
	}
	b.Header = w.Header(iss)
	return b
}

// work returns the first entry of an execution for a task.
func (w *world) work(iss entry.Principal, id string, task entry.Ref, effect entry.Effect) *entry.Execution {
	x := w.Exec(iss, id)
	if x.Task, x.Effect = task, effect; effect != entry.EffectNone {
		x.IdempotencyKey = someDigest(id)
	}
	return x
}

func snapshot(tb testing.TB, s *coord.State) []byte {
	tb.Helper()
	var out bytes.Buffer
	must(tb, s.Snapshot(&out))
	return out.Bytes()
}

func problemOf(r *entry.Refusal) entry.Problem {
	if r == nil {
		return ""
	}
	return r.Problem
}

// open returns how many incidents are not over.
func open(s *coord.State) (n int) {
	for state, some := range s.Census(0).States {
		if state.Open() {
			n += some
		}
	}
	return n
}
