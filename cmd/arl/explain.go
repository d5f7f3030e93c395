package main

import (
	"slices"
	"strings"

	"recoveryledger/cmd/arl/glossary"

	"github.com/spf13/cobra"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a problem type, an exit code, a rule or a word",
		Long: "Explain a problem type such as state-conflict, an exit code such as 5, a rule of the protocol such as REG-4,\n" +
			"or a word that commands print for a state, a result, a reason or a failure, such as NO_EFFECTS or\n" +
			"output.malformed. Without a code, list them all.",
		Example: "  arl explain policy-superseded",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, e := range glossary.All() {
				codes = append(codes, e.Code)
			}
			slices.Sort(codes)
			return slices.Compact(codes), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listExplanations()
			}
			return a.explain(args[0])
		},
	}
}

func (a *app) explain(code string) error {
	found, err := glossary.Find(code)
	if err != nil {
		return err
	}
	var texts []string
	for _, e := range found {
		if a.JSON() {
			if err := a.PrintJSON(e); err != nil {
				return err
			}
		}
		texts = append(texts, e.Prose())
	}
	if a.JSON() {
		return nil
	}
	return a.PrintProse(strings.Join(texts, "\n"))
}

func (a *app) listExplanations() error {
	l := a.NewList("CODE", "MEANS")
	for _, e := range glossary.All() {
		if err := l.Add(e, e.Code, e.Title); err != nil {
			return err
		}
	}
	return l.Close()
}
