package main

import (
	"context"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api/worker"
	"recoveryledger/ledger/entry"
)

func (a *app) workCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Declare what a program does, from inside arl run",
		Long: "Declare what a program does, from inside arl run, whose environment says which task it works on. A step with an\n" +
			"effect is begun before the program acts: the receipt is in the log then.",
		Example: "  arl work begin charge --effect compensable",
	}
	t.register(cmd.PersistentFlags())
	cmd.AddCommand(a.workBeginCommand(&t), a.workEndCommand(&t), a.workCheckpointCommand(&t), a.workProgressCommand())
	return cmd
}

// inside is the claim that the environment speaks of.
func (a *app) inside(ctx context.Context, t *target, use func(*worker.Work) error) error {
	w, err := worker.Inside(os.Getenv)
	if err != nil {
		return err
	}
	if t.url == "" {
		t.url = w.URL
	}
	return a.withConnection(ctx, t, func(c *connection) error {
		signer, err := a.signer(ctx, c, signerFlags{key: w.Key, principal: string(w.Agent)}, "")
		if err != nil {
			return err
		}
		w.Claim.Config = &worker.Config{Client: c.client, Origin: c.root.Origin, Agent: signer.principal, Signer: signer, NewID: uuid.NewString}
		return use(w)
	})
}

func (a *app) workBeginCommand(t *target) *cobra.Command {
	var effect string
	cmd := &cobra.Command{
		Use:   "begin STEP",
		Short: "Log a step before it is done",
		Long: "Log a step before it is done, and print its idempotency key: the same for the same step of the same task, whoever\n" +
			"holds it, so that the service that has the effect can tell that it was asked before. A step with an effect that an\n" +
			"attempt before has done, also of another agent, is not begun again: its progress is confirmed then, and not dispatched.\n" +
			"One that was begun and not ended is the same one still.",
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
	cmd.Flags().StringVar(&effect, "effect", string(entry.EffectNone), "what it does to the world: none|reversible|compensable|irrevocable|undeclared")
	return cmd
}

func (a *app) printStep(s *worker.Step) error {
	return a.printObject(*s, field{"exec", string(s.Exec)}, field{"progress", string(s.Progress)}, field{"idempotency key", s.Key})
}

func (a *app) workEndCommand(t *target) *cobra.Command {
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
	cmd.Flags().BoolVar(&failed, "failed", false, "it failed, and had no effect")
	return cmd
}

func (a *app) workCheckpointCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint FILE",
		Short: "Log a restore point: a file that the next attempt goes on from",
		Long: "Log a restore point: a file that the next attempt goes on from, wherever it runs, if it can read it. The log has its\n" +
			"digest and path, never what is in it.",
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
		Short:   "Note how far the work is, for the snapshot of a failure",
		Example: "  arl work progress --turns 7 --messages 31 --cost-micro-usd 12000",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir := os.Getenv("ARL_RUN_DIR")
			if dir == "" {
				return usage("this is not inside arl run: its environment has no ARL_RUN_DIR")
			}
			return worker.NoteProgress(dir, &p)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&p.Turns, "turns", 0, "turns taken")
	flags.Int64Var(&p.MaxTurns, "max-turns", 0, "turns allowed")
	flags.Int64Var(&p.Messages, "messages", 0, "messages in the context: their number")
	flags.Int64Var(&p.CostMicroUSD, "cost-micro-usd", 0, "money spent")
	flags.StringVar(&p.Status, "status", p.Status, "one word")
	return cmd
}
