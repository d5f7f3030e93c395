package main

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

func (a *app) policyCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Show and replace the policy in force; check policy files",
		Example: "  arl policy show > policy.yaml",
	}
	show, apply := a.policyShowCommand(&t), a.policyApplyCommand(&t)
	t.register(show.Flags())
	t.register(apply.Flags())
	cmd.AddCommand(show, apply, a.policyLintCommand(), a.policyExplainCommand(), a.policyHashCommand(), a.policyDiffCommand())
	return cmd
}

func (a *app) policyShowCommand(t *target) *cobra.Command {
	var byDefault bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the policy in force as a policy file",
		Long: "Show the policy in force, as a file that arl policy apply and arl recover --policy read. With --default, or where no\n" +
			"ledger is known, what a new ledger begins with and the rules of recovery that are built in.",
		Example: "  arl policy show > policy.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if byDefault {
				return a.printDefaultPolicy()
			}
			known, err := a.knowsLedger(t)
			if err != nil {
				return err
			}
			if !known {
				fmt.Fprintln(a.err, "No ledger is known on this machine: this is the default.")
				return a.printDefaultPolicy()
			}
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				chain, err := c.chain(cmd.Context())
				if err != nil {
					return err
				}
				policy, _ := chain.Policy()
				return a.printPolicy(policy)
			})
		},
	}
	cmd.Flags().BoolVar(&byDefault, "default", false, "show what a new ledger begins with; asks no server")
	return cmd
}

// knowsLedger reports whether a target says which ledger is meant, or a profile
// can.
func (a *app) knowsLedger(t *target) (bool, error) {
	if *t != (target{}) {
		return true, nil
	}
	names, err := a.profileNames()
	return len(names) > 0, err
}

func (a *app) printDefaultPolicy() error {
	if a.settings.output == outputJSON {
		p := coord.Genesis("")
		p.Recovery = recovery.Default().JSON()
		return a.printPolicy(p)
	}
	text, err := defaultPolicyFile()
	if err != nil {
		return err
	}
	return a.printText(string(text))
}

func (a *app) printPolicy(p *entry.Policy) error {
	if a.settings.output == outputJSON {
		f, err := newPolicyFile(p)
		if err != nil {
			return err
		}
		return a.printJSON(f)
	}
	text, err := formatPolicy(p)
	if err != nil {
		return err
	}
	if p.Recovery == nil {
		text = append(text, "# No rules of recovery: those of arl policy show --default apply.\n"...)
	}
	return a.printText(string(text))
}

// applyOptions are the flags of arl policy apply.
type applyOptions struct {
	reason, key string
	yes         bool
}

func (a *app) policyApplyCommand(t *target) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the policy in force",
		Long: "Replace the policy in force by that of a policy file, signed by its authority. The difference is shown first.\n" +
			"If another policy comes into force meanwhile, the new one is refused (policy-superseded).",
		Example: "  arl policy apply policy.yaml --reason 'more signals an hour'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				return a.policyApply(cmd.Context(), c, args[0], &o)
			})
		},
	}
	needReason(cmd, &o.reason)
	cmd.Flags().StringVar(&o.key, "key", "", "key file of the policy's authority (default: the profile's)")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) policyApply(ctx context.Context, c *connection, path string, o *applyOptions) error {
	next, err := loadPolicy(path)
	if err != nil {
		return err
	}
	chain, err := c.chain(ctx)
	if err != nil {
		return err
	}
	inForce, previous := chain.Policy()
	if next.Authority == nil {
		next.Authority = inForce.Authority
	}
	if next.LedgerKeys == nil {
		next.LedgerKeys = inForce.LedgerKeys
	}
	changes, err := diffPolicies(inForce, next, path)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return withExit(exitConflict, fmt.Errorf("%s says what is in force already, since entry %d", path, previous.Index))
	}
	fmt.Fprintf(a.err, "%s", changes)
	if err := a.confirm("Replace the policy in force?", o.yes); err != nil {
		return err
	}
	signer, err := a.signer(ctx, c, signerFlags{key: o.key}, principalAuthority)
	if err != nil {
		return err
	}
	next.Header, next.Previous = newHeader(signer.principal, c.root.Origin), &previous
	return a.submitWithReason(ctx, c, signer, next, o.reason)
}

// diffPolicies returns what changes from one policy file to another; nothing if
// they say the same.
func diffPolicies(older, newer *entry.Policy, name string) ([]byte, error) {
	was, err := formatPolicy(older)
	if err != nil {
		return nil, err
	}
	is, err := formatPolicy(newer)
	if err != nil {
		return nil, err
	}
	return diff.Diff("in force", was, name, is), nil
}

// submitWithReason signs a body and registers it.
func (a *app) submitWithReason(ctx context.Context, c *connection, by *signer, body entry.Body, reason string) error {
	e, err := withReason(body, reason)
	if err != nil {
		return err
	}
	if err := by.Sign(e); err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, "")
}

// withReason returns the entry of a body whose payload says why beside what: a
// member that readers may ignore.
func withReason(body entry.Body, reason string) (*entry.Entry, error) {
	if reason == "" {
		return entry.New(body)
	}
	if len(reason) > entry.MaxText {
		return nil, usage("--reason: %d bytes, the limit is %d", len(reason), entry.MaxText)
	}
	var members map[string]jsontext.Value
	payload, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(payload, &members)
	}
	if err == nil {
		members["reason"], err = json.Marshal(reason)
	}
	if err == nil {
		payload, err = json.Marshal(members)
	}
	if err == nil {
		err = (*jsontext.Value)(&payload).Canonicalize()
	}
	if err != nil {
		return nil, err
	}
	return entry.NewRaw(body.Kind(), payload)
}
