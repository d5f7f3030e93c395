package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// taskRow is a line of a list of tasks.
type taskRow struct {
	*api.Task
	WaitsFor string
	Retries  string
	Due      int64 // when it changes by itself, Unix milliseconds; 0: it waits for an entry
}

// tasksPage is a page of the list of tasks.
type tasksPage struct {
	Filter api.TaskQuery
	States []string
	Rows   []taskRow
	Older  string // link; empty: there are none
}

// tasks is GET /tasks.
func (k *Console) tasks(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	given := q.URL.Query()
	body := &tasksPage{States: []string{api.StateOpen, api.StateClosed, api.StateOperator}}
	for _, state := range entry.TaskStates() {
		body.States = append(body.States, string(state))
	}
	body.Filter = api.TaskQuery{State: given.Get("state"), Agent: entry.Principal(given.Get("agent")), Workflow: entry.WorkflowID(given.Get("workflow"))}
	if body.Filter.State != "" && !slices.Contains(body.States, body.Filter.State) {
		return nil, entry.Refuse(entry.Malformed, "state", "%.140q is not a state of tasks", body.Filter.State).
			WithRemedy("choose one of " + strings.Join(body.States, ", "))
	}
	p := &page{name: "tasks", Title: "Tasks", Command: "arl task list", Section: "Tasks", Body: body, About: []string{"task/*"}}
	if body.Filter.State != "" {
		p.Command += " --state " + body.Filter.State
	}
	var list []api.Task
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		body.Filter.Before, body.Filter.Limit = older, rows
		var next *api.TaskQuery
		if list, next = view.Tasks(state, &k.rules, &body.Filter, at.Now); next != nil {
			body.Older = k.olderLink("/tasks", given, next.Before)
		}
	})
	for i := range list {
		k.words(q.Context(), &list[i])
		body.Rows = append(body.Rows, newTaskRow(&list[i]))
	}
	return p, nil
}

func newTaskRow(t *api.Task) taskRow {
	return taskRow{Task: t, WaitsFor: words.TaskWaitsFor(t), Retries: words.TaskRetries(t), Due: t.NextAt()}
}

// words fills in what the log alone has of a task: the reason in its newest entry, and
// when it was created. Without contact with the log they stay empty.
func (k *Console) words(ctx context.Context, t *api.Task) {
	for e, err := range k.cfg.Source.Entries(ctx, t.Changed, t.Changed+1) {
		if err != nil {
			return
		}
		if b, ok := e.Body.(*entry.Task); ok {
			t.Reason, t.About = b.Reason, b.About
		}
	}
	for e, err := range k.cfg.Source.Entries(ctx, t.Created, t.Created+1) {
		if err == nil {
			t.CreatedAt = e.RegisteredAt
		}
	}
}

// taskPage is a task as it stands.
type taskPage struct {
	taskRow
	taskWork
	Failures []failureRow
	NoLease  string // why the ledger tells no lease; empty: it does, or no agent holds the task
	Acts     []actLink
	Signed   uint64 // the entry that was just signed here; 0: none
}

// task is GET /tasks/{id}.
func (k *Console) task(q *http.Request) (*page, error) {
	signed, err := k.signedNow(q)
	if err != nil {
		return nil, err
	}
	ref := entry.Ref(q.PathValue("id"))
	body := &taskPage{Signed: signed}
	p := &page{name: "task", Title: "Task " + string(ref), Command: "arl task show " + words.Quoted(string(ref)), Section: "Tasks", Body: body,
		About: []string{subject(entry.SubjectTask, ref)}}
	var t *api.Task
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		l := k.known(state, at)
		if t, err = l.Task(ref); err == nil {
			body.Acts = k.acts(l, act.Order{Task: ref}, k.link("/tasks", ref))
			body.Failures = failuresOf(t, state.Decisions(ref, at.Now, &k.rules))
			body.taskWork = workOf(state, t, at.Now)
		}
	})
	if err != nil {
		return nil, err
	}
	k.words(q.Context(), t)
	body.taskRow = newTaskRow(t)
	body.askLease(q.Context(), k)
	return p, nil
}

// leaseTime bounds the time that a page waits for the ledger to tell a lease.
const leaseTime = 3 * time.Second

// askLease asks the ledger for the lease of the agent that holds the task.
func (b *taskPage) askLease(ctx context.Context, k *Console) {
	if !b.State.Held() {
		return
	}
	if k.cfg.Lease == nil {
		b.NoLease = "the ledger does not run"
		return
	}
	ctx, stop := context.WithTimeout(ctx, leaseTime)
	defer stop()
	lease, err := k.cfg.Lease(ctx, b.Task.Task)
	switch {
	case err != nil:
		b.NoLease = err.Error()
	case lease == nil:
		b.NoLease = "the ledger knows of none"
	case lease.Agent != b.Agent || lease.Epoch != b.Epoch:
		b.NoLease = "the ledger tells the lease of another claim than the newest one shown here"
	default:
		b.Lease = lease
	}
}
