package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
)

func (a *app) escalationCommand() *cobra.Command {
	var o access.Where
	cmd := &cobra.Command{
		Use:   "escalation",
		Short: "Answer tasks and incidents that wait for a person",
		Long: "Answer tasks and incidents that wait for a person. A task waits for a person when it is blocked, has spent its\n" +
			"retries, has unknown effects, is unassignable, or the policy leaves it to people. An incident waits\n" +
			"when a proposal about it may be answered. An incident or amend that nobody answered in time waits until a\n" +
			"person acknowledges it.",
		Example: "  arl escalation list",
	}
	o.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.escalationListCommand(&o), a.escalationResolveCommand(&o), a.escalationAcknowledgeCommand(&o))
	return cmd
}

func (a *app) escalationListCommand(o *access.Where) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tasks and incidents that wait for a person",
		Example: "  arl escalation list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithWatched(cmd.Context(), &o.Target, func(c *access.Connection) error { return a.escalationList(cmd.Context(), c) })
		},
	}
}

func (a *app) escalationList(ctx context.Context, c *access.Connection) error {
	l := a.NewList("KIND", "ID", "SINCE", "STATE", "WAITS FOR", "UNTIL", "QUESTION")
	for e, err := range c.Client.Escalations(ctx) {
		if err != nil {
			return err
		}
		if err := l.Add(e, e.Kind, e.ID, instant(e.Since), e.State, e.Who(), untilThen(e.Waits), words.Asks(e)); err != nil {
			return err
		}
	}
	return l.Close()
}

// untilThen says until when an incident waits, and what happens then.
func untilThen(w *api.Waits) string {
	if w == nil || w.Until == 0 {
		return ""
	}
	return instant(w.Until) + ": " + w.Then
}

// escalationAcknowledgeCommand takes note of what nobody answered.
func (a *app) escalationAcknowledgeCommand(o *access.Where) *cobra.Command {
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Acknowledge, "Acknowledge an incident or amend that nobody answered in time",
		"Acknowledge that nobody answered in time: the incident was dismissed, or its plan went on without a proposed\n" +
			"amend. The acknowledgement is an entry, signed by an approver or an operator. It ends the incident's line in arl\n" +
			"escalation list, and changes nothing else. To have something undone after all, signal again, or propose the\n" +
			"amend again."})
	cmd.Example = "  arl escalation acknowledge 17 --reason 'looked into it: the mail was right'"
	return options.needsReason(cmd)
}

// resolveOptions are the flags of arl escalation resolve.
type resolveOptions struct {
	moveOptions
	cancel, refuse bool
	hours          int64
}

func (a *app) escalationResolveCommand(o *access.Where) *cobra.Command {
	var r resolveOptions
	cmd := &cobra.Command{
		Use:   "resolve TASK|INCIDENT",
		Short: "Answer a task or an incident that waits for a person",
		Long: "Answer a task or an incident that waits for a person. For a task, --agent gives the task to an agent, and\n" +
			"--cancel ends the task. For an incident, the command approves exactly the proposed plan, or with --refuse\n" +
			"refuses it, as arl incident approve does.",
		Example: "  arl escalation resolve operator#report-7 --agent researcher --reason 'the invoice was not sent: go on'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.escalationResolve(cmd.Context(), o, args[0], &r)
		},
	}
	flags := cmd.Flags()
	o.RegisterKept(flags)
	flags.StringVar(&r.agent, "agent", "", "agent to give the task to")
	flags.BoolVar(&r.cancel, "cancel", false, "end the task")
	flags.BoolVar(&r.refuse, "refuse", false, "refuse the plan of the incident")
	flags.Int64Var(&r.hours, "hours", act.DefaultHours, "time for which the answer to an incident is valid")
	needReason(cmd, &r.reason)
	r.Register(flags)
	flags.BoolVar(&r.yes, "yes", false, "do not ask for confirmation")
	flags.StringVar(&r.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
	return cmd
}

func (a *app) escalationResolve(ctx context.Context, o *access.Where, what string, r *resolveOptions) error {
	if !strings.Contains(what, "#") {
		if r.agent != "" || r.cancel {
			return exit.Usagef("--agent and --cancel apply to tasks, and %s is an incident", what)
		}
		options := actOptions{SignerFlags: r.SignerFlags, reason: r.reason, yes: r.yes, out: r.out, refuse: r.refuse, hours: r.hours}
		return a.act(ctx, o, what, act.Approve, &options)
	}
	ref, err := parseTask(what)
	switch {
	case err != nil:
		return err
	case r.refuse:
		return exit.Usagef("--refuse applies to incidents, and %s is a task: pass --cancel to end the task", what)
	case (r.agent == "") == !r.cancel:
		return exit.Usagef("%s is a task: pass --agent to release the task, or --cancel to end it", what)
	}
	verb := act.Give
	if r.cancel {
		verb = act.Cancel
	}
	return a.machine().WithConnection(ctx, &o.Target, func(c *access.Connection) error { return a.taskMove(ctx, c, ref, verb, &r.moveOptions) })
}
