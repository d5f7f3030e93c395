package rollouts

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api/act"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/ledger/redact"
)

// promoteOptions are the flags of arl rollout promote.
type promoteOptions struct {
	signing
	stage       string
	share       int64
	full, waive bool
}

func (c *commands) promote(w *access.Where) *cobra.Command {
	var o promoteOptions
	cmd := &cobra.Command{
		Use:   "promote ROLLOUT",
		Short: "Take a rollout further: to a canary, to a greater share, or to the policy in force",
		Long: "Take a rollout further. With --stage canary --share N the candidate decides N cases in a thousand; an operator\n" +
			"signs. With --full the candidate becomes the policy in force; the policy's authority signs. That needs a report in\n" +
			"the log which compares the candidate with the baseline and says promote (arl recover --baseline … --ledger …), and\n" +
			"a canary that has decided --cases-min cases without a gate that fell; or a quorum of approvers who waive both.\n" +
			"With --waive an approver who did not begin the rollout waives them.",
		Example: "  arl rollout promote r7 --full --reason 'the report promotes'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.full {
				return c.promoteFull(cmd.Context(), w, args[0], &o)
			}
			body := &entry.Rollout{Rollout: args[0], Op: entry.RolloutAdvance, Stage: entry.Stage(o.stage), SharePermille: o.share}
			if o.waive {
				body = &entry.Rollout{Rollout: args[0], Op: entry.RolloutWaive}
			}
			return c.machine().WithConnection(cmd.Context(), &w.Target, func(conn *access.Connection) error {
				return c.sign(cmd.Context(), conn, body, node.Operator, &o.signing)
			})
		},
	}
	o.register(cmd)
	registerStage(cmd.Flags(), &o.stage, &o.share, "")
	cmd.Flags().BoolVar(&o.full, "full", false, "make the candidate the policy in force")
	cmd.Flags().BoolVar(&o.waive, "waive", false, "promote without a report or enough cases, as an approver")
	w.RegisterKept(cmd.Flags())
	return cmd
}

func (o *promoteOptions) check() error {
	ways := 0
	for _, given := range []bool{o.stage != "", o.full, o.waive} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return exit.Usagef("pass one of --stage, --full and --waive")
	}
	return nil
}

// promoteFull registers the policy in force with the rules of the candidate.
func (c *commands) promoteFull(ctx context.Context, w *access.Where, id string, o *promoteOptions) error {
	var next *entry.Policy
	var candidate entry.Digest
	err := c.machine().WithFold(ctx, w, func(_ *access.Log, f *access.Fold) (err error) {
		if next, err = act.PromoteRollout(f.State, id); err == nil {
			candidate = f.State.Rollouts().Current().Terms.CandidateDigest
		}
		return exit.With(exit.Conflict, err)
	})
	if err != nil {
		return err
	}
	return c.machine().WithConnection(ctx, &w.Target, func(conn *access.Connection) error {
		signer, err := c.machine().Signer(ctx, conn, o.SignerFlags, node.Authority)
		if err != nil {
			return err
		}
		keys.FillHeader(next, signer.Principal, conn.Root.Origin)
		e, err := entry.NewWithReason(next, redact.Text(o.reason))
		if err != nil {
			return err
		}
		if err := c.Confirm(fmt.Sprintf("Make candidate %s the policy in force?", candidate), o.yes); err != nil {
			return err
		}
		return c.register(ctx, conn, signer, e)
	})
}
