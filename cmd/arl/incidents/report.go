// Package incidents has commands about incidents that write pages for people, and reads what people
// say of signals.
package incidents

import (
	"bytes"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"recoveryledger/api/report"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
)

// options are the flags of arl incident report.
type options struct {
	html bool
	out  string
}

// ReportCommand returns arl incident report. where is filled in from the flags of arl incident.
func ReportCommand(t *terminal.Terminal, machine func() *access.Machine, where *access.Where) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "report INCIDENT",
		Short: "Write a page about an incident for people",
		Long: "Write one page about an incident for people who were not there: what happened, when, who decided on what basis,\n" +
			"what was undone and what was not, what it cost, and how to verify each sentence. Each sentence names the entries\n" +
			"that say so, and the commands that show them. The page is Markdown; with --html it is a page to print; with\n" +
			"--output json it is its content. The same entries make the same page.",
		Example: "  arl incident report 17 --html --out incident-17.html",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return exit.Usagef("%q is not an incident: want the index of the opening signal (arl incident list)", args[0])
			}
			if o.html && t.JSON() {
				return exit.Usagef("--html and --output json are two forms of the page: pass one of them")
			}
			if err := terminal.CheckOut(o.out); err != nil {
				return err
			}
			return machine().WithFold(cmd.Context(), where, func(l *access.Log, f *access.Fold) error {
				r, err := reportOf(cmd.Context(), l, f, id, where.InPlaceFlags()...)
				if err != nil {
					return err
				}
				return write(t, r, &o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.html, "html", false, "write HTML, for a browser or a printer")
	cmd.Flags().StringVar(&o.out, "out", "", "write the page to FILE (default: standard output)")
	return cmd
}

// reportOf makes the page about an incident from the entries of a folded log, which flags name.
func reportOf(ctx context.Context, l *access.Log, f *access.Fold, id uint64, flags ...string) (*report.Report, error) {
	if _, err := f.Incident(id); err != nil {
		return nil, err
	}
	facts, _ := report.Gather(f.State, id, f.Head.Head, l.Root.Origin, f.Now) // the incident is there
	entries, err := f.Entries(ctx, l, facts.Indexes())
	if err != nil {
		return nil, err
	}
	return facts.Report(entries, flags...), nil
}

// write writes the page in the form that the flags say.
func write(t *terminal.Terminal, r *report.Report, o *options) error {
	var page bytes.Buffer
	var err error
	switch {
	case t.JSON():
		err = (&terminal.Terminal{Out: &page}).PrintJSON(r)
	case o.html:
		err = r.HTML(&page)
	default:
		page.WriteString(r.Markdown())
	}
	if err != nil {
		return err
	}
	return t.WriteOut(o.out, page.Bytes())
}
