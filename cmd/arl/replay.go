package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"recoveryledger/api/words/runs"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/engine"
)

// replayFlags are those of arl replay.
type replayFlags struct {
	scenario, policy string
	workers          int
}

func (a *app) replayCommand() *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "Decide a run again and compare every trace",
		Long: "Take the scenario of a run through its policy again, and compare the traces and the report with those in the\n" +
			"directory of the run. The replay of a live run uses what the run recorded. The exit code is 0 if they are the\n" +
			"same, 10 if a trace or the report differs, 13 if they cannot be compared because engine, policy, configuration\n" +
			"or scenario changed.",
		Example: "  arl replay ./run",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), args[0], &o) },
	}
	cmd.Flags().StringVar(&o.scenario, "scenario", "", "present path of the scenario (default: the path that the run names)")
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy that the run must have used (default: the policy that the run kept)")
	cmd.Flags().IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "number of cases at a time")
	return cmd
}

func (a *app) replay(ctx context.Context, dir string, flags *replayFlags) error {
	o := engine.ReplayOptions{Workers: flags.workers}
	var err error
	if flags.policy != "" {
		if o.Policy, err = a.recoveryPolicy(flags.policy); err != nil {
			return err
		}
	}
	if flags.scenario != "" {
		if o.Scenario, err = filepath.Abs(flags.scenario); err != nil {
			return err
		}
	}
	tell, end := a.Progress("replay")
	o.Progress = func(done, total int64) { tell(uint64(done), uint64(total)) }
	c, err := engine.Replay(ctx, dir, o)
	end()
	if err != nil {
		return err
	}
	var fields []terminal.Field
	for _, f := range runs.Comparison(&c) {
		fields = append(fields, terminal.Field(f))
	}
	if err := a.PrintObject(c, fields...); err != nil {
		return err
	}
	switch c.Match {
	case engine.Diverged:
		return exit.With(exit.Inconsistent, fmt.Errorf("%s: %s", dir, runs.ReplayEnd(&c)))
	case engine.NotComparable:
		return exit.With(exit.Incomparable, errors.New(runs.ReplayEnd(&c)))
	}
	return nil
}
