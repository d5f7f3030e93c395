package main

import (
	"context"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api/worker"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

func (a *app) workCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Declare what a program does, from inside arl run",
		Long: "Declare what a program does, from inside arl run, whose environment names the task. The program begins a step\n" +
			"with an effect before it acts. So the log has the receipt of the step first.",
		Example: "  arl work begin charge --effect compensable",
	}
	t.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.workBeginCommand(&t), a.workEndCommand(&t), a.workCheckpointCommand(&t), a.workProgressCommand())
	return cmd
}

// inside calls use with the claim that the environment names.
func (a *app) inside(ctx context.Context, t *access.Target, use func(*worker.Work) error) error {
	w, err := worker.Inside(os.Getenv)
	if err != nil {
		return err
	}
	if t.URL == "" {
		t.URL = w.URL
	}
	return a.machine().WithConnection(ctx, t, func(c *access.Connection) error {
		signer, err := a.machine().Signer(ctx, c, access.SignerFlags{Key: w.Key, Principal: string(w.Agent)}, "")
		if err != nil {
			return err
		}
		w.Claim.Config = &worker.Config{Client: c.Client, Origin: c.Root.Origin, Agent: signer.Principal, Signer: signer, NewID: uuid.NewString}
		return use(w)
	})
}

func (a *app) workBeginCommand(t *access.Target) *cobra.Command {
	var effect string
	cmd := &cobra.Command{
		Use:   "begin STEP",
		Short: "Log a step before it is done",
		Long: "Log a step before it is done, and print its idempotency key. The key is the same for the same step of the same\n" +
			"task, whichever agent holds the task. So the service that has the effect recognizes a repeated request. If an\n" +
			"earlier attempt, also by another agent, has done a step with an effect, the step is not begun again: its\n" +
			"progress is confirmed, not started. A step that was begun and not ended stays the same step.",
		Example: "  arl work begin charge --effect compensable",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), t, func(w *worker.Work) error {
				s, err := w.Begin(cmd.Context(), args[0], entry.Effect(effect))
				if err != nil {
					return err
				}
				return a.printStep(s)
			})
		},
	}
	cmd.Flags().StringVar(&effect, "effect", string(entry.EffectNone), "effect of the step: none|reversible|compensable|irrevocable|undeclared")
	return cmd
}

func (a *app) printStep(s *worker.Step) error {
	return a.PrintObject(*s, terminal.Field{"exec", string(s.Exec)}, terminal.Field{"progress", string(s.Progress)}, terminal.Field{"idempotency key", s.Key})
}

func (a *app) workEndCommand(t *access.Target) *cobra.Command {
	var failed bool
	cmd := &cobra.Command{
		Use:     "end STEP",
		Short:   "Log that a step is done, or failed without effect",
		Example: "  arl work end charge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), t, func(w *worker.Work) error { return w.End(cmd.Context(), args[0], failed) })
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "the step failed, and had no effect")
	return cmd
}

func (a *app) workCheckpointCommand(t *access.Target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint FILE",
		Short: "Log a checkpoint: a file that the next attempt continues from",
		Long: "Log a checkpoint: a file that the next attempt continues from, on any machine that can read the file. The log\n" +
			"has the digest and the path of the file, never its content.",
		Example: "  arl work checkpoint /shared/report-7/state.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), t, func(w *worker.Work) error { return w.Checkpoint(cmd.Context(), args[0]) })
		},
	}
	return cmd
}

func (a *app) workProgressCommand() *cobra.Command {
	p := worker.Progress{Status: "in_progress"}
	cmd := &cobra.Command{
		Use:     "progress",
		Short:   "Note the progress of an attempt, for its entry and the snapshot of a failure",
		Example: "  arl work progress --turns 7 --messages 31 --cost-micro-usd 12000 --tokens 5200",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir := os.Getenv("ARL_RUN_DIR")
			if dir == "" {
				return exit.Usagef("this program does not run inside arl run: the environment has no ARL_RUN_DIR")
			}
			return worker.NoteProgress(dir, &p)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&p.Turns, "turns", 0, "turns taken")
	flags.Int64Var(&p.MaxTurns, "max-turns", 0, "turns allowed")
	flags.Int64Var(&p.Messages, "messages", 0, "number of messages in the context")
	flags.Int64Var(&p.CostMicroUSD, "cost-micro-usd", 0, "money that this attempt spent")
	flags.Int64Var(&p.Tokens, "tokens", 0, "tokens that this attempt read and wrote")
	flags.StringVar(&p.Status, "status", p.Status, "one word")
	return cmd
}
