package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

func (a *app) taskCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Create tasks, assign them to agents, and follow them",
		Long: "Create tasks, assign them to agents, and follow them. One agent at a time holds a task, under a lease. Each\n" +
			"claim has its own epoch, and the log counts the retries. What these commands show is the server's word. What\n" +
			"they write names the state that they saw, and the ledger refuses it if the task has moved on.",
		Example: "  arl task list",
	}
	t.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.taskCreateCommand(&t), a.taskListCommand(&t), a.taskShowCommand(&t),
		a.taskMoveCommand(&t, entry.TaskReassign, "Give a waiting task to an agent",
			"Give a new, failed or interrupted task to an agent. Without --agent the command chooses the agent that the\n"+
				"coordinator would choose, by capability and load. After a failure this counts as a retry, and the agent that\n"+
				"just failed gets the task only if the policy allows it."),
		a.taskMoveCommand(&t, entry.TaskCancel, "End a task for good", "End a task for good, in any state. The ledger refuses its agent from then on."),
		a.taskMoveCommand(&t, entry.TaskRelease, "Release a task that only a person may let go on",
			"Give a task to an agent where only a person may let it go on: the task is blocked, has spent its retries, or has\n"+
				"unknown effects. The signer answers for the earlier effects. A release does not count as a retry."))
	return cmd
}

// parseTask reads the reference of a task.
func parseTask(text string) (entry.Ref, error) {
	ref := entry.Ref(text)
	if issuer, id := ref.Split(); issuer == "" || id == "" {
		return "", exit.Usagef("%q is not a task: write issuer#id, as in operator#task-7 (arl task list)", text)
	}
	return ref, nil
}

// taskOptions are the flags of arl task create.
type taskOptions struct {
	access.SignerFlags
	workflow, kind, reason, out string
	retries, lease              optional
}

func (a *app) taskCreateCommand(t *access.Target) *cobra.Command {
	var o taskOptions
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Create a task",
		Long: "Create a task. With a type, the coordinator gives it to an agent with that capability. Without a type, arl task reassign\n" +
			"does.",
		Example: "  arl task create report-7 --type research --workflow flow-1 --max-retries 2 --reason 'weekly report'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.taskCreate(cmd.Context(), c, args[0], &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.workflow, "workflow", "", "workflow of the task and its executions (default: the task's id)")
	flags.StringVar(&o.kind, "type", "", "capability that the agent needs")
	flags.Var(&o.retries, "max-retries", fmt.Sprintf("greatest number of retries, 0 to %d (default 1)", entry.MaxRetries))
	flags.Var(&o.lease, "lease-ms", "term of the lease in milliseconds (default 90000)")
	needReason(cmd, &o.reason)
	o.Register(flags)
	flags.StringVar(&o.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
	return cmd
}

func (a *app) taskCreate(ctx context.Context, c *access.Connection, id string, o *taskOptions) error {
	if err := terminal.CheckOut(o.out); err != nil {
		return err
	}
	signer, err := a.machine().Signer(ctx, c, o.SignerFlags, node.Operator)
	if err != nil {
		return err
	}
	b := &entry.Task{Header: entry.Header{Wid: entry.WorkflowID(o.workflow)}, Reason: o.reason, Type: o.kind, MaxRetries: o.retries.value, LeaseMS: o.lease.value}
	act.CreateTask(b, signer.Principal, id)
	return a.signAndSubmit(ctx, c, signer, b, o.out)
}

// signAndSubmit completes a body as an entry, signs the entry and registers it.
func (a *app) signAndSubmit(ctx context.Context, c *access.Connection, signer *access.Signer, body entry.Body, out string) error {
	e, err := signer.Entry(body, c.Root.Origin, "")
	if err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, out)
}

func (a *app) taskListCommand(t *access.Target) *cobra.Command {
	var q api.TaskQuery
	limit := 0
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tasks, newest first",
		Example: "  arl task list --state open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithWatched(cmd.Context(), t, func(c *access.Connection) error { return a.taskList(cmd.Context(), c, q, limit) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.State, "state", "", "only tasks in this state, such as FAILED, or open|closed, or operator (waits for an operator)")
	flags.StringVar((*string)(&q.Agent), "agent", "", "only tasks whose newest claim is of this agent")
	flags.StringVar((*string)(&q.Workflow), "workflow", "", "only tasks of this workflow")
	flags.IntVar(&limit, "limit", 100, "greatest number of tasks; 0: all")
	return cmd
}

func (a *app) taskList(ctx context.Context, c *access.Connection, q api.TaskQuery, limit int) error {
	l := a.NewList("TASK", "STATE", "RETRIES", "AGE", "AGENT", "DEADLINE", "WAITS FOR")
	count := 0
	for task, err := range c.Client.Tasks(ctx, q) {
		if err != nil {
			return err
		}
		if err := l.Add(task, string(task.Task), string(task.State), words.TaskRetries(task), ageOf(c, task), string(task.Agent), deadlineOf(task), words.TaskWaitsFor(task)); err != nil {
			return err
		}
		if count++; count == limit {
			break
		}
	}
	return l.Close()
}

// ageOf returns the age of a task, by the ledger's clock.
func ageOf(c *access.Connection, t *api.Task) string {
	skew, _ := c.Clock.Skew() // to a second
	age := time.Since(time.UnixMilli(t.CreatedAt).Add(-skew))
	return max(0, age).Round(time.Second).String()
}

// deadlineOf returns the time at which a task changes by itself; empty if it does not.
func deadlineOf(t *api.Task) string {
	if at := t.NextAt(); at != 0 {
		return instant(at)
	}
	return ""
}

func (a *app) taskShowCommand(t *access.Target) *cobra.Command {
	return &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task",
		Example: "  arl task show operator#report-7",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseTask(args[0])
			if err != nil {
				return err
			}
			return a.machine().WithWatched(cmd.Context(), t, func(c *access.Connection) error {
				task, err := c.Client.Task(cmd.Context(), ref)
				if err != nil {
					return err
				}
				return a.PrintObject(task, taskFields(c, task)...)
			})
		},
	}
}

func taskFields(c *access.Connection, t *api.Task) []terminal.Field {
	fields := []terminal.Field{
		{"task", string(t.Task)}, {"state", string(t.State)}, {"workflow", string(t.Wid)}, {"type", words.OrNothing(t.Type)}, {"age", ageOf(c, t)},
		{"epoch", fmt.Sprint(t.Epoch)}, {"retries", words.TaskRetries(t)}, {"resumes", fmt.Sprintf("%d of %d", t.ResumeCount, entry.MaxResumes)},
		{"failures", words.OrNothing(failuresOf(t))}, {"agent", words.OrNothing(string(t.Agent))}, {"executions", fmt.Sprint(t.Executions)},
		{"changed", fmt.Sprintf("%s, by entry %d: %s", instant(t.ChangedAt), t.Changed, t.Reason)},
	}
	if t.Lease != nil {
		fields = append(fields, terminal.Field{"lease", words.TaskLease(t.Lease)})
	}
	if len(t.Candidates) > 0 {
		fields = append(fields, terminal.Field{"candidates", candidatesOf(t)})
	}
	return append(fields, terminal.Field{"waits for", words.OrNothing(words.TaskWaitsFor(t))})
}

// failuresOf lists the failures of a task's claims.
func failuresOf(t *api.Task) string {
	var list []string
	for _, f := range t.Failures {
		list = append(list, f.Class+"."+f.Code)
	}
	return strings.Join(list, ", ")
}

// moveOptions are the flags of the verbs by which an operator moves a task on.
type moveOptions struct {
	access.SignerFlags
	agent, reason, out string
	yes                bool
}

func (a *app) taskMoveCommand(t *access.Target, op, short, long string) *cobra.Command {
	var o moveOptions
	example := "  arl task " + op + " operator#report-7 --reason 'checked'"
	if op == entry.TaskRelease {
		example += " --agent researcher"
	}
	cmd := &cobra.Command{
		Use: op + " TASK", Short: short, Long: long, Args: cobra.ExactArgs(1), Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseTask(args[0])
			if err != nil {
				return err
			}
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.taskMove(cmd.Context(), c, ref, act.Verb(op), &o) })
		},
	}
	flags := cmd.Flags()
	switch op {
	case entry.TaskReassign:
		flags.StringVar(&o.agent, "agent", "", "agent to give the task to (default: the first candidate that arl task show names)")
	case entry.TaskRelease:
		flags.StringVar(&o.agent, "agent", "", "agent to give the task to (required)")
		_ = cmd.MarkFlagRequired("agent") // the flag exists
	}
	needReason(cmd, &o.reason)
	o.Register(flags)
	flags.BoolVar(&o.yes, "yes", false, "do not ask for confirmation")
	flags.StringVar(&o.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
	return cmd
}

// taskMove shows a task, asks for confirmation, and registers the entry that moves the task on.
func (a *app) taskMove(ctx context.Context, c *access.Connection, ref entry.Ref, verb act.Verb, o *moveOptions) error {
	if err := terminal.CheckOut(o.out); err != nil {
		return err
	}
	task, err := c.Client.Task(ctx, ref)
	if err != nil {
		return err
	}
	b, err := act.Move(task, &act.Order{Verb: verb, Task: ref, Agent: entry.Principal(o.agent), Reason: o.reason})
	if err != nil {
		return err
	}
	signer, err := a.machine().Signer(ctx, c, o.SignerFlags, node.Operator)
	if err != nil {
		return err
	}
	if err := a.forPeople(a.Err).PrintObject(nil, taskFields(c, task)...); err != nil {
		return err
	}
	what := b.Op + " it"
	if verb != act.Cancel {
		what += " to " + string(b.Agent)
	}
	if err := a.Confirm(fmt.Sprintf("%s as %s?", what, signer.Principal), o.yes); err != nil {
		return err
	}
	return a.signAndSubmit(ctx, c, signer, b, o.out)
}

// candidatesOf lists the agents that may get a task.
func candidatesOf(t *api.Task) string {
	var list []string
	for _, c := range t.Candidates {
		list = append(list, fmt.Sprintf("%s (holds %d)", c.Agent, c.Held))
	}
	return strings.Join(list, ", ")
}
