package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) logAuditCommand(o *logOptions) *cobra.Command {
	var fromStart bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Run the rules of registration again over the whole log",
		Long: "Read every entry, check that together they are the log under the signed tree head, and run the rules of\n" +
			"registration (REG-1 to REG-9) again from the first entry on. An entry that should not be there is exit code 10.\n" +
			"An audit goes on from where this machine has audited the log before, and says so; --from-start begins anew.",
		Example: "  arl log audit --data ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLog(cmd.Context(), o, func(l *openLog) error {
				if fromStart && l.kept == useKept {
					l.kept = replaceKept
				}
				return a.audit(cmd.Context(), l)
			})
		},
	}
	cmd.Flags().BoolVar(&fromStart, "from-start", false, "audit again what was audited before, and keep the new result")
	o.registerKept(cmd.Flags())
	return cmd
}

// auditReport is what arl log audit prints of a sound log.
type auditReport struct {
	Origin  string            `json:"origin"`
	Size    uint64            `json:"size"`
	Root    merkle.Hash       `json:"root"`
	Kinds   map[string]uint64 `json:"kinds"`
	Checked string            `json:"checked"`
	Before  *auditedBefore    `json:"before,omitempty"` // what was not read again
}

// auditedBefore is the part of a log that an audit went on from.
type auditedBefore struct {
	merkle.Head
	At int64 `json:"at"` // Unix milliseconds
}

// auditEvidence is the first entry that should not be in the log, and what
// proves that the ledger put it there.
type auditEvidence struct {
	Index   uint64         `json:"index"`
	Problem string         `json:"problem"`
	Field   string         `json:"field"`
	Detail  string         `json:"detail"`
	Receipt verify.Receipt `json:"receipt"`
}

func (a *app) audit(ctx context.Context, l *openLog) error {
	f, err := a.fold(ctx, l, "audit", nil)
	if err != nil {
		return err
	}
	out := auditReport{Origin: l.root.Origin, Size: f.Size, Root: f.head.Root, Kinds: map[string]uint64{},
		Checked: "every entry under the signed tree head, by REG-1 to REG-9 in log order"}
	fields := []field{{"origin", out.Origin}, {"size", decimal(out.Size)}, {"root", out.Root.String()}}
	for _, k := range f.Kinds {
		if k.Count > 0 {
			out.Kinds[string(k.Kind)] = k.Count
			fields = append(fields, field{string(k.Kind), decimal(k.Count)})
		}
	}
	fields = append(fields, field{"checked", out.Checked})
	if f.before != nil {
		out.Before = &auditedBefore{f.before.Head.Head, f.before.At}
		fields = append(fields, field{"audited before", fmt.Sprintf("entries 0 to %d, on %s, under the head of size %d, root %s",
			out.Before.Size-1, instant(out.Before.At), out.Before.Size, out.Before.Root)}, field{"audited now", entriesFrom(out.Before.Size, f.Size)})
	}
	return a.printObject(out, fields...)
}

// entriesFrom names the entries from an index on.
func entriesFrom(from, size uint64) string {
	if from == size {
		return "no entry: the log has not grown"
	}
	return fmt.Sprintf("entries %d to %d", from, size-1)
}
