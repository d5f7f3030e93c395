package tally_test

import (
	"reflect"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/tally"
)

// log is a log of which every entry is proven, an entry a second.
type log []verify.Entry

// add appends an entry by iss, and returns its index.
func (l *log) add(iss entry.Principal, body entry.Body) uint64 {
	index := uint64(len(*l))
	e := &entry.Entry{Kind: body.Kind(), Header: &entry.Header{Iss: iss}, Body: body}
	*l = append(*l, verify.Entry{Registered: entry.Registered{Entry: e, Index: index, RegisteredAt: int64(index) * 1000}, Signed: true})
	return index
}

func (l *log) signal(iss entry.Principal, subject entry.Ref, class, code string) uint64 {
	return l.add(iss, &entry.Signal{Header: entry.Header{Iss: iss}, Subject: subject, Class: class, Code: code})
}

func (l *log) outcome(iss entry.Principal, incident uint64, exec entry.Ref, result entry.Result) {
	l.add(iss, &entry.Outcome{Header: entry.Header{Iss: iss}, Incident: incident, Exec: exec, Result: result})
}

func (l *log) record(incident uint64, found ...entry.Disposition) {
	l.add("k", &entry.Record{Header: entry.Header{Iss: "k"}, Incident: incident, Dispositions: found})
}

func (l *log) task(iss entry.Principal, t entry.Task) {
	t.Header, t.Task = entry.Header{Iss: iss}, "o#job"
	l.add(iss, &t)
}

// counts are those of agent a, where all of the log is shown.
func (l *log) counts(t *testing.T, incidents ...uint64) tally.Counts {
	t.Helper()
	size := uint64(len(*l))
	r := verify.Report{Entries: *l, Answers: []verify.Answer{
		{Question: verify.Question{Subject: entry.Subject{Type: entry.SubjectAgent, Value: "a"}, Size: size}}}}
	for _, id := range incidents {
		r.Answers = append(r.Answers, verify.Answer{Question: verify.Question{
			Subject: entry.Subject{Type: entry.SubjectIncident, Value: entry.IncidentValue(id)}, Size: size}})
	}
	all := tally.Of(&r)
	if len(all) != 1 || all[0].Agent != "a" || all[0].Size != size {
		t.Fatalf("counts %+v", all)
	}
	return all[0]
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %+v\nwant %+v", what, got, want)
	}
}

// disposition is what a record says of a signal; domains bear it out.
func disposition(index uint64, word string, independent bool, domains ...string) entry.Disposition {
	return entry.Disposition{Index: index, Disposition: word, Independent: independent, Domains: domains}
}

// TestFailures counts works by class and code, each once with the strongest verdict, and
// says who reported and which domains bear it out.
func TestFailures(t *testing.T) {
	var l log
	first := l.signal("a", "a#x", "output", "bad_arguments")
	again := l.signal("far", "a#x", "output", "bad_arguments")
	denied := l.signal("far", "a#y", "output", "bad_arguments")
	timeout := l.signal("b", "a#z", "tool", "timeout")
	opinion := l.signal("b", "a#z", "output", "ungrounded") // without evidence, the code is opinion
	l.signal("b", "c#z", "tool", "timeout")                 // somebody else's
	l.record(first, disposition(first, entry.SelfReported, false), disposition(again, entry.Corroborated, true, "d"))
	l.record(timeout, disposition(timeout, entry.Corroborated, false, "d"))
	l.add("p", &entry.Decision{Header: entry.Header{Iss: "p"}, Incident: denied, Act: entry.ActDeny,
		Dispositions: []entry.Disposition{disposition(denied, entry.Dismissed, false)}})
	is(t, "failures", l.counts(t, first, denied, timeout, opinion).Failures, []tally.Failure{
		{Class: "output", Code: "bad_arguments", Works: 2, Verdicts: tally.Verdicts{Corroborated: 1, Dismissed: 1}, Reporters: []entry.Principal{"a", "far"}, Domains: []string{"d"}},
		{Class: "output", Code: "unknown", Works: 1, Verdicts: tally.Verdicts{Open: 1}, Reporters: []entry.Principal{"b"}, Domains: []string{}},
		{Class: "tool", Code: "timeout", Works: 1, Verdicts: tally.Verdicts{OwnDomain: 1}, Reporters: []entry.Principal{"b"}, Domains: []string{"d"}},
	})
}

// TestSignals counts the agent's own signals by their newest verdict.
func TestSignals(t *testing.T) {
	var l log
	var ids []uint64
	for _, d := range []entry.Disposition{disposition(0, entry.Corroborated, true, "e"), disposition(0, entry.Corroborated, false, "d"),
		disposition(0, entry.SelfReported, false), disposition(0, entry.Inconclusive, false), disposition(0, entry.Dismissed, false)} {
		d.Index = l.signal("a", "b#x", "tool", "timeout")
		l.record(d.Index, d)
		ids = append(ids, d.Index)
	}
	merged := l.signal("a", "b#x", "tool", "timeout")
	l.record(ids[0], disposition(merged, entry.Inconclusive, false))
	l.record(ids[1], disposition(merged, entry.Dismissed, false))
	open := l.signal("a", "b#y", "tool", "timeout")
	got := l.counts(t, append(ids, open)...)
	is(t, "signals", got.Signals, tally.Verdicts{Corroborated: 1, OwnDomain: 1, SelfReported: 1, Inconclusive: 1, Dismissed: 2, Open: 1})
	is(t, "failures of its own", got.Failures, []tally.Failure{})
}

// TestOutcomes counts members by their newest result, with the time since the opening
// signal, and what was reported behind the record.
func TestOutcomes(t *testing.T) {
	var l log
	foreign, alone := l.signal("far", "a#x", "tool", "timeout"), l.signal("a", "a#y", "tool", "timeout")
	l.outcome("a", foreign, "a#x", entry.Restored)     // 2 s
	l.outcome("o", foreign, "a#z", entry.ResultFailed) // 3 s
	l.outcome("a", alone, "a#y", entry.Restored)       // 3 s
	l.outcome("b", foreign, "b#x", entry.Restored)     // somebody else's
	l.record(foreign, disposition(foreign, entry.Corroborated, true, "d"))
	l.record(alone, disposition(alone, entry.SelfReported, false))
	l.outcome("a", foreign, "a#z", entry.Compensated) // 8 s, a correction
	got := l.counts(t, foreign, alone)
	is(t, "outcomes", got.Outcomes, []tally.Outcome{
		{Result: entry.Restored, Members: 2, Corroborated: 1, Own: 2, FastestMS: 2000, MedianMS: 2000, SlowestMS: 3000},
		{Result: entry.Compensated, Members: 1, Corroborated: 1, Own: 1, FastestMS: 8000, MedianMS: 8000, SlowestMS: 8000},
	})
	is(t, "memberships and corrections", []int64{got.Memberships, got.Corrections}, []int64{3, 1})
}

// TestTasks counts claims, how they ended, and what was spent on those that failed.
func TestTasks(t *testing.T) {
	var l log
	snapshot := func(agent entry.Principal, class, code string) *entry.Snapshot {
		return &entry.Snapshot{Agent: agent, Class: class, Code: code, CostMicroUSD: 250, Attempts: 3}
	}
	l.task("k", entry.Task{Op: entry.TaskAssign, Agent: "a", From: entry.TaskCreated, Epoch: 1})
	l.task("a", entry.Task{Op: entry.TaskStart})
	l.task("k", entry.Task{Op: entry.TaskFail, Agent: "a", Snapshot: snapshot("a", "process", "exit")})
	l.task("k", entry.Task{Op: entry.TaskAssign, Agent: "a", From: entry.TaskFailed, Epoch: 2})
	l.task("k", entry.Task{Op: entry.TaskInterrupt, Agent: "a", Snapshot: snapshot("a", "process", "lost")})
	l.task("k", entry.Task{Op: entry.TaskAssign, Agent: "a", From: entry.TaskInterrupted, Epoch: 3})
	l.task("a", entry.Task{Op: entry.TaskBlock})
	l.task("o", entry.Task{Op: entry.TaskRelease, Agent: "a", From: entry.TaskFailed, Epoch: 4})
	l.task("a", entry.Task{Op: entry.TaskComplete})
	l.task("k", entry.Task{Op: entry.TaskFail, Agent: "b", Snapshot: snapshot("b", "process", "exit")}) // somebody else's
	is(t, "tasks", l.counts(t).Tasks, tally.Tasks{Assigned: 4, Started: 1, Completed: 1, Blocked: 1, Interrupted: 1,
		Crashes: []tally.Crash{{Class: "process", Code: "exit", Claims: 1}}, Retries: 1, Restarts: 4, CostMicroUSD: 500})
}

// TestAttempts counts the steps of recovery of the agent's own work, by strategy, whoever wrote
// them.
func TestAttempts(t *testing.T) {
	var l log
	cost, latency := int64(7), int64(40)
	rungs := []entry.Rung{{Strategy: "retry", Result: "failed", CostMicroUSD: &cost, LatencyMS: &latency}, {Strategy: "retry", Result: "failed", CostMicroUSD: &cost},
		{Strategy: "fallback_model", Result: "ok"}}
	l.add("a", &entry.Attempt{Header: entry.Header{Iss: "a"}, AttemptCase: entry.AttemptCase{Rungs: rungs}})
	l.add("r", &entry.Attempt{Header: entry.Header{Iss: "r"}, Agent: "a", Also: []entry.AttemptCase{{}}})
	l.add("a", &entry.Attempt{Header: entry.Header{Iss: "a"}, Agent: "a", Arm: entry.ArmShadow, AttemptCase: entry.AttemptCase{Rungs: rungs}})
	l.add("a", &entry.Attempt{Header: entry.Header{Iss: "a"}, Agent: "b", AttemptCase: entry.AttemptCase{Rungs: rungs}})
	l.add("b", &entry.Attempt{Header: entry.Header{Iss: "b"}, AttemptCase: entry.AttemptCase{Rungs: rungs}})
	got := l.counts(t)
	is(t, "attempts", got.Attempts, int64(3))
	is(t, "strategies", got.Strategies, []tally.Strategy{{Strategy: "fallback_model", Result: "ok", Steps: 1},
		{Strategy: "retry", Result: "failed", Steps: 2, CostMicroUSD: 14, LatencyMS: 40}})
}

// TestPages counts histories that adjoin as one, begins anew behind a gap, and says which
// incidents are not shown.
func TestPages(t *testing.T) {
	var l log
	id := l.signal("a", "a#x", "tool", "timeout")
	for range 9 {
		l.add("a", &entry.Execution{Header: entry.Header{Iss: "a"}})
	}
	page := func(from, size uint64) verify.Answer {
		return verify.Answer{Question: verify.Question{Subject: entry.Subject{Type: entry.SubjectAgent, Value: "a"}, From: from, Size: size}}
	}
	all := tally.Of(&verify.Report{Entries: l, Answers: []verify.Answer{page(8, 10), page(3, 5), page(0, 4),
		{Question: verify.Question{Subject: entry.Subject{Type: entry.SubjectAgent, Value: "b"}, Label: "execution", Size: 10}}}})
	var got [][3]uint64
	for _, c := range all {
		got = append(got, [3]uint64{c.From, c.Size, uint64(c.Executions)})
	}
	is(t, "counts", got, [][3]uint64{{0, 5, 4}, {8, 10, 2}})
	is(t, "not shown", all[0].NotShown, []uint64{id})
}
