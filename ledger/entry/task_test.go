package entry_test

import (
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestTaskAboutACaseHasNoType: no agent gets such a task without a person.
func TestTaskAboutACaseHasNoType(t *testing.T) {
	body := &entry.Task{Header: header(entry.KindTask), Task: "engine#c", Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated,
		Reason: "escalate", About: &entry.TaskCase{Case: "c", Attempt: attemptID, Decided: []string{"escalate"}}}
	if _, err := entry.New(body); err != nil {
		t.Fatal(err)
	}
	body.Type = "refund"
	if refusal, ok := errors.AsType[*entry.Refusal](second(entry.New(body))); !ok || refusal.Field != "type" {
		t.Errorf("with a type: %v", refusal)
	}
}

func second(_ *entry.Entry, err error) error { return err }

// TestTaskMoves holds the table of moves to protocol.md, section 9, as it is
// written there: who leaves which state for which.
func TestTaskMoves(t *testing.T) {
	want := map[entry.TaskState][]entry.TaskState{
		entry.TaskCreated:     {entry.TaskAssigned, entry.TaskFailed, entry.TaskCancelled},
		entry.TaskAssigned:    {entry.TaskInProgress, entry.TaskBlocked, entry.TaskFailed, entry.TaskInterrupted, entry.TaskCancelled},
		entry.TaskInProgress:  {entry.TaskInReview, entry.TaskCompleted, entry.TaskBlocked, entry.TaskFailed, entry.TaskInterrupted, entry.TaskCancelled},
		entry.TaskInReview:    {entry.TaskCompleted, entry.TaskInProgress, entry.TaskBlocked, entry.TaskFailed, entry.TaskInterrupted, entry.TaskCancelled},
		entry.TaskBlocked:     {entry.TaskAssigned, entry.TaskCancelled},
		entry.TaskFailed:      {entry.TaskAssigned, entry.TaskCancelled},
		entry.TaskInterrupted: {entry.TaskAssigned, entry.TaskCancelled},
		entry.TaskCompleted:   {},
		entry.TaskCancelled:   {},
	}
	ops := []string{entry.TaskCreate, entry.TaskReassign, entry.TaskRelease, entry.TaskCancel, entry.TaskAssign, entry.TaskFail,
		entry.TaskInterrupt, entry.TaskStart, entry.TaskReview, entry.TaskComplete, entry.TaskBlock, "", "finish"}
	for state, next := range want {
		reached := map[entry.TaskState]bool{}
		for _, op := range ops {
			if move, ok := (entry.TaskStanding{State: state}).Move(op, "", false); ok {
				reached[move.To] = true
			}
		}
		if len(reached) != len(next) {
			t.Errorf("%s leads to %v, want %v", state, reached, next)
		}
		for _, to := range next {
			if !reached[to] {
				t.Errorf("%s does not lead to %s", state, to)
			}
		}
	}
}

// TestFirstClaimIsNoRetry counts nothing where nobody has failed at a task.
func TestFirstClaimIsNoRetry(t *testing.T) {
	got, ok := (entry.TaskStanding{State: entry.TaskFailed}).Move(entry.TaskAssign, "", false)
	if !ok || got.Epoch != 1 || got.RetryCount != 0 {
		t.Errorf("%+v", got)
	}
}

// TestTaskCounts shows what each kind of claim counts, and whom the entry names: who gets the task,
// or who holds it.
func TestTaskCounts(t *testing.T) {
	for _, c := range []struct {
		state                   entry.TaskState
		op                      string
		resume                  bool
		agent                   entry.Principal
		epoch, retries, resumes int64
	}{
		{entry.TaskCreated, entry.TaskAssign, false, "second", 4, 1, 1},
		{entry.TaskInterrupted, entry.TaskReassign, true, "second", 4, 1, 1},
		{entry.TaskBlocked, entry.TaskRelease, false, "second", 4, 1, 1},
		{entry.TaskFailed, entry.TaskRelease, false, "second", 4, 1, 1},
		{entry.TaskFailed, entry.TaskAssign, false, "second", 4, 2, 1},
		{entry.TaskFailed, entry.TaskReassign, true, "second", 4, 1, 2},
		{entry.TaskInProgress, entry.TaskFail, false, "first", 3, 1, 1},
	} {
		before := entry.TaskStanding{State: c.state, Agent: "first", Epoch: 3, RetryCount: 1, ResumeCount: 1}
		got, ok := before.Move(c.op, "second", c.resume)
		if !ok || got.Agent != c.agent || got.Epoch != c.epoch || got.RetryCount != c.retries || got.ResumeCount != c.resumes {
			t.Errorf("%s of %s: %+v, want %+v", c.op, c.state, got, c)
		}
	}
}
