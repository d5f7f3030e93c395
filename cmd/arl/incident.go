package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

func (a *app) incidentCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "incident",
		Short: "Look at incidents, and decide about them",
		Long: "Look at incidents, and decide about them. What is shown, and what is signed, is derived here from the entries of\n" +
			"the log, all of them held to the signed tree head and to the rules of registration: no server's word is taken.",
		Example: "  arl incident list",
	}
	flags := cmd.PersistentFlags()
	o.register(flags)
	o.registerInPlace(flags)
	o.registerKept(flags)
	cmd.AddCommand(a.incidentListCommand(&o), a.incidentShowCommand(&o), a.incidentPreviewCommand(&o), a.incidentBundleCommand(&o), a.incidentApproveCommand(&o),
		a.incidentEscalateCommand(&o), a.incidentAuthorizeCommand(&o), a.incidentAmendCommand(&o), a.incidentDenyCommand(&o),
		a.incidentOverrideCommand(&o), a.incidentReleaseCommand(&o), a.incidentRecordCommand(&o))
	return cmd
}

// parseIncident reads the id of an incident.
func parseIncident(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, usage("%q is no incident: its id is the index of its opening signal (arl incident list)", text)
	}
	return id, nil
}

// incident returns an incident as it stands.
func (f *folded) incident(id uint64) (*coord.IncidentView, error) {
	view, ok := f.State.Incident(id, f.now)
	if !ok {
		return nil, withExit(exitNotFound, fmt.Errorf("entry %d did not open an incident: arl incident list shows those there are", id))
	}
	return &view, nil
}

// incidentFilter are the filters of arl incident list.
type incidentFilter struct {
	state, agent, domain, workflow string
	limit                          int
}

func (a *app) incidentListCommand(o *logOptions) *cobra.Command {
	var filter incidentFilter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List incidents, the newest first",
		Example: "  arl incident list --state open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.check(); err != nil {
				return err
			}
			return a.withFold(cmd.Context(), o, func(_ *openLog, f *folded) error { return a.incidentList(f, &filter) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.state, "state", "", "only in this state, such as ESCALATED, or open|closed|unacknowledged")
	flags.StringVar(&filter.agent, "agent", "", "only those that this principal has to do with")
	flags.StringVar(&filter.domain, "domain", "", "only those that a principal of this domain has to do with")
	flags.StringVar(&filter.workflow, "workflow", "", "only those whose opening signal is of this workflow")
	flags.IntVar(&filter.limit, "limit", 100, "at most so many; 0: all")
	return cmd
}

func (o *incidentFilter) check() error {
	known := []string{"", "open", "closed", "unacknowledged"}
	for s := coord.Reported; s <= coord.Failed; s++ {
		known = append(known, s.String())
	}
	for _, state := range known {
		if strings.EqualFold(state, o.state) {
			o.state = state
			return nil
		}
	}
	return usage("--state %s: want one of %s", o.state, strings.Join(known[1:], ", "))
}

func (o *incidentFilter) matches(v *coord.IncidentView) bool {
	switch {
	case o.workflow != "" && string(v.Wid) != o.workflow:
		return false
	case o.state == "unacknowledged":
		return v.Unacknowledged()
	case o.state == "open" || o.state == "closed":
		return v.State.Open() == (o.state == "open")
	}
	return o.state == "" || o.state == v.State.String()
}

func (a *app) incidentList(f *folded, o *incidentFilter) error {
	views := f.State.Incidents(0, int(f.Size), f.now)
	switch {
	case o.domain != "":
		views = f.State.IncidentsOfDomain(o.domain, entry.Principal(o.agent), 0, int(f.Size), f.now)
	case o.agent != "":
		views = f.State.IncidentsOf(entry.Principal(o.agent), 0, int(f.Size), f.now)
	}
	l := a.newList("INCIDENT", "OPENED", "STATE", "WORKFLOW", "SIGNALS", "ABOUT", "WAITS FOR")
	count := 0
	for i := range views {
		v := &views[i]
		if !o.matches(v) {
			continue
		}
		err := l.add(server.NewIncident(v), decimal(v.ID), instant(v.OpenedAt), stateOf(v), string(v.Wid), fmt.Sprint(len(v.Signals)),
			string(v.Signals[0].Subject), waitsFor(v))
		if err != nil {
			return err
		}
		if count++; count == o.limit {
			break
		}
	}
	return l.close()
}

// waitsFor says in a few words what an incident waits for, and which fence stands
// though it waits for nothing.
func waitsFor(v *coord.IncidentView) string {
	switch {
	case v.WaitsFor != "":
		return v.WaitsFor + unfenced(v)
	case v.StillFenced > 0:
		return fmt.Sprintf("nothing; members still fenced: %d", v.StillFenced)
	}
	return ""
}

// unfenced marks what waits while others may build on it.
func unfenced(v *coord.IncidentView) string {
	if v.NotFenced == "" {
		return ""
	}
	return "; NOT FENCED"
}

func (a *app) incidentShowCommand(o *logOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "show INCIDENT",
		Short: "Show an incident and the plan in force",
		Long: "Show an incident as it stands: signals and what was found of them, fence, proposal and answers, and of the plan in\n" +
			"force what became of each member. Exit code 11 if it ended without everything being undone.",
		Example: "  arl incident show 17",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIncident(args[0])
			if err != nil {
				return err
			}
			return a.withFold(cmd.Context(), o, func(_ *openLog, f *folded) error { return a.incidentShow(f, id) })
		},
	}
}

// shownIncident is an incident with its plan in force, if it has one.
type shownIncident struct {
	*api.Incident
	Plan *api.Plan `json:"plan,omitempty"`
}

func (a *app) incidentShow(f *folded, id uint64) error {
	v, err := f.incident(id)
	if err != nil {
		return err
	}
	shown := shownIncident{Incident: server.NewIncident(v)}
	if plan, ok := f.State.PlanInForce(id, f.now); ok {
		shown.Plan = server.NewPlan(id, v.Decision.Ref.Index, plan)
	}
	if err := a.printObject(shown, incidentFields(v)...); err != nil {
		return err
	}
	if shown.Plan != nil && a.settings.output == outputTable {
		if err := a.printInForce(shown.Plan); err != nil {
			return err
		}
	}
	return incomplete(v.State)
}

// incomplete is the end of a command about an incident that ended without
// everything being undone.
func incomplete(state coord.IncidentState) error {
	if state == coord.Partial || state == coord.Failed {
		return withExit(exitIncomplete, fmt.Errorf("the incident is %s: not everything could be undone", state))
	}
	return nil
}

func incidentFields(v *coord.IncidentView) []field {
	fields := []field{
		{"incident", decimal(v.ID)}, {"state", stateOf(v)}, {"workflow", string(v.Wid)}, {"opened", instant(v.OpenedAt)},
		{"epoch", fmt.Sprint(v.Epoch)},
	}
	for _, s := range server.NewIncident(v).Signals {
		text := fmt.Sprintf("entry %d by %s as %s, about %s", s.Index, s.Issuer, s.Standing, s.Subject)
		if s.Disposition != "" {
			text += fmt.Sprintf(": %s, says entry %d", foundOf(&s), s.Disposed)
		}
		fields = append(fields, field{"signal", text})
	}
	if x := v.Fence; x != nil {
		fields = append(fields, field{"fence", fmt.Sprintf("%d members and %d lines until %s, by entry %d", x.Members, x.Lines, instant(x.Exp), x.Decision)})
	}
	if v.NotFenced != "" {
		fields = append(fields, field{"fence", "NOT FENCED: " + v.NotFenced})
	}
	if v.StillFenced > 0 {
		fields = append(fields, field{"fence", fmt.Sprintf("members still fenced, though it is over: %d; do again under new ids what needs them,", v.StillFenced)},
			field{"", fmt.Sprintf("or let an approver free one that may be used as it is: arl incident release %d --member EXECUTION", v.ID)})
	}
	if p := v.Proposal; p != nil {
		fields = append(fields, field{"proposal", fmt.Sprintf("entry %d by %s, until %s", p.Ref.Index, p.Issuer, instant(p.Exp))},
			field{"answers", fmt.Sprintf("%d of %d approvals, %d refusals", len(p.Approve), p.Quorum, len(p.Refuse))})
	}
	if d := v.Decision; d != nil {
		text := fmt.Sprintf("entry %d, %d members, deadline %s", d.Ref.Index, d.Members, instant(d.Deadline))
		if d.Overridden {
			text += ", overridden"
		}
		if d.Void {
			text += ", VOID: its key was compromised"
		}
		fields = append(fields, field{"decision", text}, field{"outcomes", tally(d.Tally)})
	}
	if v.Recorded != 0 {
		fields = append(fields, field{"closed", closedBy(v)})
	}
	return append(fields, field{"waits for", orNothing(waitsFor(v))})
}

// stateOf is the state of an incident, with what a state does not tell.
func stateOf(v *coord.IncidentView) string {
	if v.Silent {
		return v.State.String() + " (nobody answered in time)"
	}
	return v.State.String()
}

// closedBy says what closed an incident, and who has taken note if nobody decided.
func closedBy(v *coord.IncidentView) string {
	text := "by entry " + decimal(v.Recorded)
	switch {
	case v.Unacknowledged():
		text += fmt.Sprintf(", since nobody answered in time: arl escalation acknowledge %d", v.ID)
	case v.Silent:
		text += ", since nobody answered in time; acknowledged by entry " + decimal(v.Acknowledged)
	}
	return text
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// tally writes the counts of outcomes in the order of the protocol.
func tally(counts map[entry.Result]int64) string {
	var parts []string
	for _, r := range []entry.Result{entry.Restored, entry.Compensated, entry.NotExecuted, entry.ResultIrrevocable, entry.ResultFailed,
		entry.Refused, entry.Withheld, entry.ResultUnknown} {
		if n := counts[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if parts == nil {
		return "none yet"
	}
	return strings.Join(parts, ", ")
}

func (a *app) printInForce(p *api.Plan) error {
	l := a.newList("EXECUTION", "AGENT", "METHOD", "CHECKPOINT", "RESULT", "SAID BY", "DUE")
	for i := range p.Members {
		m := &p.Members[i]
		result, by, due := string(m.Result), "", ""
		switch {
		case m.Result == "" && m.Released:
			result, due = "may begin", instant(m.DueAt)
		case m.Result == "":
			result, due = "waits", instant(m.DueAt)
		default:
			by = "entry " + decimal(m.ResultAt)
		}
		if err := l.add(m, string(m.Exec), string(m.Agent), string(m.Method), string(m.Checkpoint), result, by, due); err != nil {
			return err
		}
	}
	return l.close()
}

// atHand is an incident that is to be decided about.
type atHand struct {
	c      *connection
	f      *folded
	v      *coord.IncidentView
	signer *signer // once somebody has asked for it
}

// signedBy returns who signs. A passphrase is asked for once.
func (a *app) signedBy(ctx context.Context, i *atHand, flags signerFlags) (_ *signer, err error) {
	if i.signer == nil {
		i.signer, err = a.signer(ctx, i.c, flags, principalOperator)
	}
	return i.signer, err
}

// withIncident folds the log of a running ledger and finds an incident in it.
func (a *app) withIncident(ctx context.Context, o *logOptions, arg string, use func(*atHand) error) error {
	id, err := parseIncident(arg)
	if err != nil {
		return err
	}
	if o.data != "" {
		return usage("a stopped ledger takes no entries: start it, and pass --url")
	}
	return a.withConnection(ctx, &o.target, func(c *connection) error {
		f, err := a.fold(ctx, c.openLog(o), "read the log", nil)
		if err != nil {
			return err
		}
		v, err := f.incident(id)
		if err != nil {
			return err
		}
		return use(&atHand{c: c, f: f, v: v})
	})
}
