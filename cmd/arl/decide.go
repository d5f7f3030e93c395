package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/failures"
)

func (a *app) decideCommand() *cobra.Command {
	var o failures.Decide
	cmd := &cobra.Command{
		Use:   "decide [FILE]",
		Short: "Decide what a live agent does about one failure",
		Long: "Decide what a live agent does about one failure: one action, with its rule, pause and reason. The question is JSON\n" +
			"in a file or on standard input: the history of the case, and the failure as class and code or as the raw error.\n" +
			"The policy in force in the ledger decides, or with --policy a file; where no ledger is known, the built-in rules.\n" +
			"docs/recovery-reference.md describes question and answer.",
		Example: "  arl decide question.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			return o.Run(cmd.Context(), &a.Terminal, a.machine(), cmp.Or(strings.Join(files, ""), "-"))
		},
	}
	o.Register(cmd.Flags())
	return cmd
}
