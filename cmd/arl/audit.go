package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func (a *app) logAuditCommand(o *access.Where) *cobra.Command {
	var fromStart bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check every entry of the log by the rules of registration",
		Long: "Read every entry, check that the entries are the log under the signed tree head, and apply the rules of\n" +
			"registration (REG-1 to REG-9) again from the first entry on. The root of every index entry is computed again. An\n" +
			"entry that breaks a rule, and a wrong root, give exit code 10. An audit continues where this machine's last audit\n" +
			"of the log ended, and says so; --from-start audits everything again.",
		Example: "  arl log audit --data ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithLog(cmd.Context(), o, func(l *access.Log) error {
				if fromStart && l.Kept == access.UseKept {
					l.Kept = access.ReplaceKept
				}
				return a.audit(cmd.Context(), l)
			})
		},
	}
	cmd.Flags().BoolVar(&fromStart, "from-start", false, "audit from the first entry on, and keep the new result")
	o.RegisterKept(cmd.Flags())
	return cmd
}

// auditReport is the output of arl log audit about a sound log.
type auditReport struct {
	Origin  string            `json:"origin"`
	Size    uint64            `json:"size"`
	Root    merkle.Hash       `json:"root"`
	Kinds   map[string]uint64 `json:"kinds"`
	Checked string            `json:"checked"`
	Before  *auditedBefore    `json:"before,omitempty"` // the part that was not read again
}

// auditedBefore is the end of the earlier audit that this audit continued.
type auditedBefore struct {
	merkle.Head
	At int64 `json:"at"` // Unix milliseconds
}

func (a *app) audit(ctx context.Context, l *access.Log) error {
	f, err := a.machine().Fold(ctx, l, "audit")
	if err != nil {
		return err
	}
	out := auditReport{Origin: l.Root.Origin, Size: f.Size, Root: f.Head.Root, Kinds: map[string]uint64{},
		Checked: "every entry under the signed tree head, by REG-1 to REG-9 in log order"}
	for _, k := range f.Kinds {
		if k.Kind == entry.KindIndex && k.Count > 0 {
			out.Checked += "; the root of each index entry"
		}
	}
	fields := []terminal.Field{{"origin", out.Origin}, {"size", decimal(out.Size)}, {"root", out.Root.String()}}
	for _, k := range f.Kinds {
		if k.Count > 0 {
			out.Kinds[string(k.Kind)] = k.Count
			fields = append(fields, terminal.Field{string(k.Kind), decimal(k.Count)})
		}
	}
	fields = append(fields, terminal.Field{"checked", out.Checked})
	if f.Before != nil {
		out.Before = &auditedBefore{f.Before.Head.Head, f.Before.At}
		fields = append(fields, terminal.Field{"audited before", fmt.Sprintf("entries 0 to %d, on %s, under the head of size %d, root %s",
			out.Before.Size-1, instant(out.Before.At), out.Before.Size, out.Before.Root)}, terminal.Field{"audited now", entriesFrom(out.Before.Size, f.Size)})
	}
	return a.PrintObject(out, fields...)
}

// entriesFrom names the entries from an index on.
func entriesFrom(from, size uint64) string {
	if from == size {
		return "no entry: the log has not grown"
	}
	return fmt.Sprintf("entries %d to %d", from, size-1)
}
