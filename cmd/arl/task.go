package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

func (a *app) taskCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Give work to agents, and look after it",
		Long: "Give work to agents, and look after it. A task is held by one agent at a time, under a lease; each claim has an\n" +
			"epoch of its own, and retries are counted in the log. What is shown is the server's word; what is written names\n" +
			"the state that it leaves, and is refused if the task has gone on meanwhile.",
		Example: "  arl task list",
	}
	t.register(cmd.PersistentFlags())
	cmd.AddCommand(a.taskCreateCommand(&t), a.taskListCommand(&t), a.taskShowCommand(&t),
		a.taskMoveCommand(&t, entry.TaskReassign, "Give a task that waits to an agent",
			"Give a new, failed or interrupted task to an agent: without --agent to the one that the coordinator would choose, by\n"+
				"capability and load. After a failure this counts as a retry, and who just failed gets the task only if the policy\n"+
				"allows it."),
		a.taskMoveCommand(&t, entry.TaskCancel, "End a task for good", "End a task for good, wherever it stands. Its agent is refused from then on."),
		a.taskMoveCommand(&t, entry.TaskRelease, "Answer for what holds a task up, and give it to an agent",
			"Give a task to an agent that only a person may let go on: one that is blocked, has spent its retries, or whose effects\n"+
				"are not known. Whoever signs answers for the effects before; it counts as no retry."))
	return cmd
}

// parseTask reads the reference of a task.
func parseTask(text string) (entry.Ref, error) {
	ref := entry.Ref(text)
	if issuer, id := ref.Split(); issuer == "" || id == "" {
		return "", usage("%q is no task: write issuer#id, as in operator#task-7 (arl task list)", text)
	}
	return ref, nil
}

// taskOptions are the flags of arl task create.
type taskOptions struct {
	signerFlags
	workflow, kind, reason, out string
	retries, lease              optional
}

func (a *app) taskCreateCommand(t *target) *cobra.Command {
	var o taskOptions
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Create a task",
		Long: "Create a task. With a type, the coordinator gives it to an agent with that capability; without one, arl task reassign\n" +
			"does.",
		Example: "  arl task create report-7 --type research --workflow flow-1 --max-retries 2 --reason 'weekly report'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.taskCreate(cmd.Context(), c, args[0], &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.workflow, "workflow", "", "workflow of the task and its executions (default: the task's id)")
	flags.StringVar(&o.kind, "type", "", "capability that its agent needs")
	flags.Var(&o.retries, "max-retries", fmt.Sprintf("how often it is tried again, 0 to %d (default 1)", entry.MaxRetries))
	flags.Var(&o.lease, "lease-ms", "term of its lease in milliseconds (default 90000)")
	needReason(cmd, &o.reason)
	o.register(flags)
	flags.StringVar(&o.out, "out", "", "file for the receipt, with those of the policies and keys that it counts by")
	return cmd
}

func (a *app) taskCreate(ctx context.Context, c *connection, id string, o *taskOptions) error {
	if err := checkOut(o.out); err != nil {
		return err
	}
	signer, err := a.signer(ctx, c, o.signerFlags, principalOperator)
	if err != nil {
		return err
	}
	b := &entry.Task{
		Header: newHeader(signer.principal, c.root.Origin), Task: entry.NewRef(signer.principal, id), Op: entry.TaskCreate,
		From: entry.TaskCreated, To: entry.TaskCreated, Reason: o.reason, Type: o.kind, MaxRetries: o.retries.value, LeaseMS: o.lease.value,
	}
	if b.Wid = entry.WorkflowID(o.workflow); b.Wid == "" {
		b.Wid = entry.WorkflowID(id)
	}
	return a.signAndSubmit(ctx, c, signer, b, o.out)
}

// signAndSubmit signs and registers an entry.
func (a *app) signAndSubmit(ctx context.Context, c *connection, signer *signer, body entry.Body, out string) error {
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if err := signer.Sign(e); err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, out)
}

func (a *app) taskListCommand(t *target) *cobra.Command {
	var q client.TaskQuery
	limit := 0
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tasks, the newest first",
		Example: "  arl task list --state open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.taskList(cmd.Context(), c, q, limit) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.State, "state", "", "only in this state, such as FAILED, or open|closed, or operator: those that wait for one")
	flags.StringVar((*string)(&q.Agent), "agent", "", "only those whose newest claim is of this agent")
	flags.StringVar((*string)(&q.Workflow), "workflow", "", "only those of this workflow")
	flags.IntVar(&limit, "limit", 100, "at most so many; 0: all")
	return cmd
}

func (a *app) taskList(ctx context.Context, c *connection, q client.TaskQuery, limit int) error {
	l := a.newList("TASK", "STATE", "RETRIES", "AGE", "AGENT", "DEADLINE", "WAITS FOR")
	count := 0
	for task, err := range c.client.Tasks(ctx, q) {
		if err != nil {
			return err
		}
		if err := l.add(task, string(task.Task), string(task.State), retriesOf(task), c.ageOf(task), string(task.Agent), deadlineOf(task), waitsForTask(task)); err != nil {
			return err
		}
		if count++; count == limit {
			break
		}
	}
	return l.close()
}

func retriesOf(t *api.Task) string { return fmt.Sprintf("%d of %d", t.RetryCount, t.MaxRetries) }

// ageOf is for how long a task has been there, by the ledger's clock.
func (c *connection) ageOf(t *api.Task) string {
	age := time.Since(time.UnixMilli(t.CreatedAt).Add(-c.clock.skew)) // the skew is known to a second
	return max(0, age).Round(time.Second).String()
}

// deadlineOf is when the lease of a task is lost, or when the policy lets the task
// go on that waits.
func deadlineOf(t *api.Task) string {
	switch {
	case t.Lease != nil:
		return instant(t.Lease.ExpiresAt)
	case t.Recovery != nil && t.Waits == api.WaitsCoordinator && t.Recovery.Due > t.ChangedAt:
		return instant(t.Recovery.Due)
	}
	return ""
}

// waitsForTask says in a few words what a task waits for.
func waitsForTask(t *api.Task) string {
	switch {
	case t.State.Over():
		return ""
	case t.Waits == "":
		return "its agent"
	case t.State == entry.TaskBlocked:
		return "operator: " + t.Reason
	}
	if why, found := holdsUp(t); found {
		return t.Waits + ": " + why
	}
	return t.Waits
}

// holdsUp says what holds up a task that is not blocked.
func holdsUp(t *api.Task) (why string, found bool) {
	switch {
	case t.Gate != "":
		return t.Gate, true
	case t.Nobody && t.Recovery != nil:
		return recoveryOf(t.Recovery) + "; " + nobodyFor(t), true
	case t.Nobody:
		return nobodyFor(t), true
	case t.Recovery != nil:
		return recoveryOf(t.Recovery), true
	case t.State == entry.TaskFailed && t.Epoch > 0 && t.RetryCount >= t.MaxRetries:
		return retriesOf(t) + " retries used: " + t.Reason, true
	}
	return "", false
}

// recoveryOf says what the policy wants done about a task, where that stands, and
// what people can do.
func recoveryOf(r *api.TaskRecovery) string {
	text := fmt.Sprintf("%s: %s (%s)", r.Strategy, r.Reason, r.Rule)
	if r.Remediation != "" {
		text += ": " + r.Remediation
	}
	return text
}

func (a *app) taskShowCommand(t *target) *cobra.Command {
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
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				task, err := c.client.Task(cmd.Context(), ref)
				if err != nil {
					return err
				}
				return a.printObject(task, c.taskFields(task)...)
			})
		},
	}
}

func (c *connection) taskFields(t *api.Task) []field {
	fields := []field{
		{"task", string(t.Task)}, {"state", string(t.State)}, {"workflow", string(t.Wid)}, {"type", orNothing(t.Type)}, {"age", c.ageOf(t)},
		{"epoch", fmt.Sprint(t.Epoch)}, {"retries", retriesOf(t)}, {"resumes", fmt.Sprintf("%d of %d", t.ResumeCount, entry.MaxResumes)},
		{"failures", orNothing(failuresOf(t))}, {"agent", orNothing(string(t.Agent))}, {"executions", fmt.Sprint(t.Executions)},
		{"changed", fmt.Sprintf("%s, by entry %d: %s", instant(t.ChangedAt), t.Changed, t.Reason)},
	}
	if t.Lease != nil {
		fields = append(fields, field{"lease", fmt.Sprintf("until %s, %s a term", instant(t.Lease.ExpiresAt), time.Duration(t.Lease.TermMS)*time.Millisecond)})
	}
	if len(t.Candidates) > 0 {
		fields = append(fields, field{"candidates", candidatesOf(t)})
	}
	return append(fields, field{"waits for", orNothing(waitsForTask(t))})
}

// failuresOf lists how the claims of a task ended.
func failuresOf(t *api.Task) string {
	var list []string
	for _, f := range t.Failures {
		list = append(list, f.Class+"."+f.Code)
	}
	return strings.Join(list, ", ")
}

// moveOptions are the flags of the verbs by which an operator moves a task on.
type moveOptions struct {
	signerFlags
	agent, reason, out string
	yes                bool
}

func (a *app) taskMoveCommand(t *target, op, short, long string) *cobra.Command {
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
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.taskMove(cmd.Context(), c, ref, op, &o) })
		},
	}
	flags := cmd.Flags()
	switch op {
	case entry.TaskReassign:
		flags.StringVar(&o.agent, "agent", "", "who is to hold it (default: the first candidate that arl task show names)")
	case entry.TaskRelease:
		flags.StringVar(&o.agent, "agent", "", "who is to hold it (mandatory)")
		_ = cmd.MarkFlagRequired("agent") // the flag exists
	}
	needReason(cmd, &o.reason)
	o.register(flags)
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.StringVar(&o.out, "out", "", "file for the receipt, with those of the policies and keys that it counts by")
	return cmd
}

// taskMove shows a task, asks, and registers what moves it on.
func (a *app) taskMove(ctx context.Context, c *connection, ref entry.Ref, op string, o *moveOptions) error {
	if err := checkOut(o.out); err != nil {
		return err
	}
	task, err := c.client.Task(ctx, ref)
	if err != nil {
		return err
	}
	b, ok := task.Move(op, entry.Principal(o.agent), o.reason)
	if !ok {
		return withExit(exitConflict, fmt.Errorf("%s is %s, and not to be %s from there", ref, task.State, pastOf(op)))
	}
	if op == entry.TaskReassign {
		if b.Agent, err = reassignee(task, b.Agent); err != nil {
			return err
		}
	}
	signer, err := a.signer(ctx, c, o.signerFlags, principalOperator)
	if err != nil {
		return err
	}
	if err := a.forPeople(a.err).printObject(nil, c.taskFields(task)...); err != nil {
		return err
	}
	what := op + " it"
	if op != entry.TaskCancel {
		what += " to " + string(b.Agent)
	}
	if err := a.confirm(fmt.Sprintf("%s as %s?", what, signer.principal), o.yes); err != nil {
		return err
	}
	wid := b.Wid
	b.Header = newHeader(signer.principal, c.root.Origin)
	b.Wid = wid
	return a.signAndSubmit(ctx, c, signer, b, o.out)
}

// reassignee is who gets a task that is reassigned: whom the operator names, else whom
// the coordinator would choose. An agent that must not get the task is refused.
func reassignee(t *api.Task, named entry.Principal) (entry.Principal, error) {
	r := t.Reassign
	switch {
	case r == nil:
		return "", fmt.Errorf("%w: task %s, which is %s, without whom it may be given to", client.ErrMalformed, t.Task, t.State)
	case named != "" && named == r.Except && t.Recovery != nil:
		return "", withExit(exitConflict, fmt.Errorf("%s: %s failed at it just now, and the policy gives it to another agent (%s): "+
			"name another, or apply a policy that allows a retry (docs/tasks.md)", t.Task, named, recoveryOf(t.Recovery)))
	case named != "":
		return named, nil
	case r.Agent != "":
		return r.Agent, nil
	}
	switch r.Obstacle {
	case api.ObstacleUntyped:
		return "", usage("%s has no type that an agent would be chosen by: name who is to hold it with --agent", t.Task)
	case api.ObstacleNobody:
		return "", withExit(exitConflict, fmt.Errorf("%s: %s, or name one with --agent", t.Task, nobodyFor(t)))
	case api.ObstacleRelease:
		why, _ := holdsUp(t)
		return "", withExit(exitConflict, fmt.Errorf("%s: %s: arl task release answers for that", t.Task, why))
	}
	return "", withExit(exitConflict, fmt.Errorf("%s: whoever has the capability %s holds as many tasks as the coordinator gives: wait, or name one with --agent", t.Task, t.Type))
}

// nobodyFor says that no agent can be given a task.
func nobodyFor(t *api.Task) string {
	who := "no agent"
	if t.Recovery != nil && t.Recovery.Another {
		who += " but " + string(t.Agent) + ", which failed at it just now,"
	}
	return fmt.Sprintf("%s has the capability %s: enrol one (arl agent enrol)", who, t.Type)
}

// candidatesOf lists who may get a task.
func candidatesOf(t *api.Task) string {
	var list []string
	for _, c := range t.Candidates {
		list = append(list, fmt.Sprintf("%s (holds %d)", c.Agent, c.Held))
	}
	return strings.Join(list, ", ")
}

func pastOf(op string) string {
	if op == entry.TaskCancel {
		return "cancelled"
	}
	return map[string]string{entry.TaskReassign: "reassigned", entry.TaskRelease: "released"}[op]
}
