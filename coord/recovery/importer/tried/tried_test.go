package tried

import (
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

// rungs is an attempt entry about the task o#t.
func rungs(all ...entry.Rung) *entry.Attempt {
	return &entry.Attempt{Agent: "worker", Task: "o#t", AttemptCase: entry.AttemptCase{Case: "t", Rungs: all}}
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
	k.Attempt(4, rungs(entry.Rung{Class: "crash", Code: "oom", Strategy: "checkpoint_resume", Result: "decided"}))
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
	var ways []string
	for _, a := range step.Attempts {
		ways = append(ways, a.Strategy+" "+string(a.Outcome))
	}
	if diff := cmp.Diff([]string{"retry failed", "checkpoint_resume ok"}, ways); diff != "" {
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
	k.Attempt(5, rungs(entry.Rung{Class: "crash", Code: "lost", Strategy: "fail_reassign", Result: "decided"}))
	k.Task(6, task(entry.TaskStart, nil))
	k.Attempt(7, rungs(entry.Rung{Class: "crash", Code: "lost", Strategy: "fail_reassign", Result: "ok"}))
	k.Task(8, task(entry.TaskComplete, nil))
	all := k.Cases()
	if len(all) != 1 || all[0].Steps[0].Failure.Code != "panic" || all[0].Outcome != scenario.OK {
		t.Fatalf("%+v", all)
	}
	var ways []string
	for _, a := range all[0].Steps[0].Attempts {
		way := a.Strategy + " " + string(a.Outcome)
		if a.Failure != nil {
			way += " " + a.Failure.Code
		}
		ways = append(ways, way)
	}
	if diff := cmp.Diff([]string{"retry failed panic", "state_reset failed lost", "fail_reassign ok"}, ways); diff != "" {
		t.Error(diff)
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
