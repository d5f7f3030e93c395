package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

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
		Long: "Take the scenario of a run through its policy again, and compare traces and report with those in its\n" +
			"directory. A live run is replayed from what it recorded. The exit code is 0 if they are the same, 10 if a trace\n" +
			"or the report differs, 13 if the two cannot be compared: engine, policy, configuration or scenario changed.",
		Example: "  arl replay ./run",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), args[0], &o) },
	}
	cmd.Flags().StringVar(&o.scenario, "scenario", "", "where the scenario lies now (default: where it lay)")
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy that the run must have been made with (default: the one it kept)")
	cmd.Flags().IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "cases at work at a time")
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
	tell, end := a.progress("replay")
	o.Progress = func(done, total int64) { tell(uint64(done), uint64(total)) }
	c, err := engine.Replay(ctx, dir, o)
	end()
	if err != nil {
		return err
	}
	fields := []field{{"match", string(c.Match)}, {"cases", fmt.Sprint(c.Cases)}}
	if len(c.MissingStrategies) > 0 {
		fields = append(fields, field{"not registered", strings.Join(c.MissingStrategies, ", ") + "; the ladder decided in their place"})
	}
	if c.Match == engine.Diverged {
		if c.Trace != "" {
			fields = append(fields, field{"trace", string(c.Trace)})
		}
		fields = append(fields, field{"file", c.File}, field{"case", c.Case}, field{"field", c.Field},
			field{"recorded", c.Recorded}, field{"recomputed", c.Recomputed})
	}
	if err := a.printObject(c, fields...); err != nil {
		return err
	}
	switch c.Match {
	case engine.Diverged:
		return withExit(exitInconsistent, fmt.Errorf("%s: the run does not follow from its scenario and policy", dir))
	case engine.NotComparable:
		return withExit(exitIncomparable, errors.New(c.Reason))
	}
	return nil
}
