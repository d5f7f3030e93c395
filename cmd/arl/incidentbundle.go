package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
)

func (a *app) incidentBundleCommand(o *access.Where) *cobra.Command {
	var q api.BundleQuery
	var agent string
	cmd := &cobra.Command{
		Use:   "bundle INCIDENT",
		Short: "Fetch an agent's authorization bundle",
		Long: "Fetch an agent's authorization bundle: the decision in force, the reasons why the agent's members are in the\n" +
			"plan, and everything that proves both offline. This command verifies nothing; arl verify does, and so does the\n" +
			"agent. Without a decision for the agent, the bundle holds only policies, keys and overrides.",
		Example: "  arl incident bundle 17 --agent booker > bundle.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Data != "" {
				return exit.Usagef("--data: only a running ledger makes bundles: pass --url")
			}
			if q.Incident, err = parseIncident(args[0]); err != nil {
				return err
			}
			if q.Agent = entry.Principal(agent); q.Incident == 0 {
				return exit.Usagef("entry 0 opened no incident")
			}
			return a.machine().WithWatched(cmd.Context(), &o.Target, func(c *access.Connection) error {
				page, err := c.Client.Bundle(cmd.Context(), q)
				if err != nil {
					return err
				}
				data, err := page.Encode()
				if err == nil {
					_, err = fmt.Fprintf(a.Out, "%s\n", data)
				}
				if page.Next != 0 {
					fmt.Fprintf(a.Err, "arl: the ledger has more: continue with --after %d\n", page.Next)
				}
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&agent, "agent", "", "agent whose bundle to fetch (required)")
	flags.Uint64Var(&q.From, "from", 0, "size of the tree head that the agent accepted last: the bundle proves that the log only grew since")
	flags.Uint64Var(&q.After, "after", 0, "where the previous bundle ended")
	flags.BoolVar(&q.Whole, "whole", false, "include all policies and keys, also accepted ones")
	flags.BoolVar(&q.Absences, "absences", false, "fetch the bundle only with the proof that no override, revocation or policy is left out")
	_ = cmd.MarkFlagRequired("agent") // the flag exists
	return cmd
}
