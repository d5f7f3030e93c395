package console

import (
	"recoveryledger/api"
	"recoveryledger/api/words"
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

// taskWork is the executions of a task.
type taskWork struct {
	Work     []executionRow // the newest first
	WorkMore bool           // whether there are older ones
}

func workOf(state *coord.State, t *api.Task, now int64) (w taskWork) {
	for _, x := range state.TaskWork(t.Task, rows, now) {
		w.Work = append(w.Work, newExecutionRow(x))
	}
	w.WorkMore = len(w.Work) < t.Executions
	return w
}

// WorkCommand is the command that lists the executions that the page leaves out.
func (b *taskPage) WorkCommand() string {
	return "arl entry list --kind execution --workflow " + words.Quoted(string(b.Wid))
}
