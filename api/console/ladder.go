package console

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// failureRow is how a claim of a task ended, and what the rules say to that. The log does not say
// which rung a claim came from.
type failureRow struct {
	entry.TaskFailure
	Strategy recovery.Strategy
	Rule     recovery.Rule
}

func failuresOf(t *api.Task, decided []recovery.TaskDecision) (list []failureRow) {
	for i := range decided {
		list = append(list, failureRow{t.Failures[i], decided[i].Action.Strategy, decided[i].Rule})
	}
	return list
}

// workScan is the number of executions of a workflow that the page of a task looks at.
const workScan = 4 * rows

// taskWork is the executions of a task.
type taskWork struct {
	Work     []executionRow // the newest first
	WorkMore bool           // whether the page has not found all of them

	scanned []executionRow // of the workflow, since the task was created
}

// scan keeps the executions that may be of a task: the newest of its workflow. An execution of a
// task is younger than the task.
func (w *taskWork) scan(state *coord.State, t *api.Task, now int64) {
	if t.Executions == 0 {
		return
	}
	found, _ := state.Workflow(t.Wid, 0, workScan, now) // no workflow has no execution
	for i := range found {
		if found[i].Index > t.Created {
			row := executionRow{ExecutionView: found[i]}
			row.Look = row.lookOf()
			w.scanned = append(w.scanned, row)
		}
	}
}

// choose finds the executions of the task by their entries: the state does not tell the task of an
// execution.
func (w *taskWork) choose(ctx context.Context, k *Console, t *api.Task) {
	indexes, places := make([]uint64, len(w.scanned)), map[uint64]int{}
	for i := range w.scanned {
		index := w.scanned[i].Index
		indexes[len(indexes)-1-i], places[index] = index, i // ascending
	}
	of := map[int]bool{}
	for e, err := range k.entriesAt(ctx, indexes) {
		if err != nil {
			break // the page shows what is known
		}
		if x, is := e.Body.(*entry.Execution); is && x.Task == t.Task {
			of[places[e.Index]] = true
		}
	}
	for i := range w.scanned {
		if of[i] && len(w.Work) < rows {
			w.Work = append(w.Work, w.scanned[i])
		}
	}
	w.scanned, w.WorkMore = nil, len(w.Work) < t.Executions
}

// WorkCommand is the command that lists the executions that the page leaves out.
func (b *taskPage) WorkCommand() string {
	return "arl entry list --kind execution --workflow " + Quoted(string(b.Wid))
}
