package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/coord/policyfile"
	"recoveryledger/ledger/entry"
)

func (a *app) policyCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Show and replace the policy in force; check policy files",
		Example: "  arl policy show > policy.yaml",
	}
	show, apply := a.policyShowCommand(&t), a.policyApplyCommand(&t)
	t.Register(show.Flags())
	t.Register(apply.Flags())
	cmd.AddCommand(show, apply, a.policyLintCommand(), a.policyExplainCommand(), a.policyHashCommand(), a.policyDiffCommand())
	return cmd
}

func (a *app) policyShowCommand(t *access.Target) *cobra.Command {
	var byDefault bool
	var index uint64
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the policy in force as a policy file",
		Long: "Show the policy in force as a file that arl policy apply and arl recover --policy read. With --index, show a policy\n" +
			"from before. With --default, or where no ledger is known, show the policy of a new ledger and the built-in rules\n" +
			"of recovery.",
		Example: "  arl policy show > policy.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if byDefault {
				return a.printDefaultPolicy()
			}
			known, err := a.machine().Knows(t)
			if err != nil {
				return err
			}
			if !known {
				fmt.Fprintln(a.Err, "No ledger is known on this machine: this is the default.")
				return a.printDefaultPolicy()
			}
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error {
				chain, err := c.Chain(cmd.Context())
				if err != nil {
					return err
				}
				policy, _ := chain.Policy()
				if cmd.Flags().Changed("index") {
					if policy = chain.PolicyAt(index); policy == nil {
						return exit.Remedied("arl entry list --kind policy has the indexes of the policies",
							exit.With(exit.NotFound, fmt.Errorf("entry %d is no policy of this ledger", index)))
					}
				}
				return a.printPolicy(policy)
			})
		},
	}
	cmd.Flags().BoolVar(&byDefault, "default", false, "show the policy of a new ledger, without asking a server")
	cmd.Flags().Uint64Var(&index, "index", 0, "show the policy of this entry, as arl entry list --kind policy names it")
	cmd.MarkFlagsMutuallyExclusive("default", "index")
	return cmd
}

func (a *app) printDefaultPolicy() error {
	if a.JSON() {
		return a.printPolicy(policyfile.DefaultPolicy())
	}
	text, err := policyfile.Default()
	if err != nil {
		return err
	}
	return a.PrintText(string(text))
}

func (a *app) printPolicy(p *entry.Policy) error {
	if a.JSON() {
		f, err := policyfile.New(p)
		if err != nil {
			return err
		}
		return a.PrintJSON(f)
	}
	text, err := policyfile.Format(p)
	if err != nil {
		return err
	}
	if p.Recovery == nil {
		text = append(text, "# No rules of recovery: those of arl policy show --default apply.\n"...)
	}
	return a.PrintText(string(text))
}

// applyOptions are the flags of arl policy apply.
type applyOptions struct {
	reason, key string
	yes         bool
}

func (a *app) policyApplyCommand(t *access.Target) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the policy in force",
		Long: "Replace the policy in force by the policy in a file, signed by the policy's authority. The command first shows\n" +
			"the difference. If another policy comes into force meanwhile, the ledger refuses the new one\n" +
			"(policy-superseded).",
		Example: "  arl policy apply policy.yaml --reason 'more signals an hour'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error {
				return a.policyApply(cmd.Context(), c, args[0], &o)
			})
		},
	}
	needReason(cmd, &o.reason)
	cmd.Flags().StringVar(&o.key, "key", "", "key file of the policy's authority (default: the profile's)")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask for confirmation")
	return cmd
}

func (a *app) policyApply(ctx context.Context, c *access.Connection, path string, o *applyOptions) error {
	next, err := node.LoadPolicy(path)
	if err != nil {
		return err
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		return err
	}
	inForce, previous := chain.Policy()
	policyfile.Succeed(next, inForce, previous)
	changes, err := policyfile.Diff(inForce, next, path)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return exit.With(exit.Conflict, fmt.Errorf("%s has the policy that is in force already, since entry %d", path, previous.Index))
	}
	fmt.Fprintf(a.Err, "%s", changes)
	if err := a.Confirm("Replace the policy in force?", o.yes); err != nil {
		return err
	}
	signer, err := a.machine().Signer(ctx, c, access.SignerFlags{Key: o.key}, node.Authority)
	if err != nil {
		return err
	}
	return a.submitWithReason(ctx, c, signer, next, o.reason)
}

// submitWithReason is signAndSubmit with a reason in the entry.
func (a *app) submitWithReason(ctx context.Context, c *access.Connection, by *access.Signer, body entry.Body, reason string) error {
	if len(reason) > entry.MaxText {
		return exit.Usagef("--reason: %d bytes, the limit is %d", len(reason), entry.MaxText)
	}
	e, err := by.Entry(body, c.Root.Origin, reason)
	if err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, "")
}
