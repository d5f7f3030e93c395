package main

import (
	"strings"

	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Write the manual page",
		Long:    "Write the manual page of all commands, for man.",
		Example: "  arl man > arl.1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mango.NewManPage(1, cmd.Root())
			if err != nil {
				return err
			}
			// A manual breaks its lines itself.
			page = page.WithLongDescription(strings.ReplaceAll(cmd.Root().Long, "\n", " ")).
				WithSection("Examples", manExamples(cmd.Root()))
			return a.printText(page.Build(roff.NewDocument()))
		},
	}
}

// manExamples are the examples of all commands, as a list.
func manExamples(cmd *cobra.Command) string {
	var b strings.Builder
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if example := strings.TrimSpace(cmd.Example); example != "" && !cmd.HasSubCommands() {
			b.WriteString("* " + example + "\n")
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(cmd)
	return strings.TrimSuffix(b.String(), "\n")
}
