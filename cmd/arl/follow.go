package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) logExportCommand(o *access.Where) *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR",
		Short: "Write the log as static files for any web server",
		Long: "Write the log as the static files of c2sp.org/tlog-tiles, for any web server or CDN. Another export to the same\n" +
			"directory adds the new entries. Readers see either the older or the newer log, never a mix.",
		Example: "  arl log export ./public",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.machine().WithLog(cmd.Context(), o, func(l *access.Log) error { return a.export(cmd.Context(), l, args[0]) })
		},
	}
}

// exportReport is the output of arl log export.
type exportReport struct {
	Dir   string      `json:"dir"`
	Older merkle.Head `json:"older"`
	Newer merkle.Head `json:"newer"`
	Files int         `json:"files"`
}

// exportSource is the log under one head.
type exportSource struct {
	head verify.SignedHead
	tile func(merkle.Tile) ([]byte, error)
}

// Published implements [export.Source].
func (s *exportSource) Published() (verify.SignedHead, error) { return s.head, nil }

// Tile implements [export.Source].
func (s *exportSource) Tile(t merkle.Tile) ([]byte, error) { return s.tile(t) }

func (a *app) export(ctx context.Context, l *access.Log, dir string) error {
	head, err := l.Published(ctx)
	if err != nil {
		return err
	}
	tell, end := a.Progress("export")
	done, err := export.Write(ctx, dir, &export.Config{
		Source:   &exportSource{head, func(t merkle.Tile) ([]byte, error) { return l.Tile(ctx, t) }},
		Open:     l.Root.Head,
		Progress: tell,
	})
	end()
	if errors.Is(err, export.ErrInconsistent) {
		return exit.Contradicts("export", verify.NewForkEvidence(err.Error(), "", head.Note), err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return exit.With(exit.IO, err)
	}
	if err != nil {
		return err
	}
	r := exportReport{Dir: dir, Older: done.Older, Newer: done.Newer, Files: done.Files}
	return a.PrintObject(r, terminal.Field{"directory", dir}, terminal.Field{"tree head", fmt.Sprintf("size %d, root %s", r.Newer.Size, r.Newer.Root)},
		terminal.Field{"before", fmt.Sprintf("size %d", r.Older.Size)}, terminal.Field{"files written", fmt.Sprint(r.Files)})
}

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
			err = a.PrintText(fmt.Sprintf("%d  %s  %s  %s  %s%s\n", e.Index, instant(e.RegisteredAt), e.Kind, e.Header.Iss, words.Summary(e.Body), s.Compromised.Mark()))
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
