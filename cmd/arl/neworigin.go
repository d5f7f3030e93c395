package main

import (
	"fmt"
	"slices"

	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"

	"github.com/spf13/cobra"
)

// newOriginOptions are the flags of arl ledger new-origin.
type newOriginOptions struct {
	data, origin, anchor string
	abandon, encrypt     bool
}

func (a *app) ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ledger",
		Short:   "Manage a ledger as a whole",
		Example: "  arl ledger new-origin --data ./data",
	}
	cmd.AddCommand(a.newOriginCommand())
	return cmd
}

func (a *app) newOriginCommand() *cobra.Command {
	var o newOriginOptions
	cmd := &cobra.Command{
		Use:   "new-origin",
		Short: "Continue a ledger that lost entries, under a new origin",
		Long: "Continue a ledger whose acknowledged entries are lost for good. The data directory gets new keys and a new\n" +
			"origin. The command moves the rest of the old ledger to DIR/former, and its profile to former/NAME, so that old\n" +
			"receipts can still be verified. The next arl serve begins a new log, whose genesis policy names the old ledger.\n" +
			"Enrol the agents again, and let everyone who pinned the old root pin the new one.\n\n" +
			"First restore what can be restored: a copy of the data directory, or an export with arl log import. If there is\n" +
			"a database, the command gives up its entries only with --abandon. Run an interrupted command again.",
		Example: "  arl ledger new-origin --data ./data",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.newOrigin(&o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "data directory of the ledger (required)")
	flags.StringVar(&o.origin, "origin", "", "new name of the ledger (default: made up, unique)")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file of the ledger (default: the data directory's name with .anchor)")
	flags.BoolVar(&o.abandon, "abandon", false, "give up the entries in the database")
	encryptFlag(flags, &o.encrypt, "the new keys")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

func (a *app) newOrigin(o *newOriginOptions) error {
	r, err := node.ChangeOrigin(node.Options{Dir: o.data, Origin: o.origin, Anchor: o.anchor, Machine: a.trust(),
		Passphrase: terminal.Once(a.Passphrase), NewPassphrase: terminal.Once(a.ForNewKeys(o.encrypt))}, o.abandon)
	if err != nil {
		return err
	}
	known := "size not known"
	if r.Predecessor.Head != nil {
		known = fmt.Sprintf("size %d at least", r.Predecessor.Head.Size)
	}
	fields := []terminal.Field{{"origin", r.Origin}, {"in place of", r.Predecessor.Origin + ", " + known}, {"what is left", r.Former}}
	if r.Profile != "" {
		fields = append(fields, terminal.Field{"old receipts", "arl verify FILE --profile " + r.Profile})
	}
	return a.PrintObject(r, slices.Concat(fields, []terminal.Field{{"next", "arl serve --data " + o.data + ", then enrol agents again and hand out the new root"}})...)
}
