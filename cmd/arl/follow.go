package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"recoveryledger/ledger"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) logExportCommand(o *logOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR",
		Short: "Write the log as static files for any web server",
		Long: "Write the log as the static files of c2sp.org/tlog-tiles, for any web server or CDN. Exporting to the same\n" +
			"directory again adds what is new; readers see the older or the newer log, never half of one.",
		Example: "  arl log export ./public",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLog(cmd.Context(), o, func(l *openLog) error { return a.export(cmd.Context(), l, args[0]) })
		},
	}
}

// exportReport is what arl log export prints.
type exportReport struct {
	Dir   string      `json:"dir"`
	Older merkle.Head `json:"older"`
	Newer merkle.Head `json:"newer"`
	Files int         `json:"files"`
}

// exportSource is what is exported: the log under one head.
type exportSource struct {
	head verify.SignedHead
	tile func(merkle.Tile) ([]byte, error)
}

// Published implements [ledger.Source].
func (s *exportSource) Published() (ledger.Head, error) {
	return ledger.Head{SignedHead: s.head}, nil
}

// Tile implements [ledger.Source].
func (s *exportSource) Tile(t merkle.Tile) ([]byte, error) { return s.tile(t) }

func (a *app) export(ctx context.Context, l *openLog, dir string) error {
	head, err := l.published(ctx)
	if err != nil {
		return err
	}
	tell, end := a.progress("export")
	done, err := ledger.Export(ctx, dir, &ledger.ExportConfig{
		Source:   &exportSource{head, func(t merkle.Tile) ([]byte, error) { return l.Tile(ctx, t) }},
		Open:     l.root.Head,
		Progress: tell,
	})
	end()
	if errors.Is(err, ledger.ErrInconsistent) {
		return &inconsistency{"export", forkEvidence{Detail: err.Error(), Second: head.Note}, err}
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return withExit(exitIO, err)
	}
	if err != nil {
		return err
	}
	r := exportReport{Dir: dir, Older: done.Older, Newer: done.Newer, Files: done.Files}
	return a.printObject(r, field{"directory", dir}, field{"tree head", fmt.Sprintf("size %d, root %s", r.Newer.Size, r.Newer.Root)},
		field{"before", fmt.Sprintf("size %d", r.Older.Size)}, field{"files written", fmt.Sprint(r.Files)})
}

// tailOptions are the flags of arl log tail.
type tailOptions struct {
	from  optional
	limit int
}

func (a *app) logTailCommand(o *logOptions) *cobra.Command {
	var tail tailOptions
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the log as it grows",
		Long: "Follow the log as it grows, until interrupted. Every entry is proven to be in the log, and every tree head to\n" +
			"continue the one before.",
		Example: "  arl log tail --from 0 --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.data != "" {
				return usage("a stopped ledger does not grow: arl log audit --data reads it")
			}
			return a.withConnection(cmd.Context(), &o.target, func(c *connection) error { return a.tail(cmd.Context(), c, &tail) })
		},
	}
	cmd.Flags().Var(&tail.from, "from", "index to begin at (default: what comes next)")
	cmd.Flags().IntVar(&tail.limit, "limit", 0, "end after so many entries; 0: never")
	return cmd
}

func (a *app) tail(ctx context.Context, c *connection, o *tailOptions) error {
	var from uint64
	if o.from.value != nil {
		from = uint64(*o.from.value)
	} else {
		head, err := c.head(ctx)
		if err != nil {
			return err
		}
		from = head.Size
	}
	chain, err := c.chain(ctx) // as of now: what comes later is signed by keys that count
	if err != nil {
		return err
	}
	count := 0
	for e, err := range c.client.Events(ctx, from) {
		if err != nil {
			return err
		}
		if s := showEntry(e, chain); a.settings.output == outputJSON {
			err = a.printJSON(s)
		} else {
			err = a.printText(fmt.Sprintf("%d  %s  %s  %s  %s%s\n", e.Index, instant(e.RegisteredAt), e.Kind, e.Header.Iss, summary(e.Body), s.Compromised.mark()))
		}
		if err != nil {
			return err
		}
		if count++; count == o.limit {
			return nil
		}
	}
	return withExit(exitInterrupted, errors.New("interrupted"))
}
