package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var o access.Where
	var keys []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine's setup",
		Long: "Check what commands on this machine need: profile, keys and their permissions, server, tree head and its\n" +
			"history, clock, disk space; with --data also the anchor and the ledger's keys. Each key that has no passphrase\n" +
			"signs a test message. Each line says ok, warn or fail, and how to fix it.",
		Example: "  arl doctor --key worker.key",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), &o, keys) },
	}
	o.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.Data, "data", "", "data directory to check, of a running or a stopped ledger")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "key to try beside those of the profile: a file, or the URI of a key in a KMS; once for each")
	cmd.Flags().StringVar(&o.Anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
	return cmd
}

// doctor prints the findings. It fails if a check fails.
func (a *app) doctor(ctx context.Context, o *access.Where, keys []string) error {
	l := a.NewList("CHECK", "STATE", "DETAIL", "REMEDY")
	verdict, err := doctor.Examine(ctx, a.machine(), o, keys, func(f words.Finding) error { return l.Add(f, f.Check, f.State, f.Detail, f.Remedy) })
	return cmp.Or(err, l.Close(), verdict)
}
