package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/histories"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/ledger/entry"
)

func (a *app) agentHistoryCommand(t *access.Target) *cobra.Command {
	var o access.Where
	var after optional
	var proof histories.Proof
	cmd := &cobra.Command{
		Use:   "history PRINCIPAL",
		Short: "Show the record of a principal",
		Long: "Show the record of a principal: its signals and their dispositions, its executions in rollback sets, and the\n" +
			"outcomes that it reported. The command counts everything from the entries of the log, which it verifies against\n" +
			"the signed tree head and the rules of registration. Each line names its entry (arl entry get), and --output json\n" +
			"has these entries with their proofs. With --after, the command shows only the incidents that changed after that\n" +
			"index. Pass the cursor of the output as the next --after.\n\n" +
			"With --prove, the command fetches a history file of the principal and of its incidents, which arl verify checks\n" +
			"offline, without the log. The ledger must keep an index (arl serve --index). --at N ends the file at the first N\n" +
			"entries of the log.",
		Example: "  arl agent history planner",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Target = *t
			if err := proof.Check(&o); err != nil {
				return err
			}
			if proof.Prove {
				return a.prove(cmd.Context(), &proof, t, entry.Subject{Type: entry.SubjectAgent, Value: args[0]})
			}
			return a.machine().WithLog(cmd.Context(), &o, func(l *access.Log) error { return a.agentHistory(cmd.Context(), l, entry.Principal(args[0]), after) })
		},
	}
	o.RegisterInPlace(cmd.Flags())
	o.RegisterKept(cmd.Flags())
	cmd.Flags().Var(&after, "after", "only incidents that changed after this index; 0: all, oldest change first")
	proof.Register(cmd.Flags())
	manual.NameValue(cmd.Flags(), "at", "N")
	return cmd
}

// prove fetches the history file of a subject.
func (a *app) prove(ctx context.Context, p *histories.Proof, t *access.Target, of entry.Subject) error {
	return a.machine().WithConnection(ctx, t, func(c *access.Connection) error { return p.Fetch(ctx, &a.Terminal, c, of) })
}

func (a *app) agentHistory(ctx context.Context, l *access.Log, principal entry.Principal, after optional) error {
	f, err := a.machine().Fold(ctx, l, "read the log")
	if err != nil {
		return err
	}
	h, proof, known := f.Follower.History(principal, after.index(), f.Now)
	if !known {
		return exit.With(exit.NotFound, fmt.Errorf("%s was never enrolled, and no entry is about it", principal))
	}
	if !a.JSON() {
		return histories.Print(ctx, &a.Terminal, l, f, &h)
	}
	h.Head = f.Head.Note
	if h.Entries, err = f.Items(ctx, l, proof); err != nil {
		return err
	}
	return a.PrintJSON(histories.WithAttempts(f, &h))
}
