package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/histories"
	"recoveryledger/cmd/arl/incidents"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

func (a *app) incidentCommand() *cobra.Command {
	var o access.Where
	cmd := &cobra.Command{
		Use:   "incident",
		Short: "Show incidents, and decide about them",
		Long: "Show incidents, and decide about them. The commands derive what they show and sign from the entries of the log.\n" +
			"They verify these entries against the signed tree head and the rules of registration, and take no server's word.",
		Example: "  arl incident list",
	}
	flags := cmd.PersistentFlags()
	o.Register(flags)
	o.RegisterInPlace(flags)
	o.RegisterKept(flags)
	cmd.AddCommand(a.incidentListCommand(&o), a.incidentShowCommand(&o), incidents.ReportCommand(&a.Terminal, a.machine, &o), a.incidentPreviewCommand(&o), a.incidentBundleCommand(&o), a.incidentApproveCommand(&o),
		a.incidentEscalateCommand(&o), a.incidentAuthorizeCommand(&o), a.incidentAmendCommand(&o), a.incidentDenyCommand(&o),
		a.incidentOverrideCommand(&o), a.incidentReleaseCommand(&o), a.incidentRecordCommand(&o))
	return cmd
}

// parseIncident reads the id of an incident.
func parseIncident(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, exit.Usagef("%q is not an incident: want the index of the opening signal (arl incident list)", text)
	}
	return id, nil
}

func (a *app) incidentListCommand(o *access.Where) *cobra.Command {
	var q api.IncidentQuery
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List incidents, newest first",
		Example: "  arl incident list --state open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.State, err = incidentState(q.State); err != nil {
				return err
			}
			return a.machine().WithFold(cmd.Context(), o, func(_ *access.Log, f *access.Fold) error { return a.incidentList(f, &q) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.State, "state", "", "only incidents in this state, such as ESCALATED, or open|closed|unacknowledged")
	flags.StringVar((*string)(&q.Agent), "agent", "", "only incidents that involve this principal")
	flags.StringVar(&q.Domain, "domain", "", "only incidents that involve a principal of this domain")
	flags.StringVar((*string)(&q.Workflow), "workflow", "", "only incidents whose opening signal is of this workflow")
	flags.IntVar(&q.Limit, "limit", 100, "greatest number of incidents; 0: all")
	return cmd
}

// incidentState returns the state that --state means, in the words of the wire.
func incidentState(text string) (string, error) {
	known := append([]string{""}, api.IncidentChoices()...)
	for _, state := range known {
		if strings.EqualFold(state, text) {
			return state, nil
		}
	}
	return "", exit.Usagef("--state %s: want one of %s", text, strings.Join(known[1:], ", "))
}

func (a *app) incidentList(f *access.Fold, q *api.IncidentQuery) error {
	l := a.NewList("INCIDENT", "OPENED", "STATE", "WORKFLOW", "SIGNALS", "ABOUT", "WAITS FOR")
	left := *q
	if q.Limit <= 0 {
		left.Limit = int(f.Size) // no log has more incidents than entries
	}
	for next := &left; next != nil && next.Limit > 0; {
		var views []api.Incident
		limit := next.Limit
		views, next = view.Incidents(f.State, next, f.Now)
		if next != nil {
			next.Limit = limit - len(views)
		}
		for i := range views {
			v := &views[i]
			err := l.Add(v, decimal(v.ID), instant(v.OpenedAt), words.IncidentState(v), string(v.Wid), fmt.Sprint(len(v.Signals)),
				string(v.Signals[0].Subject), words.IncidentWaitsFor(v))
			if err != nil {
				return err
			}
		}
	}
	return l.Close()
}

func (a *app) incidentShowCommand(o *access.Where) *cobra.Command {
	var proof histories.Proof
	cmd := &cobra.Command{
		Use:   "show INCIDENT",
		Short: "Show an incident and the plan in force",
		Long: "Show an incident: its signals and their dispositions, its fence, the proposal and the answers, and the state of\n" +
			"each member of the plan in force. The exit code is 11 if the incident ended without everything being undone.\n\n" +
			"With --prove, the command fetches a history file of the incident, which arl verify checks offline, without the\n" +
			"log. The ledger must keep an index (arl serve --index). --at N ends the file at the first N entries of the log.",
		Example: "  arl incident show 17",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIncident(args[0])
			if err != nil {
				return err
			}
			if err := proof.Check(o); err != nil {
				return err
			}
			if proof.Prove {
				return a.prove(cmd.Context(), &proof, &o.Target, entry.Subject{Type: entry.SubjectIncident, Value: entry.IncidentValue(id)})
			}
			return a.machine().WithFold(cmd.Context(), o, func(l *access.Log, f *access.Fold) error {
				return a.incidentShow(cmd.Context(), l, f, id)
			})
		},
	}
	proof.Register(cmd.Flags())
	manual.NameValue(cmd.Flags(), "at", "N")
	return cmd
}

// shownIncident is an incident with its plan in force, if it has one.
type shownIncident struct {
	*api.Incident
	Plan *api.Plan `json:"plan,omitempty"`
}

func (a *app) incidentShow(ctx context.Context, l *access.Log, f *access.Fold, id uint64) error {
	v, err := f.Incident(id)
	if err != nil {
		return err
	}
	if c, running := l.Registry.(*access.Connection); running && v.Decision != nil {
		served, err := c.Client.Incident(ctx, id)
		if err != nil {
			return err
		}
		v.Cosignatures = served.Cosignatures
	}
	shown := shownIncident{Incident: v}
	shown.Plan, _ = view.InForce(f.State, id, f.Now)
	if err := a.PrintObject(shown, incidentFields(v)...); err != nil {
		return err
	}
	if shown.Plan != nil && !a.JSON() {
		if err := a.printInForce(shown.Plan); err != nil {
			return err
		}
	}
	return incomplete(v.State)
}

// incomplete is the end of a command about an incident that ended without
// everything being undone.
func incomplete(state entry.IncidentState) error {
	if state.LeftUndone() {
		return exit.With(exit.Incomplete, fmt.Errorf("the incident is %s: not everything could be undone", state))
	}
	return nil
}

func incidentFields(v *api.Incident) []terminal.Field {
	fields := []terminal.Field{
		{"incident", decimal(v.ID)}, {"state", words.IncidentState(v)}, {"workflow", string(v.Wid)}, {"opened", instant(v.OpenedAt)},
		{"epoch", fmt.Sprint(v.Epoch)},
	}
	for _, s := range v.Signals {
		text := fmt.Sprintf("entry %d by %s as %s, about %s", s.Index, s.Issuer, s.Standing, s.Subject)
		if s.Disposition != "" {
			text += fmt.Sprintf(": %s, says entry %d", words.Disposition(&s), s.Disposed)
		}
		fields = append(fields, terminal.Field{"signal", text})
	}
	if x := v.Fence; x != nil {
		fields = append(fields, terminal.Field{"fence", fmt.Sprintf("%s and %s until %s, by entry %d", words.Counted(x.Members, "member"), words.Counted(x.Lines, "line"), instant(x.EndsAt), x.Decision)})
	}
	if v.NotFenced != "" {
		fields = append(fields, terminal.Field{"fence", "NOT FENCED: " + v.NotFenced})
	}
	if v.StillFenced > 0 {
		fields = append(fields, terminal.Field{"fence", fmt.Sprintf("members still fenced, although the incident is over: %d; repeat under new ids what needs them,", v.StillFenced)},
			terminal.Field{"", fmt.Sprintf("or let an approver release a member that may be used as it is: arl incident release %d --member EXECUTION", v.ID)})
	}
	if p := v.Proposal; p != nil {
		fields = append(fields, terminal.Field{"proposal", fmt.Sprintf("entry %d by %s, until %s", p.Ref.Index, p.Issuer, instant(p.ExpiresAt))},
			terminal.Field{"answers", fmt.Sprintf("%d of %d approvals, %s", len(p.Approve), p.Quorum, words.Counted(len(p.Refuse), "refusal"))})
	}
	if l := v.Lapsed; l != nil {
		fields = append(fields, terminal.Field{"lapsed", lapsed(v.ID, l)})
	}
	if d := v.Decision; d != nil {
		text := fmt.Sprintf("entry %d, %s, deadline %s", d.Ref.Index, words.Counted(d.Members, "member"), instant(d.DeadlineAt))
		if d.Overridden {
			text += ", overridden"
		}
		if d.Void {
			text += ", VOID: its key was compromised"
		}
		fields = append(fields, terminal.Field{"decision", text}, terminal.Field{"outcomes", words.Tally(d.Tally)})
	}
	if v.Recorded != 0 {
		fields = append(fields, terminal.Field{"closed", closedBy(v)})
	}
	for _, one := range v.Approvers {
		text := string(one.Principal) + " may answer"
		if one.MayNot != "" {
			text = string(one.Principal) + " may not answer: " + one.MayNot
		}
		fields = append(fields, terminal.Field{"approver", text})
	}
	fields = append(fields, terminal.Field{"waits for", words.OrNothing(words.IncidentWaitsFor(v))})
	if until := untilThen(v.Waits); until != "" {
		fields = append(fields, terminal.Field{"at the latest", until})
	}
	if v.Next != nil {
		fields = append(fields, terminal.Field{"next step", fmt.Sprintf("%s: the coordinator: %s", v.Next.When(), v.Next.Says)})
	}
	if v.Cosignatures != "" {
		fields = append(fields, terminal.Field{"agents wait for", "cosignatures, by the server's word: " + v.Cosignatures})
	}
	return fields
}

// lapsed says what became of an amend that nobody answered.
func lapsed(incident uint64, l *api.Lapse) string {
	text := fmt.Sprintf("the amend of entry %d, which nobody had answered by %s", l.Proposal, instant(l.At))
	if l.Acknowledged == 0 {
		return text + ": arl escalation acknowledge " + decimal(incident)
	}
	return text + "; acknowledged by entry " + decimal(l.Acknowledged)
}

// closedBy says what closed an incident, and who has taken note if nobody decided.
func closedBy(v *api.Incident) string {
	text := "by entry " + decimal(v.Recorded)
	switch {
	case v.Silence && v.Acknowledged == 0:
		text += fmt.Sprintf(", since nobody answered in time: arl escalation acknowledge %d", v.ID)
	case v.Silence:
		text += ", since nobody answered in time; acknowledged by entry " + decimal(v.Acknowledged)
	}
	return text
}

func (a *app) printInForce(p *api.Plan) error {
	l := a.NewList("EXECUTION", "AGENT", "METHOD", "CHECKPOINT", "RESULT", "SAID BY", "DUE")
	for i := range p.Members {
		m := &p.Members[i]
		by, due := "", instant(m.DueAt)
		if m.Result != "" {
			by, due = "entry "+decimal(m.ResultAt), ""
		}
		if err := l.Add(m, string(m.Exec), string(m.Agent), string(m.Method), string(m.Checkpoint), words.MemberState(m), by, due); err != nil {
			return err
		}
	}
	return l.Close()
}

// withIncident folds the log of a running ledger, in which a signal opened an incident.
func (a *app) withIncident(ctx context.Context, o *access.Where, arg string, use func(c *access.Connection, f *access.Fold, id uint64) error) error {
	id, err := parseIncident(arg)
	if err != nil {
		return err
	}
	if o.Data != "" {
		return exit.Usagef("a stopped ledger takes no entries: start it, and pass --url")
	}
	return a.machine().WithConnection(ctx, &o.Target, func(c *access.Connection) error {
		f, err := a.machine().Fold(ctx, c.OpenLog(o), "read the log")
		if err != nil {
			return err
		}
		if _, err := f.Incident(id); err != nil {
			return err
		}
		return use(c, f, id)
	})
}
