package act

import (
	"cmp"
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// Task returns a task as it stands, with what the policy wants done about it and who may
// get it. The reason and the time of its first entry are in the log alone.
func (l *Log) Task(ref entry.Ref) (*api.Task, error) {
	t, ok := l.State.Task(ref)
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "task", "no task %.280s in the log", ref).WithRemedy("arl task list shows the tasks")
	}
	rules := l.Rules
	if rules == nil {
		rules = new(coord.Rules)
	}
	l.State.Consult(&t, l.Now, rules)
	l.State.Candidates(&t)
	return &t, nil
}

// prepareTask drafts an order about a task.
func (l *Log) prepareTask(o *Order) (*Draft, error) {
	t, err := l.Task(o.Task)
	if err != nil {
		return nil, err
	}
	d := &Draft{Order: *o, Task: t}
	d.Order.Reason = redact.Text(o.Reason)
	b, err := Move(t, &d.Order)
	if err != nil {
		return nil, err
	}
	d.Order.Agent, d.Bodies = b.Agent, []entry.Body{b}
	return d, nil
}

// CreateTask completes the entry by which an operator creates a task with an id. What the operator
// wants of the task is in the entry. Without a workflow the task has a workflow of its own.
func CreateTask(t *entry.Task, by entry.Principal, id string) {
	t.Task, t.Op, t.From, t.To = entry.NewRef(by, id), entry.TaskCreate, entry.TaskCreated, entry.TaskCreated
	if t.Wid == "" {
		t.Wid = entry.WorkflowID(id)
	}
}

// Move returns the entry by which an order moves a task on, as Prepare does for a task that
// was read elsewhere. The error is an [*Obstacle] if the task does not stand so, or if
// the named agent cannot get it.
func Move(t *api.Task, o *Order) (*entry.Task, error) {
	verb := o.Verb
	if verb == Give {
		verb = Verb(cmp.Or(t.GivenBy, entry.TaskReassign)) // a task that is held or over has neither, and Reassign says why
	}
	b, ok := t.Move(string(verb), o.Agent, o.Reason)
	if !ok || !slices.Contains(TaskVerbs(), verb) {
		return nil, obstacle("%s is %s and cannot be %s in this state", t.Task, t.State, pastOf(verb))
	}
	var err error
	switch {
	case verb == Reassign:
		b.Agent, err = reassignee(t, o.Agent)
	case verb == Release && o.Agent == "":
		err = &Obstacle{Unnamed: true, detail: string(t.Task) + " is released to an agent: name the agent with --agent"}
	}
	return b, err
}

func pastOf(v Verb) string {
	past := map[Verb]string{Reassign: "reassigned", Release: "released", Cancel: "cancelled"}
	return cmp.Or(past[v], string(v))
}

// reassignee returns the agent that gets a task that is reassigned.
func reassignee(t *api.Task, named entry.Principal) (entry.Principal, error) {
	if t.Reassign == nil {
		return "", obstacle("task %s is %s, and nothing tells which agents may get it", t.Task, t.State)
	}
	agent, why := t.Reassign.Choose(named)
	if agent != "" {
		return agent, nil
	}
	switch why {
	case api.ObstacleExcept:
		return "", obstacle("%s: %s just failed at this task, and the policy gives the task to another agent (%s): "+
			"name another agent, or apply a policy that allows a retry (docs/tasks.md)", t.Task, named, words.TaskRecovery(t.Recovery))
	case api.ObstacleUntyped:
		return "", &Obstacle{Unnamed: true, detail: string(t.Task) + " has no type to choose an agent by: name the agent with --agent"}
	case api.ObstacleUnassignable:
		return "", obstacle("%s: %s, or name an agent with --agent", t.Task, words.NobodyFor(t))
	case api.ObstacleRelease:
		holds, _ := words.HoldsUpTask(t)
		return "", obstacle("%s: %s: use arl task release", t.Task, holds)
	}
	return "", obstacle("%s: every agent with the capability %s holds as many tasks as the coordinator gives: wait, or name an agent with --agent", t.Task, t.Type)
}
