package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/engine"
)

// sweepOptions are the flags of arl sweep.
type sweepOptions struct {
	engineOptions
	scenario, param string
	workers         int
}

func (a *app) sweepCommand() *cobra.Command {
	var o sweepOptions
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Vary one number of the policy and show where outcomes flip",
		Long: "Take a scenario through the policy with each value of one of its numbers, and show the result of each, and\n" +
			"between which values cases or gates flip. A range is NAME=FIRST..LAST or NAME=FIRST..LAST/STEP; NAME is a path\n" +
			"such as limits.attempts, thresholds.recovery_rate_min_ppm or rules[transient.timeout].ladder[0].max.",
		Example: "  arl sweep --scenario testdata/tool_chain_failures.ndjson --param limits.attempts=1..6",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.sweep(cmd.Context(), &o) },
	}
	cmd.Flags().StringVar(&o.scenario, "scenario", "", "file of cases, one a line; - for standard input (required)")
	cmd.Flags().StringVar(&o.param, "param", "", "number and range (required)")
	cmd.Flags().IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "number of cases at a time")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("scenario") // the flags exist
	_ = cmd.MarkFlagRequired("param")
	return cmd
}

func (a *app) sweep(ctx context.Context, o *sweepOptions) error {
	param, values, err := engine.ParseRange(o.param)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if o.live != "" || o.strategy != "" || o.registered.file != "" {
		return exit.Usagef("--live, --strategy, --strategies: a sweep takes every case many times, so it does nothing for real and asks no strategy")
	}
	o.registered.asksNobody = true
	e, err := a.engine(&o.engineOptions)
	if err != nil {
		return err
	}
	s, err := engine.NewSweep(e.Config, param, values)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	s.Workers = o.workers
	if _, err := terminal.RegularInput(o.scenario); err != nil {
		return err
	}
	in := a.In
	if o.scenario != "-" {
		f, err := os.Open(o.scenario)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	report, err := s.Run(ctx, o.scenario, in)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(report)
	}
	return a.printSweep(&report)
}

func (a *app) printSweep(r *engine.SweepReport) error {
	points := a.NewList("VALUE", "RECOVERED", "FALLBACK", "ESCALATED", "RECOMMENDATION")
	for i := range r.Points {
		p := &r.Points[i]
		value := engine.Figure(r.Param, p.Value)
		if p.Value == r.Pinned {
			value += " *"
		}
		err := points.Add(p, value, fmt.Sprintf("%d/%d", p.AutoRecovered, p.Failing), fmt.Sprint(p.FallbackModelRecoveries),
			fmt.Sprint(p.Escalated), string(p.Recommendation))
		if err != nil {
			return err
		}
	}
	if err := points.Close(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "* %s in the policy: %s\n", r.Param, engine.Figure(r.Param, r.Pinned))
	b.WriteString(inPlaceOf(r.MissingStrategies, ""))
	if r.Simulated {
		b.WriteString("simulated: an outcome model drew attempts; none was really made\n")
	}
	for i := range r.Flips {
		f := &r.Flips[i]
		fmt.Fprintf(&b, "\nflip between %s and %s: %s\n", engine.Figure(r.Param, f.From), engine.Figure(r.Param, f.To), words.Counted(f.Count, "case"))
		for _, c := range f.Cases {
			why := ""
			if c.NotObserved {
				why = " (not observed)"
			}
			fmt.Fprintf(&b, "  %s: %s, then %s%s\n", c.Case, c.From, c.To, why)
		}
		for _, g := range f.Gates {
			fmt.Fprintf(&b, "  gate %s: %s, then %s\n", g.Gate, g.From, g.To)
		}
	}
	if len(r.Flips) == 0 {
		b.WriteString("\nno flip in this range\n")
	}
	if r.Near {
		fmt.Fprintf(&b, "\nwarning: %s is pinned at %s, one step from a flip\n", r.Param, engine.Figure(r.Param, r.Pinned))
	}
	return a.PrintText(b.String())
}
