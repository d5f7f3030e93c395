package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

func (a *app) incidentBundleCommand(o *logOptions) *cobra.Command {
	var q client.BundleQuery
	var agent string
	cmd := &cobra.Command{
		Use:   "bundle INCIDENT",
		Short: "Fetch what shows an agent that it is to undo something",
		Long: "Fetch the authorization bundle of an agent: the decision in force, why the agent's members are in its plan, and\n" +
			"all that proves it offline. Nothing of it is checked here: arl verify does that, and so does the agent.\n" +
			"Without such a decision it holds news alone: policies, keys and overrides.",
		Example: "  arl incident bundle 17 --agent booker > bundle.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.data != "" {
				return usage("--data: bundles are made by a ledger that runs")
			}
			if q.Incident, err = parseIncident(args[0]); err != nil {
				return err
			}
			if q.Agent = entry.Principal(agent); q.Incident == 0 {
				return usage("entry 0 opened no incident")
			}
			return a.withConnection(cmd.Context(), &o.target, func(c *connection) error {
				page, err := c.client.Bundle(cmd.Context(), q)
				if err != nil {
					return err
				}
				data, err := page.Encode()
				if err == nil {
					_, err = fmt.Fprintf(a.out, "%s\n", data)
				}
				if page.Next != 0 {
					fmt.Fprintf(a.err, "arl: that is not all: go on with --after %d\n", page.Next)
				}
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&agent, "agent", "", "whose members (mandatory)")
	flags.Uint64Var(&q.From, "from", 0, "size of the tree head that the agent accepted last: the bundle proves that the log only grew since")
	flags.Uint64Var(&q.After, "after", 0, "where the bundle before ended")
	flags.BoolVar(&q.Whole, "whole", false, "all policies and keys, whatever was accepted")
	_ = cmd.MarkFlagRequired("agent") // the flag exists
	return cmd
}
