package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
)

// tailOptions are the flags of arl log tail.
type tailOptions struct {
	from  optional
	limit int
}

func (a *app) logTailCommand(o *access.Where) *cobra.Command {
	var tail tailOptions
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the log as it grows",
		Long: "Follow the log as it grows, until interrupted. The command verifies that every entry is in the log, and that\n" +
			"every tree head continues the head before it.",
		Example: "  arl log tail --from 0 --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Data != "" {
				return exit.Usagef("a stopped ledger does not grow: arl log audit --data reads it")
			}
			return a.machine().WithConnection(cmd.Context(), &o.Target, func(c *access.Connection) error { return a.tail(cmd.Context(), c, &tail) })
		},
	}
	cmd.Flags().Var(&tail.from, "from", "index to begin at (default: the next entry)")
	cmd.Flags().IntVar(&tail.limit, "limit", 0, "end after this number of entries; 0: never")
	return cmd
}

func (a *app) tail(ctx context.Context, c *access.Connection, o *tailOptions) error {
	var from uint64
	if o.from.value != nil {
		from = uint64(*o.from.value)
	} else {
		head, err := c.Head(ctx)
		if err != nil {
			return err
		}
		from = head.Size
	}
	chain, err := c.Chain(ctx) // as of now: later entries are signed by keys that count
	if err != nil {
		return err
	}
	count := 0
	for e, err := range c.Client.Events(ctx, from) {
		if err != nil {
			return err
		}
		if s := showEntry(e, chain); a.JSON() {
			err = a.PrintJSON(s)
		} else {
			err = a.PrintText(fmt.Sprintf("%d  %s  %s  %s  %s%s\n", e.Index, instant(e.RegisteredAt), e.Kind, e.Header.Iss, words.Summary(e.Body), words.Compromised(s.Compromised)))
		}
		if err != nil {
			return err
		}
		if count++; count == o.limit {
			return nil
		}
	}
	return exit.With(exit.Interrupted, errors.New("interrupted"))
}
