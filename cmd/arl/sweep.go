package main

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words/runs"
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
	in, size := a.In, uint64(0)
	if o.scenario != "-" {
		f, err := os.Open(o.scenario)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
		if info, err := f.Stat(); err == nil {
			size = uint64(info.Size())
		}
	}
	tell, end := a.Progress("sweep")
	s.Progress = func(read int64) { tell(uint64(read), max(size, uint64(read))) }
	report, err := s.Run(ctx, o.scenario, in)
	end()
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(report)
	}
	return a.printSweep(&report)
}

func (a *app) printSweep(r *engine.SweepReport) error {
	if err := a.printTable(runs.Points(r)); err != nil {
		return err
	}
	lines := runs.PointNotes(r)
	for i := range r.Flips {
		f := &r.Flips[i]
		lines = append(lines, "", runs.FlipTitle(r.Param, f))
		for _, c := range f.Cases {
			lines = append(lines, "  "+runs.FlipCase(&c))
		}
		for _, g := range f.Gates {
			lines = append(lines, "  "+runs.FlipGate(&g))
		}
	}
	for _, end := range runs.SweepEnd(r) {
		lines = append(lines, "", end)
	}
	return a.PrintText(strings.Join(lines, "\n") + "\n")
}
