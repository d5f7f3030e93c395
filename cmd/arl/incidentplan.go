package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/emicklei/dot"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/incidents"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// previewOptions are the flags of arl incident preview.
type previewOptions struct {
	dismissed []uint
	dot       bool
	why       string
}

func (a *app) incidentPreviewCommand(o *access.Where) *cobra.Command {
	var preview previewOptions
	cmd := &cobra.Command{
		Use:   "preview INCIDENT",
		Short: "Show the plan of a decision before it is made",
		Long: "Show what a decision would undo now, before anything happens: members and the reasons why they are included,\n" +
			"methods and checkpoints, effects that cannot be undone, counts against the limits, and the cost of the work. The\n" +
			"command writes nothing.",
		Example: "  arl incident preview 17 --dot > plan.dot",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIncident(args[0])
			if err != nil {
				return err
			}
			return a.machine().WithFold(cmd.Context(), o, func(_ *access.Log, f *access.Fold) error { return a.incidentPreview(f, id, &preview) })
		},
	}
	cmd.Flags().UintSliceVar(&preview.dismissed, "dismiss", nil, "indexes of signals to dismiss")
	cmd.Flags().StringVar(&preview.why, "why", "", "show the chain of reasons that leads to this execution, in the place of the plan")
	cmd.Flags().BoolVar(&preview.dot, "dot", false, "print the plan as a graph in the DOT language")
	return cmd
}

func (a *app) incidentPreview(f *access.Fold, id uint64, o *previewOptions) error {
	if o.dot && a.JSON() {
		return exit.Usagef("--dot and --output json are two forms of the plan: pass one of them")
	}
	v, err := f.Incident(id)
	if err != nil {
		return err
	}
	plan, err := view.Plan(f.State, id, &api.PlanQuery{Preview: true, Dismissed: incidents.Indexes(o.dismissed)}, f.Now)
	if err != nil { // the incident is there
		return exit.Usagef("--dismiss: %w (arl incident show %d)", err, id)
	}
	switch {
	case o.why != "":
		return a.printWhy(f, id, entry.Ref(o.why))
	case o.dot:
		return a.PrintText(planGraph(f, v, plan))
	case a.JSON():
		return a.PrintJSON(plan)
	}
	return a.printPlan(f, v, plan)
}

// printWhy writes the chain of reasons that leads to a member, from what a signal names on.
func (a *app) printWhy(f *access.Fold, id uint64, exec entry.Ref) error {
	why, err := view.WhyOf(f.State, id, exec, f.Now)
	if err != nil {
		return exit.With(exit.NotFound, err)
	}
	if a.JSON() {
		return a.PrintJSON(why)
	}
	t := a.NewList("EXECUTION", "AGENT", "WHY", "ENTRY")
	for i := range why.Chain {
		m := &why.Chain[i]
		if err := t.Add(m, string(m.Exec), string(m.Agent), ruleText(m), decimal(m.Index)); err != nil {
			return err
		}
	}
	return t.Close()
}

// forPeople returns an app that writes tables to w, whatever --output says.
func (a *app) forPeople(w io.Writer) *app {
	other := *a
	other.Out, other.Output = w, terminal.OutputTable
	return &other
}

// printPlan writes a plan for people.
func (a *app) printPlan(f *access.Fold, v *api.Incident, p *api.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "incident %d, %s, workflow %s: %s, rollback set %s\n", p.Incident, v.State, v.Wid, words.Counted(len(p.Members), "member"), p.RollbackSet.Root)
	for _, line := range planSummary(f, v, p) {
		b.WriteString(line + "\n")
	}
	if len(p.Review) > 0 {
		fmt.Fprintf(&b, "to review (soft dependents, not undone): %s\n", joinRefs(p.Review))
	}
	if err := a.PrintText(b.String() + "\n"); err != nil {
		return err
	}
	t := a.NewList("EXECUTION", "AGENT", "METHOD", "CHECKPOINT", "EFFECT", "PROGRESS", "WHY", "COST")
	for i := range p.Members {
		m := &p.Members[i]
		method := string(m.Method)
		if m.Drain {
			method = "drain, " + method
		}
		if err := t.Add(m, string(m.Exec), string(m.Agent), method, string(m.Checkpoint), string(m.Effect), string(m.Progress), ruleText(m), words.Dollars(m.CostMicroUSD)); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return a.printCounters(p)
}

// planSummary says of a plan as a whole who decides, what cannot be undone, and
// what it cost.
func planSummary(f *access.Fold, v *api.Incident, p *api.Plan) []string {
	inForce, _ := view.InForce(f.State, v.ID, f.Now)
	lines := []string{words.WhoDecides(v, p, inForce)}
	if v.Undecided() {
		lines = append(lines, fenceOf(v, p))
	}
	return append(lines,
		fmt.Sprintf("cannot be undone: %d residual (irrevocable %d, undeclared %d)", p.Residual(), p.Impact.Irrevocable, p.Impact.Undeclared),
		fmt.Sprintf("cost to redo: %s USD", words.Dollars(p.CostMicroUSD)))
}

// fenceOf says how far others are kept from building on a plan while it waits for
// a decision.
func fenceOf(v *api.Incident, p *api.Plan) string {
	if why := v.FenceObstacle(p); why != "" {
		return "NOT FENCED: " + why
	}
	fenced := 0
	for i := range p.Members {
		if p.Members[i].Fenced {
			fenced++
		}
	}
	return fmt.Sprintf("fenced: %d of %d members", fenced, len(p.Members))
}

// capped are the cells of a counter, each with its cap.
func capped(c *api.Counter) []string {
	of := func(is, limit int64) string { return fmt.Sprintf("%d of %d", is, limit) }
	whose := strings.TrimSpace(c.Whose + " " + string(c.Principal))
	if c.For == "fence" {
		whose = "fence: " + whose
	}
	return []string{whose, of(c.Members, c.Limit.Members), of(c.Agents, c.Limit.Agents),
		of(c.Domains, c.Limit.Domains), of(c.FencedMS, c.Limit.FencedMS)}
}

func (a *app) printCounters(p *api.Plan) error {
	if err := a.PrintText("\n"); err != nil {
		return err
	}
	t := a.NewList("COUNTS AGAINST", "MEMBERS", "AGENTS", "DOMAINS", "FENCED MS")
	for i := range p.Counters {
		if err := t.Add(p.Counters[i], capped(&p.Counters[i])...); err != nil {
			return err
		}
	}
	return t.Close()
}

// ruleText says what leads to a member.
func ruleText(m *api.PlanMember) string {
	if m.From == m.Exec {
		return m.Rule
	}
	return m.Rule + " of " + string(m.From)
}

func joinRefs(refs []entry.Ref) string {
	var parts []string
	for _, ref := range refs {
		parts = append(parts, string(ref))
	}
	return strings.Join(parts, ", ")
}

// planLabel is what stands below the graph of a plan: what its nodes do not
// show.
func planLabel(f *access.Fold, v *api.Incident, p *api.Plan) string {
	lines := append([]string{fmt.Sprintf("incident %d: %s", p.Incident, words.Counted(len(p.Members), "member"))}, planSummary(f, v, p)...)
	for i := range p.Counters {
		c := capped(&p.Counters[i])
		lines = append(lines, fmt.Sprintf("%s: members %s, agents %s, domains %s, fenced ms %s", c[0], c[1], c[2], c[3], c[4]))
	}
	return strings.Join(lines, "\n")
}

// planGraph draws a plan: its members by agent with what each cost, the
// dependencies between them, and dashed what is to be reviewed.
func planGraph(f *access.Fold, v *api.Incident, p *api.Plan) string {
	g := dot.NewGraph(dot.Directed)
	g.Attr("rankdir", "LR")
	g.Attr("label", planLabel(f, v, p))
	nodes := map[entry.Ref]dot.Node{}
	for i := range p.Members {
		m := &p.Members[i]
		label := string(m.Exec) + "\n" + string(m.Method)
		if m.Checkpoint != "" {
			label += " to " + string(m.Checkpoint)
		}
		if m.Drain {
			label += " after a drain"
		}
		if m.CostMicroUSD != 0 {
			label += "\n" + words.Dollars(m.CostMicroUSD) + " USD"
		}
		n := g.Subgraph(string(m.Agent), dot.ClusterOption{}).Node(string(m.Exec)).Label(label).Box()
		switch {
		case m.Method == entry.MethodResidual:
			n.Attr("color", "red")
		case m.Rule == "seed":
			n.Attr("penwidth", "2")
		}
		nodes[m.Exec] = n
	}
	for _, ref := range p.Review {
		nodes[ref] = g.Node(string(ref)).Label(string(ref)+"\nreview").Attr("style", "dashed")
	}
	drawn := func(ref entry.Ref) {
		x, _ := f.State.Execution(ref, f.Now) // a member is there
		for _, parent := range x.Parents {
			from, there := nodes[parent.Exec]
			if !there {
				continue
			}
			if edge := g.Edge(from, nodes[ref]); parent.Dep == entry.Soft {
				edge.Attr("style", "dashed")
			}
		}
	}
	for i := range p.Members {
		drawn(p.Members[i].Exec)
	}
	for _, ref := range p.Review {
		drawn(ref)
	}
	return g.String()
}
