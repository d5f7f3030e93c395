package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/backups"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) logCommand() *cobra.Command {
	var o access.Where
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show and check the log",
		Long: "Show and check the log of a running ledger, or with --data of a stopped ledger in place. The commands check\n" +
			"everything that a server says against the pinned root before they show it.",
		Example: "  arl log head",
	}
	flags := cmd.PersistentFlags()
	o.Register(flags)
	o.RegisterInPlace(flags)
	cmd.AddCommand(a.logHeadCommand(&o), a.logIndexCommand(&o), a.logProofCommand(&o), a.logAuditCommand(&o), a.logFsckCommand(&o),
		a.logEvidenceCommand(&o), backups.ExportCommand(&a.Terminal, a.machine, &o), a.logImportCommand(&o), a.logTailCommand(&o))
	return cmd
}

// headReport is the output of arl log head.
type headReport struct {
	Origin   string       `json:"origin"`
	Size     uint64       `json:"size"`
	Root     merkle.Hash  `json:"root"`
	Note     string       `json:"note"`
	Previous *merkle.Head `json:"previous,omitempty"` // accepted before; a prefix of this one
	Checked  string       `json:"checked"`
	// Witnesses is the server's statement about the witnesses, without a proof.
	Witnesses *api.Witnessing `json:"witnesses,omitempty"`
}

func (a *app) logHeadCommand(o *access.Where) *cobra.Command {
	return &cobra.Command{
		Use:   "head",
		Short: "Show the tree head, verified",
		Long: "Show the newest signed tree head. The command checks that pinned keys signed the head, and that it continues the\n" +
			"head that this machine accepted before.",
		Example: "  arl log head",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithLog(cmd.Context(), o, func(l *access.Log) error { return a.logHead(cmd.Context(), l) })
		},
	}
}

func (a *app) logHead(ctx context.Context, l *access.Log) error {
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	report, err := l.Root.Verify(verify.Material{Heads: []string{head.Note}})
	if err != nil {
		return err
	}
	if err := verify.Conclusive(report.Missing); err != nil {
		return err
	}
	r := headReport{Origin: l.Root.Origin, Size: head.Size, Root: head.Root, Note: head.Note, Previous: l.Before, Checked: report.Checked[0].Detail}
	history := "none was accepted before on this machine"
	if l.Before != nil {
		history = fmt.Sprintf("continues size %d, accepted before", l.Before.Size)
	}
	fields := []terminal.Field{{"origin", r.Origin}, {"size", decimal(r.Size)}, {"root", r.Root.String()}, {"checked", r.Checked}, {"history", history}}
	if c, ok := l.Registry.(*access.Connection); ok {
		info, err := c.Client.Log(ctx)
		if err != nil {
			return err
		}
		r.Witnesses = info.Witnessed
	}
	return a.PrintObject(r, append(fields, witnessFields(r.Witnesses)...)...)
}

// witnessFields returns lines about the witnesses, from the statement of the server.
func witnessFields(w *api.Witnessing) (fields []terminal.Field) {
	if w == nil {
		return nil
	}
	state := fmt.Sprintf("by the server's word, the quorum has cosigned size %d", w.Size)
	if w.Lacking != "" {
		state = "by the server's word, " + w.Lacking
	}
	fields = append(fields, terminal.Field{"witnesses", state})
	for _, one := range w.Witnesses {
		said := fmt.Sprintf("cosigned size %d", one.Size)
		if one.Failed != "" {
			said += ", now " + one.Failed
		}
		if one.Former {
			said += " (of a policy before)"
		}
		fields = append(fields, terminal.Field{one.Name, said})
	}
	return fields
}

func (a *app) logFsckCommand(o *access.Where) *cobra.Command {
	var index bool
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Recompute everything in a stopped ledger and compare",
		Long: "Recompute everything in a stopped ledger from its entries and compare: files, leaves, tiles, indexes, dedup\n" +
			"keys, snapshots, tree head, anchor. The command changes nothing. It stops at the first difference, with exit\n" +
			"code 10. With --index, the command then opens the log, computes its index again, and compares DIR/index. A\n" +
			"store that is behind the log, or missing, is sound. Opening the log may write a new snapshot of its state.",
		Example: "  arl log fsck --data ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Data == "" {
				return exit.Usagef("fsck works on a stopped ledger: pass --data DIR (arl log audit checks a running one)")
			}
			return a.fsck(cmd.Context(), o, index)
		},
	}
	cmd.Flags().BoolVar(&index, "index", false, "also check the store of the index")
	return cmd
}

// fsckReport is the output of arl log fsck about a sound ledger.
type fsckReport struct {
	Data string `json:"data"`
	*ledger.CheckReport
	Index *complete.CheckReport `json:"index,omitempty"` // with --index
}

// indexField returns the line of the output for people about an index.
func indexField(c *complete.CheckReport) terminal.Field {
	if c.Size == 0 {
		return terminal.Field{"index", "nothing is stored"}
	}
	return terminal.Field{"index", fmt.Sprintf("size %d, root %s, %s", c.Size, c.Root, words.Counted(c.Subjects, "subject"))}
}

// damageEvidence is the damage that fsck found.
type damageEvidence struct {
	Data string `json:"data"`
	Name string `json:"name"`
	Key  []byte `json:"key"`
	What string `json:"what"`
}

func (a *app) fsck(ctx context.Context, o *access.Where, index bool) error {
	tell, end := a.Progress("fsck")
	found, err := node.Check(ctx, a.machine().InPlace(o), tell)
	end()
	if damage, ok := errors.AsType[*ledger.DamageError](err); ok {
		return exit.Contradicts("fsck", damageEvidence{o.Data, damage.Name, damage.Key, damage.What}, err)
	}
	if err != nil {
		return err
	}
	r := fsckReport{Data: o.Data, CheckReport: found}
	fields := []terminal.Field{{"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)},
		{"anchor", fmt.Sprintf("size %d, a prefix of it", r.Anchor.Size)}, {"entries", decimal(r.Entries)}, {"full tiles", decimal(r.Tiles)},
		{"dedup keys", decimal(r.Dedup)}, {"indexed", decimal(r.Tags)}, {"snapshots", decimal(r.Snapshots)}, {"files", decimal(r.Files)}}
	if index {
		tell, end := a.Progress("index")
		r.Index, err = node.CheckIndex(ctx, a.machine().InPlace(o), tell)
		end()
		if err != nil {
			return err
		}
		fields = append(fields, indexField(r.Index))
	}
	return a.PrintObject(r, append(fields, terminal.Field{"verdict", "sound"})...)
}
