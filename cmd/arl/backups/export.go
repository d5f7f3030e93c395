package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/publish"
	"recoveryledger/merkle"
)

// ExportCommand returns arl log export, with the flags of arl log in o.
func ExportCommand(t *terminal.Terminal, machine func() *access.Machine, o *access.Where) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write the log as static files for any web server",
		Long: "Write the log as the static files of c2sp.org/tlog-tiles, for any web server or CDN. Another export to the same\n" +
			"directory adds the new entries. Readers see either the older or the newer log, never a mix. Run an interrupted\n" +
			"export again: it does not write again what is there.",
		Example: "  arl log export ./public",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (to == "") == (len(args) == 0) {
				return exit.Usagef("pass either DIR or --to")
			}
			return machine().WithLog(cmd.Context(), o, func(l *access.Log) error {
				return writeExport(cmd.Context(), t, l, cmp.Or(to, strings.Join(args, "")), to != "")
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "publish to s3://BUCKET/PREFIX or file:///DIRECTORY, with the headers that caches need (docs/publishing.md)")
	return cmd
}

// exportReport is the output of arl log export.
type exportReport struct {
	Dir   string      `json:"dir"`
	Older merkle.Head `json:"older"`
	Newer merkle.Head `json:"newer"`
	Files int         `json:"files"`
	Kept  int         `json:"kept"` // of an export that was interrupted
}

func writeExport(ctx context.Context, t *terminal.Terminal, l *access.Log, dir string, publishes bool) error {
	head, err := l.Published(ctx)
	if err != nil {
		return err
	}
	tell, end := t.Progress("export")
	write := export.Write
	if publishes {
		write = publish.Write
	}
	done, err := write(ctx, dir, &export.Config{
		Source:   &export.Fixed{Head: head, Tiles: func(tile merkle.Tile) ([]byte, error) { return l.Tile(ctx, tile) }},
		Open:     l.Root.Head,
		Progress: tell,
	})
	end()
	if publish.Conflicts(err) { // a fork in it is the evidence
		return exit.With(exit.Inconsistent, err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return exit.With(exit.IO, err)
	}
	if err != nil {
		return err
	}
	r := exportReport{Dir: dir, Older: done.Older, Newer: done.Newer, Files: done.Files, Kept: done.Kept}
	fields := []terminal.Field{{"directory", dir}, {"tree head", fmt.Sprintf("size %d, root %s", r.Newer.Size, r.Newer.Root)},
		{"before", fmt.Sprintf("size %d", r.Older.Size)}, {"files written", fmt.Sprint(r.Files)}}
	if r.Kept > 0 {
		fields = append(fields, terminal.Field{"resumed", words.Counted(r.Kept, "file") + " kept from an export before"})
	}
	return t.PrintObject(r, fields...)
}
