package main

import (
	"bytes"
	"context"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

func (a *app) logEvidenceCommand(o *access.Where) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "evidence",
		Short: "List evidence of equivocation",
		Long: "List objects that agents signed under an id that already has other bytes in the log. The ledger refused these\n" +
			"objects (id-conflict) and keeps them beside the log. The command verifies each object. With --out, it writes the\n" +
			"documents to a file, one a line; arl verify FILE checks them offline.",
		Example: "  arl log evidence --out evidence.ndjson",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Data != "" {
				return exit.Usagef("--data: only a running ledger answers evidence: pass --url, or read DIR/evidence.ndjson")
			}
			return a.machine().WithWatched(cmd.Context(), &o.Target, func(c *access.Connection) error { return a.listEvidence(cmd.Context(), c, out) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write the documents to")
	return cmd
}

// evidenceRow is a line of the output of arl log evidence.
type evidenceRow struct {
	verify.Equivocation
	Detail string `json:"detail"`
}

func (a *app) listEvidence(ctx context.Context, c *access.Connection, out string) error {
	if err := terminal.CheckOut(out); err != nil {
		return err
	}
	rows := a.NewList("AGENT", "ENTRY", "ID")
	var documents bytes.Buffer
	for found, err := range c.Client.Evidence(ctx) {
		if err != nil {
			return err
		}
		object, err := entry.Decode(found.Envelope)
		if err != nil {
			return err
		}
		if err := appendDocument(&documents, found, out); err != nil {
			return err
		}
		row := evidenceRow{verify.Equivocation{Principal: object.Header.Iss, JTI: object.Header.JTI, Index: found.Receipts[0].Index}, found.Detail}
		if err := rows.Add(row, string(row.Principal), decimal(row.Index), row.JTI); err != nil {
			return err
		}
	}
	if out != "" {
		if err := terminal.WriteFile(out, documents.Bytes()); err != nil {
			return err
		}
	}
	return rows.Close()
}

// appendDocument appends evidence as a line of the file out; empty: there is no file. The file may
// not be too large for arl verify.
func appendDocument(documents *bytes.Buffer, found *verify.Evidence, out string) error {
	if out == "" {
		return nil
	}
	if err := json.MarshalWrite(documents, found); err != nil {
		return err
	}
	documents.WriteByte('\n')
	if documents.Len() > verify.MaxFile {
		return exit.Usagef("--out %s: the evidence has more than %d bytes, which no arl verify reads: save the pages of GET %s one by one",
			out, verify.MaxFile, api.PathEvidence)
	}
	return nil
}
