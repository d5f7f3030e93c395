package main

import (
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words/runs"
	"recoveryledger/cmd/arl/rollouts"
	"recoveryledger/coord/recovery/engine"
)

func (a *app) reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "report",
		Short:   "Read and compare reports of recovery runs",
		Example: "  arl report show ./run",
	}
	cmd.AddCommand(a.reportShowCommand(), a.reportDiffCommand(), rollouts.DriftCommand(&a.Terminal, a.machine))
	return cmd
}

func (a *app) reportShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show DIR|FILE",
		Short:   "Show a report",
		Long:    "Show a report for people, in Markdown, or with --output json as in report.json.",
		Example: "  arl report show ./run",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			report, _, err := a.readReport(args[0])
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(report)
			}
			return a.PrintText(report.Summary())
		},
	}
}

func (a *app) reportDiffCommand() *cobra.Command {
	changed := false
	cmd := &cobra.Command{
		Use:     "diff BEFORE AFTER",
		Short:   "Compare two runs class by class",
		Long:    "Compare two reports, or the directories of two runs: how often each class recovered, and at what cost.",
		Example: "  arl report diff ./baseline ./run",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			before, _, err := a.readReport(args[0])
			if err != nil {
				return err
			}
			after, _, err := a.readReport(args[1])
			if err != nil {
				return err
			}
			d := engine.Diff(before, after)
			if changed {
				d.Changed()
			}
			return a.printDiff(d)
		},
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "only classes in which something differs")
	return cmd
}

func (a *app) printDiff(d engine.ReportDiff) error {
	if a.JSON() {
		return a.PrintJSON(d)
	}
	if err := a.printTable(runs.Changes(&d)); err != nil {
		return err
	}
	return a.PrintText(strings.Join(runs.ChangeNotes(&d), "\n") + "\n")
}

// printTable prints a table for people.
func (a *app) printTable(t *runs.Table) error {
	l := a.NewList(t.Headers...)
	for _, row := range t.Rows {
		if err := l.Add(row.Value, row.Cells...); err != nil {
			return err
		}
	}
	return l.Close()
}
