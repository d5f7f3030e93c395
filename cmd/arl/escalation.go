package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/client"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

func (a *app) escalationCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "escalation",
		Short: "Answer what waits for people",
		Long: "Answer what waits for people: tasks that are blocked, have spent their retries, have effects that nobody knows, that\n" +
			"no agent can be given, or that the policy leaves to people; incidents that are escalated; and those that were\n" +
			"dismissed because nobody answered in time, until somebody acknowledges that.",
		Example: "  arl escalation list",
	}
	o.register(cmd.PersistentFlags())
	cmd.AddCommand(a.escalationListCommand(&o), a.escalationResolveCommand(&o), a.escalationAcknowledgeCommand(&o))
	return cmd
}

// escalation is something that waits for people.
type escalation struct {
	Kind     string `json:"kind"` // task, incident
	ID       string `json:"id"`
	Since    int64  `json:"since"` // Unix milliseconds
	State    string `json:"state"`
	Question string `json:"question"`
	// NotFenced is why others may meanwhile build on what an incident may undo.
	NotFenced string `json:"not_fenced,omitempty"`
}

func (a *app) escalationListCommand(o *logOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List what waits for people",
		Example: "  arl escalation list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), &o.target, func(c *connection) error { return a.escalationList(cmd.Context(), c) })
		},
	}
}

func (a *app) escalationList(ctx context.Context, c *connection) error {
	l := a.newList("KIND", "ID", "SINCE", "STATE", "QUESTION")
	add := func(e escalation) error {
		question := e.Question
		if e.NotFenced != "" {
			question += " NOT FENCED: " + e.NotFenced
		}
		return l.add(e, e.Kind, e.ID, instant(e.Since), e.State, question)
	}
	for task, err := range c.client.Tasks(ctx, client.TaskQuery{State: "operator"}) {
		if err != nil {
			return err
		}
		question, found := holdsUp(task)
		if !found {
			question = task.Reason
		}
		if err := add(escalation{Kind: "task", ID: string(task.Task), Since: task.ChangedAt, State: string(task.State), Question: question}); err != nil {
			return err
		}
	}
	for inc, err := range c.client.Incidents(ctx, client.IncidentQuery{State: "open"}) {
		if err != nil {
			return err
		}
		if !inc.AsksPeople {
			continue
		}
		if len(inc.Signals) == 0 {
			return fmt.Errorf("%w: incident %d without a signal", client.ErrMalformed, inc.ID)
		}
		question := "may what " + string(inc.Signals[0].Subject) + " led to be undone?"
		if err := add(escalation{"incident", decimal(inc.ID), inc.OpenedAt, inc.State, question, inc.NotFenced}); err != nil {
			return err
		}
	}
	for inc, err := range c.client.Incidents(ctx, client.IncidentQuery{State: "unacknowledged"}) {
		if err != nil {
			return err
		}
		e := escalation{Kind: "incident", ID: decimal(inc.ID), Since: inc.OpenedAt, State: inc.State,
			Question: "nobody answered in time, and nothing was undone: arl escalation acknowledge " + decimal(inc.ID)}
		if err := add(e); err != nil {
			return err
		}
	}
	return l.close()
}

// escalationAcknowledgeCommand takes note of what silence has dismissed.
func (a *app) escalationAcknowledgeCommand(o *logOptions) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"acknowledge", "Take note of an incident that was dismissed because nobody answered",
		"Take note of an incident that was dismissed because nobody answered in time. It is an entry, signed by an approver\n" +
			"or an operator, and ends the incident's line in arl escalation list. Nothing else changes: nothing was undone, and\n" +
			"whoever wants that signals again."},
		func(ctx context.Context, i *atHand) error {
			switch {
			case !i.v.Silent:
				return withExit(exitConflict, fmt.Errorf("incident %d, which is %s, was not dismissed because nobody answered", i.v.ID, i.v.State))
			case i.v.Acknowledged != 0:
				return withExit(exitConflict, fmt.Errorf("entry %d has acknowledged incident %d already", i.v.Acknowledged, i.v.ID))
			}
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActDeny})
		})
	cmd.Example = "  arl escalation acknowledge 17 --reason 'looked into it: the mail was right'"
	return act.needsReason(cmd)
}

// resolveOptions are the flags of arl escalation resolve.
type resolveOptions struct {
	moveOptions
	cancel, refuse bool
	hours          int64
}

func (a *app) escalationResolveCommand(o *logOptions) *cobra.Command {
	var r resolveOptions
	cmd := &cobra.Command{
		Use:   "resolve TASK|INCIDENT",
		Short: "Answer what waits for people",
		Long: "Answer what waits for people. A task is given to --agent, or with --cancel ends; of an incident exactly the plan\n" +
			"that is proposed is approved, or with --refuse refused, as by arl incident approve.",
		Example: "  arl escalation resolve operator#report-7 --agent researcher --reason 'the invoice was not sent: go on'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.escalationResolve(cmd.Context(), o, args[0], &r)
		},
	}
	flags := cmd.Flags()
	o.registerKept(flags)
	flags.StringVar(&r.agent, "agent", "", "who is to hold the task")
	flags.BoolVar(&r.cancel, "cancel", false, "end the task")
	flags.BoolVar(&r.refuse, "refuse", false, "refuse the plan of the incident")
	flags.Int64Var(&r.hours, "hours", 24, "for how long the answer to an incident counts")
	needReason(cmd, &r.reason)
	r.register(flags)
	flags.BoolVar(&r.yes, "yes", false, "do not ask")
	flags.StringVar(&r.out, "out", "", "file for the receipt, with those of the policies and keys that it counts by")
	return cmd
}

func (a *app) escalationResolve(ctx context.Context, o *logOptions, what string, r *resolveOptions) error {
	if !strings.Contains(what, "#") {
		if r.agent != "" || r.cancel {
			return usage("--agent and --cancel are about tasks, and %s is an incident", what)
		}
		act := actOptions{signerFlags: r.signerFlags, reason: r.reason, yes: r.yes, out: r.out, refuse: r.refuse}
		return a.withIncident(ctx, o, what, func(i *atHand) error { return a.approve(ctx, i, &act, r.hours) })
	}
	ref, err := parseTask(what)
	switch {
	case err != nil:
		return err
	case r.refuse:
		return usage("--refuse is about incidents, and %s is a task: --cancel ends it", what)
	case (r.agent == "") == !r.cancel:
		return usage("say what is to become of %s: --agent releases it, --cancel ends it", what)
	}
	op := entry.TaskRelease
	if r.cancel {
		op = entry.TaskCancel
	}
	return a.withConnection(ctx, &o.target, func(c *connection) error {
		if op == entry.TaskRelease {
			if op, err = c.releaseOf(ctx, ref); err != nil {
				return err
			}
		}
		return a.taskMove(ctx, c, ref, op, &r.moveOptions)
	})
}

// releaseOf is the operation by which an operator lets a task go on.
func (c *connection) releaseOf(ctx context.Context, ref entry.Ref) (op string, err error) {
	task, err := c.client.Task(ctx, ref)
	if err != nil {
		return "", err
	}
	return cmp.Or(task.GivenBy, entry.TaskReassign), nil // what is held or over is refused as a reassign
}
