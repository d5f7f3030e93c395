package main

import (
	"fmt"
	"strings"

	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"

	"github.com/spf13/cobra"
)

// The change of a ledger's key (TRU-5): the next key of a data directory.

func (a *app) keyNextCommand() *cobra.Command {
	var data, uri string
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Make the next key of a ledger",
		Long: "Make the ledger's next key in a new file beside the present keys. If the present keys are encrypted, the new key\n" +
			"is encrypted with the same passphrase. Put the printed lines into a policy file: they name the old key and the\n" +
			"new key. From its next start on, arl serve signs with both keys, and the policy may be applied. A later policy\n" +
			"that names the new key alone retires the old key.",
		Example: "  arl key next --data ./data > keys.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.keyNext(data, uri) },
	}
	cmd.Flags().StringVar(&data, "data", "", "data directory of the ledger (required)")
	cmd.Flags().StringVar(&uri, "key", "", "URI of the next key in a KMS (default: a key in the new file)")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

func (a *app) keyNext(data, uri string) error {
	out, err := node.MakeNextKey(data, uri, terminal.Once(a.Passphrase))
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintText(fmt.Sprintf(`# %s: the next key of %s
# Start arl serve again, apply a policy with both, and later one with the last two lines alone.
ledger_keys:
  - %s
`, out.File, out.Origin, strings.Join(out.LedgerKeys, "\n  - ")))
}
