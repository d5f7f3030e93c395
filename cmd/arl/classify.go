package main

import (
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/failures"
	"recoveryledger/cmd/arl/manual"
)

func (a *app) classifyCommand() *cobra.Command {
	var o failures.Classify
	cmd := &cobra.Command{
		Use:   "classify MESSAGE…",
		Short: "Say which failure an error message is, and why",
		Long: "Say which class and code of the failure taxonomy an error message has, what decided that, and what would change\n" +
			"it. With --answer, the text is the answer of a tool, which may pass as good. - is standard input.\n" +
			"docs/classifier.md says in which order codes, statuses, forms and phrases decide.",
		Example: "  arl classify 'Error code: 429 - slow down'",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, words []string) error { return o.Run(&a.Terminal, strings.Join(words, " ")) },
	}
	o.Register(cmd.Flags())
	manual.NameValue(cmd.Flags(), "grpc", "CODE")
	manual.NameValue(cmd.Flags(), "policy", "FILE")
	return cmd
}
