package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/coord/recovery/engine"
)

func (a *app) reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "report",
		Short:   "Read and compare reports of recovery runs",
		Example: "  arl report show ./run",
	}
	cmd.AddCommand(a.reportShowCommand(), a.reportDiffCommand())
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
	l := a.NewList("CLASS", "BEFORE", "AFTER", "CHANGE", "COST PER CASE")
	for _, c := range d.Classes {
		rate, cost := "–", "–"
		if c.ChangePPM != nil {
			rate = engine.FigureChange("change_ppm", *c.ChangePPM)
		}
		if c.CostPerCaseChange != nil {
			cost = engine.FigureChange("cost_micro_usd", *c.CostPerCaseChange)
		}
		err := l.Add(c, c.String(), fmt.Sprintf("%d/%d", c.Before.AutoRecovered, c.Before.Failing),
			fmt.Sprintf("%d/%d", c.After.AutoRecovered, c.After.Failing), rate, cost)
		if err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	same := strings.Join(d.Same, ", ")
	if same == "" {
		same = "nothing"
	}
	return a.PrintText(fmt.Sprintf("recommendation: %s, then %s; the same in both: %s\n", d.Before, d.After, same) +
		inPlaceOf(d.MissingBefore, " in the first run") + inPlaceOf(d.MissingAfter, " in the second run"))
}
