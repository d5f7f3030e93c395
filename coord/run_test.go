package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

func (w *world) run(id, op string) *entry.Run {
	r := &entry.Run{
		Header: w.header("r"), Run: id, Op: op, ConfigDigest: someDigest("config"), ScenarioDigest: someDigest("scenario"),
		Seed: 7, Engine: "arl/test",
	}
	if op == "close" {
		r.RunRoot, r.ReportDigest, r.Recommendation = someDigest("root"), someDigest("report"), "promote"
	}
	return r
}

func (w *world) attempt(run, id string) *entry.Attempt {
	h := w.header("r")
	h.JTI = entry.AttemptJTI(run, id)
	return &entry.Attempt{Header: h, Run: run, AttemptCase: entry.AttemptCase{
		Case: id, Rungs: []entry.Rung{}, Status: entry.StatusRecovered, TraceDigest: someDigest("trace"),
	}}
}

// outside is an attempt outside of a run, about the work of an agent.
func (w *world) outside(iss, agent entry.Principal) *entry.Attempt {
	return &entry.Attempt{Header: w.header(iss), Agent: agent, AttemptCase: entry.AttemptCase{Case: "1", Rungs: []entry.Rung{}, Status: entry.StatusPassedOn}}
}

// TestAttemptsOutsideOfRuns has an agent write of itself, and an engine and a coordinator of
// others.
func TestAttemptsOutsideOfRuns(t *testing.T) {
	w := newWorld(t)
	for _, iss := range []entry.Principal{"a", "r", "k"} {
		w.put(w.outside(iss, "a"))
		w.put(w.outside(iss, "a")) // an agent may fail twice
	}
	w.refuse(w.sign(w.outside("b", "a")), entry.UnauthorizedRole, "agent")
}

// withRuns registers the runs r#open, with an attempt for case 1, and r#closed.
func withRuns(w *world) {
	w.put(w.run("open", "open"))
	w.put(w.attempt("open", "1"))
	w.put(w.run("closed", "open"))
	w.put(w.run("closed", "close"))
}

// TestRuns takes runs of two engines, with the same ids, through their lives.
func TestRuns(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "r2", entry.RoleEngine))
	withRuns(w)
	other := w.run("open", "open")
	other.Header = w.header("r2")
	w.put(other)
	a := w.attempt("open", "1")
	a.Iss, a.Wid = "r2", "another" // a case may have a workflow of its own
	w.put(a)
	w.put(w.attempt("open", "2"))
	w.state = restored(t, w.snapshot())
	again := w.attempt("open", "2")
	again.JTI = entry.AttemptJTI("open", "3")
	w.refuse(w.sign(again), entry.StateConflict, "jti")
	w.put(w.run("open", "close"))
	w.refuse(w.sign(w.attempt("open", "3")), entry.StateConflict, "run")
	w.checkAll()
}

var runRules = []refusal{
	{"REG-4 a run by an agent", func(w *world) *entry.Entry {
		r := w.run("x", "open")
		r.Header = w.header("a")
		return w.sign(r)
	}, entry.UnauthorizedRole, "iss"},
	{"REG-4 an attempt by an operator", func(w *world) *entry.Entry {
		a := w.attempt("open", "x")
		a.Header = w.header("o")
		return w.sign(a)
	}, entry.UnauthorizedRole, "iss"},
	{"RUN-2 an agent's attempt within a run", func(w *world) *entry.Entry {
		a := w.attempt("open", "x")
		a.Header = w.header("a")
		return w.sign(a)
	}, entry.UnknownSubject, "run"},
	{"RUN-2 an agent about another one", func(w *world) *entry.Entry { return w.sign(w.outside("a", "b")) }, entry.UnauthorizedRole, "agent"},
	{"RUN-1 opened twice", func(w *world) *entry.Entry { return w.sign(w.run("open", "open")) }, entry.StateConflict, "run"},
	{"RUN-1 opened again", func(w *world) *entry.Entry { return w.sign(w.run("closed", "open")) }, entry.StateConflict, "run"},
	{"RUN-1 closed before it is opened", func(w *world) *entry.Entry { return w.sign(w.run("x", "close")) }, entry.UnknownSubject, "run"},
	{"RUN-1 closed twice", func(w *world) *entry.Entry { return w.sign(w.run("closed", "close")) }, entry.StateConflict, "op"},
	{"RUN-1 another's run", func(w *world) *entry.Entry {
		w.put(w.enrol("root", "r2", entry.RoleEngine))
		r := w.run("open", "close")
		r.Header = w.header("r2")
		return w.sign(r)
	}, entry.UnknownSubject, "run"},
	{"RUN-1 another configuration", func(w *world) *entry.Entry {
		r := w.run("open", "close")
		r.ConfigDigest = someDigest("another")
		return w.sign(r)
	}, entry.StateConflict, "op"},
	{"RUN-1 another seed", func(w *world) *entry.Entry {
		r := w.run("open", "close")
		r.Seed++
		return w.sign(r)
	}, entry.StateConflict, "op"},
	{"RUN-1 another workflow", func(w *world) *entry.Entry {
		r := w.run("open", "close")
		r.Wid = "w2"
		return w.sign(r)
	}, entry.StateConflict, "op"},
	{"RUN-2 no such run", func(w *world) *entry.Entry { return w.sign(w.attempt("x", "1")) }, entry.UnknownSubject, "run"},
	{"RUN-2 another's run", func(w *world) *entry.Entry {
		w.put(w.enrol("root", "r2", entry.RoleEngine))
		a := w.attempt("open", "2")
		a.Header = w.header("r2")
		return w.sign(a)
	}, entry.UnknownSubject, "run"},
	{"RUN-2 a closed run", func(w *world) *entry.Entry { return w.sign(w.attempt("closed", "1")) }, entry.StateConflict, "run"},
	{"RUN-2 a jti of its own, for a case twice", func(w *world) *entry.Entry {
		a := w.attempt("open", "1")
		a.Header = w.header("r")
		return w.sign(a)
	}, entry.StateConflict, "jti"},
}
