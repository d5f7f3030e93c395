package tried

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// task is a transition of the task o#t.
func task(op string, snapshot *entry.Snapshot) *entry.Task {
	return &entry.Task{Header: entry.Header{Iss: "worker", Wid: "w"}, Task: "o#t", Op: op, Type: "cook", Snapshot: snapshot}
}

// rungs is an attempt entry about the task o#t by the agent that works at it.
func rungs(all ...entry.Rung) *entry.Attempt {
	return &entry.Attempt{Header: entry.Header{Iss: "worker"}, Agent: "worker", Task: "o#t", AttemptCase: entry.AttemptCase{Case: "t", Rungs: all}}
}

// router is an attempt entry of a coordinator, which leaves what it decides to others.
func router(code, strategy string) *entry.Attempt {
	a := rungs(entry.Rung{Class: "crash", Code: code, Strategy: strategy, Result: "decided"})
	a.Iss = "coordinator"
	return a
}

// ways is strategy, outcome and code of each attempt at the only case.
func ways(t *testing.T, k *Past) (all []string) {
	t.Helper()
	cases := k.Cases()
	if len(cases) != 1 {
		t.Fatalf("%+v", cases)
	}
	for _, a := range cases[0].Steps[0].Attempts {
		way := a.Strategy + " " + string(a.Outcome)
		if a.Failure != nil {
			way += " " + a.Failure.Code
		}
		all = append(all, way)
	}
	return all
}

// TestTask follows a task that failed, was tried again in place, failed again, and was completed by
// another claim. A task that nobody failed at is no case.
func TestTask(t *testing.T) {
	crash := &entry.Snapshot{Class: "crash", Code: "oom", CostMicroUSD: 7, StartedAt: 10, TakenAt: 40}
	k := New("ledger")
	k.Task(0, task(entry.TaskCreate, nil))
	k.Task(1, task(entry.TaskStart, nil))
	k.Attempt(2, rungs(entry.Rung{Class: "crash", Code: "panic", Strategy: "retry", Result: "failed"}, entry.Rung{Class: "crash", Code: "oom", Strategy: "fail_reassign", Result: "decided"}))
	k.Task(3, task(entry.TaskFail, crash))
	k.Attempt(4, router("oom", "checkpoint_resume"))
	k.Task(5, task(entry.TaskStart, nil))
	k.Task(6, task(entry.TaskComplete, nil))
	k.Task(7, &entry.Task{Task: "o#fine", Op: entry.TaskCreate})
	k.Task(8, &entry.Task{Task: "o#fine", Op: entry.TaskComplete})
	k.Task(9, &entry.Task{Task: "o#older", Op: entry.TaskComplete})
	all := k.Cases()
	if len(all) != 1 || !k.Failed("o#t") || k.Failed("o#fine") {
		t.Fatalf("%+v", all)
	}
	step := all[0].Steps[0]
	if all[0].Outcome != scenario.OK || all[0].TaskType != "cook" || step.Agent != "worker" || step.Failure.Code != "panic" {
		t.Errorf("%+v", all[0])
	}
	if diff := cmp.Diff([]string{"retry failed oom", "checkpoint_resume ok"}, ways(t, k)); diff != "" {
		t.Error(diff)
	}
	if step.Attempts[0].Failure.Code != "oom" || *step.Attempts[0].CostMicroUSD != 7 {
		t.Errorf("%+v", step.Attempts[0])
	}
	if _, err := scenario.Encode(all[0]); err != nil {
		t.Error(err)
	}
}

// TestKilled has a supervisor die while it tries again: the attempt that it had decided failed with
// it. What the next agent tries stands in the entry of that agent.
func TestKilled(t *testing.T) {
	k := New("ledger")
	k.Task(0, task(entry.TaskCreate, nil))
	k.Task(1, task(entry.TaskStart, nil))
	k.Attempt(2, rungs(entry.Rung{Class: "crash", Code: "panic", Strategy: "retry", Result: "decided"}))
	k.Attempt(3, rungs(entry.Rung{Class: "crash", Code: "panic", Strategy: "retry", Result: "failed"}, entry.Rung{Class: "crash", Code: "panic", Strategy: "state_reset", Result: "decided"}))
	k.Task(4, task(entry.TaskFail, nil))
	k.Attempt(5, router("lost", "fail_reassign"))
	k.Task(6, task(entry.TaskStart, nil))
	k.Attempt(7, rungs(entry.Rung{Class: "crash", Code: "lost", Strategy: "fail_reassign", Result: "ok"}))
	k.Task(8, task(entry.TaskComplete, nil))
	all := k.Cases()
	if len(all) != 1 || all[0].Steps[0].Failure.Code != "panic" || all[0].Outcome != scenario.OK {
		t.Fatalf("%+v", all)
	}
	if diff := cmp.Diff([]string{"retry failed panic", "state_reset failed lost", "fail_reassign ok"}, ways(t, k)); diff != "" {
		t.Error(diff)
	}
}

// TestNobodyTried: what the router leaves to people or to time, and how a claim says that it ends,
// are no attempts. The claim that a person gives is one, by its own strategy.
func TestNobodyTried(t *testing.T) {
	oom := &entry.Snapshot{Class: "crash", Code: "oom"}
	decided := func(strategy string) entry.Rung {
		return entry.Rung{Class: "crash", Code: "oom", Strategy: strategy, Result: "decided"}
	}
	for _, test := range []struct {
		name string
		log  []entry.Body // behind the first claim
		want []string
	}{
		{"escalated", []entry.Body{task(entry.TaskFail, oom), router("oom", "fail_reassign"), router("oom", "escalate")}, []string{"fail_reassign ok"}},
		{"rolled back", []entry.Body{task(entry.TaskFail, oom), router("oom", "rollback")}, []string{"fail_reassign ok"}},
		{"waits first", []entry.Body{task(entry.TaskFail, oom), router("oom", "wait"), router("oom", "checkpoint_resume")}, []string{"checkpoint_resume ok"}},
		{"killed at its end", []entry.Body{rungs(decided("fail_reassign")), task(entry.TaskFail, nil), router("lost", "retry")}, []string{"retry ok"}},
		{"killed at a later end", []entry.Body{task(entry.TaskFail, oom), router("oom", "checkpoint_resume"), task(entry.TaskStart, nil),
			rungs(decided("fail_reassign")), task(entry.TaskFail, nil), router("lost", "retry")}, []string{"checkpoint_resume failed lost", "retry ok"}},
		{"ends otherwise than it began", []entry.Body{task(entry.TaskFail, oom), router("oom", "checkpoint_resume"), task(entry.TaskStart, nil),
			rungs(decided("fail_reassign")), task(entry.TaskFail, oom)}, []string{"checkpoint_resume failed oom", "fail_reassign ok"}},
		{"killed in a later claim", []entry.Body{task(entry.TaskFail, oom), router("oom", "checkpoint_resume"), task(entry.TaskStart, nil),
			rungs(decided("retry")), task(entry.TaskFail, nil)}, []string{"checkpoint_resume failed oom", "retry failed lost", "fail_reassign ok"}},
		{"handed back before the attempt", []entry.Body{task(entry.TaskFail, oom), router("oom", "checkpoint_resume"), task(entry.TaskStart, nil),
			rungs(decided("retry")), rungs(), task(entry.TaskInterrupt, &entry.Snapshot{Class: "crash", Code: "interrupted"})},
			[]string{"checkpoint_resume failed oom", "fail_reassign ok"}},
	} {
		k := New("ledger")
		log := append([]entry.Body{task(entry.TaskCreate, nil), task(entry.TaskStart, nil)}, test.log...)
		for i, body := range append(log, task(entry.TaskStart, nil), task(entry.TaskComplete, nil)) {
			switch b := body.(type) {
			case *entry.Task:
				k.Task(uint64(i), b)
			case *entry.Attempt:
				k.Attempt(uint64(i), b)
			}
		}
		if diff := cmp.Diff(test.want, ways(t, k)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// TestFailuresWithin: an attempt ends with the failure that the next one answers, also if somebody
// asked in between what took place.
func TestFailuresWithin(t *testing.T) {
	k := New("ledger")
	k.Task(0, task(entry.TaskCreate, nil))
	k.Task(1, task(entry.TaskStart, nil))
	k.Attempt(2, rungs(entry.Rung{Class: "crash", Code: "panic", Strategy: "retry", Result: "failed"},
		entry.Rung{Class: "crash", Code: "hang", Strategy: "reconcile", Result: "ok"},
		entry.Rung{Class: "crash", Code: "hang", Strategy: "retry", Result: "failed"}, entry.Rung{Class: "crash", Code: "exit", Strategy: "state_reset", Result: "decided"}))
	k.Attempt(3, rungs(entry.Rung{Class: "crash", Code: "exit", Strategy: "state_reset", Result: "failed"}, entry.Rung{Class: "crash", Code: "oom", Strategy: "fail_reassign", Result: "decided"}))
	k.Task(4, task(entry.TaskFail, nil))
	want := []string{"retry failed hang", "reconcile ok", "retry failed exit", "state_reset failed lost"}
	if diff := cmp.Diff(want, ways(t, k)); diff != "" {
		t.Error(diff)
	}
}

// TestWaits has claims end while they wait: the failure of the case is the one that they answered,
// and the first attempt cost what no other attempt of the claim did.
func TestWaits(t *testing.T) {
	rung := func(strategy, result string, cost int64) entry.Rung {
		return entry.Rung{Class: "crash", Code: "panic", Strategy: strategy, Result: result, CostMicroUSD: &cost}
	}
	ended := func(total int64, all ...entry.Rung) *entry.Attempt {
		a := rungs(all...)
		a.CostMicroUSD = &total
		return a
	}
	interrupted := task(entry.TaskInterrupt, &entry.Snapshot{Class: "crash", Code: "interrupted", CostMicroUSD: 7})
	for _, test := range []struct {
		name string
		log  []entry.Body
		want string // class and code of the first failure, what it cost, attempts
	}{
		{"handed back", []entry.Body{rungs(rung("wait", "decided", 0)), ended(7), interrupted}, "panic 7 0"},
		{"lost", []entry.Body{rungs(rung("wait", "decided", 0)), task(entry.TaskFail, nil)}, "panic 0 0"},
		{"handed back later", []entry.Body{rungs(rung("retry", "decided", 0)), ended(16, rung("retry", "failed", 7), rung("wait", "decided", 0)), interrupted}, "panic 9 1"},
		{"waited", []entry.Body{rungs(rung("wait", "ok", 0), rung("retry", "decided", 0)), ended(16, rung("retry", "failed", 7), rung("escalate", "decided", 0)), task(entry.TaskFail, nil)}, "panic 9 1"},
	} {
		k := New("ledger")
		for i, body := range append([]entry.Body{task(entry.TaskCreate, nil), task(entry.TaskStart, nil)}, test.log...) {
			switch b := body.(type) {
			case *entry.Task:
				k.Task(uint64(i), b)
			case *entry.Attempt:
				k.Attempt(uint64(i), b)
			}
		}
		first := k.Cases()[0].Steps[0]
		if got := fmt.Sprint(first.Failure.Code, " ", orZero(first.CostMicroUSD), " ", len(first.Attempts)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestCases has a case stand in the log twice, in the shadow, without steps, and with facts that
// are no case.
func TestCases(t *testing.T) {
	k := New("ledger")
	add := func(index uint64, arm entry.Arm, facts string) {
		k.Attempt(index, &entry.Attempt{Header: entry.Header{Wid: "w"}, Arm: arm, AttemptCase: entry.AttemptCase{Case: "c", Facts: jsontext.Value(facts)}})
	}
	const good = `{"id":"c","agent":"a","workflow":"","steps":[{"id":"s","agent":"a","effect":"none","outcome":"ok"}]}`
	add(1, "", good)
	add(2, entry.ArmShadow, good)
	add(3, entry.ArmCanary, good)
	add(4, "", `{"id":"c","agent":"a","workflow":"","steps":[]}`)
	add(5, "", `{"flour":1}`)
	var ids []string
	for _, c := range k.Cases() {
		ids = append(ids, c.ID+" "+string(c.Workflow)+" "+c.Source)
	}
	if diff := cmp.Diff([]string{"c w ledger", "c-3 w ledger"}, ids); diff != "" {
		t.Error(diff)
	}
}
