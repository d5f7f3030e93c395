package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger"
)

func (a *app) logImportCommand(o *access.Where) *cobra.Command {
	var newest []string
	cmd := &cobra.Command{
		Use:   "import EXPORT",
		Short: "Rebuild a data directory from an export",
		Long: "Rebuild the database of a data directory from an export (arl log export) and the ledger's keys. Restore the keys\n" +
			"first. The command accepts the entries only if they give the signed root of the export's tree head. It computes\n" +
			"tiles, dedup keys, indexes and state from the entries. Run an interrupted import again to continue it.\n\n" +
			"A log that lost acknowledged entries must not continue. So the tree head of the export must cover the anchor and\n" +
			"every head that --newest names. Without an anchor, --newest is required: the newest head that anybody has seen,\n" +
			"as a file with the signed head or as SIZE:ROOT. Ask the agents, mirrors and witnesses for their newest head.",
		Example: "  arl log import ./public --data ./data --newest ./checkpoint",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Data == "" {
				return exit.Usagef("an import rebuilds a data directory: pass --data DIR, with the ledger's keys in DIR/keys")
			}
			return a.logImport(cmd.Context(), o, args[0], newest)
		},
	}
	cmd.Flags().StringArrayVar(&newest, "newest", nil, "newest tree head that anybody has seen, FILE or SIZE:ROOT; may be repeated")
	return cmd
}

// logImportReport is the output of arl log import.
type logImportReport struct {
	Data string `json:"data"`
	*ledger.ImportReport
}

func (a *app) logImport(ctx context.Context, o *access.Where, export string, newest []string) error {
	const maxHead = 1 << 20
	tell, end := a.Progress("import")
	done, err := node.Import(ctx, a.machine().InPlace(o), &node.Importing{Export: export, Newest: newest, Progress: tell,
		Read: func(name string) ([]byte, error) { return a.ReadInput(name, maxHead) }})
	end()
	if err != nil {
		return err
	}
	r := logImportReport{o.Data, done}
	fields := []terminal.Field{{"data", r.Data}, {"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)}}
	if r.Resumed > 0 {
		fields = append(fields, terminal.Field{"resumed", words.Counted(r.Resumed, "entry") + " kept from an import before"})
	}
	state := "rebuilt; start it with arl serve --data " + o.Data
	if r.Already {
		state = "the database was there, and is whole"
	}
	return a.PrintObject(r, append(fields, terminal.Field{"database", state})...)
}
