package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/ledger"
	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// logOptions are the flags of all verbs of log.
type logOptions struct {
	target
	data   string // directory of a stopped ledger
	anchor string
	// noCache is that the fold which is kept is neither read nor written.
	noCache bool
}

// registerInPlace is for what can be asked of a stopped ledger too.
func (o *logOptions) registerInPlace(flags *pflag.FlagSet) {
	flags.StringVar(&o.data, "data", "", "data directory of a stopped ledger, instead of a server")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
}

// registerKept is for what folds the log.
func (o *logOptions) registerKept(flags *pflag.FlagSet) {
	flags.BoolVar(&o.noCache, "no-cache", false, "read the whole log, and neither use nor keep its fold in ARL_HOME")
}

func (o *logOptions) keptUse() keptUse {
	if o.noCache {
		return ignoreKept
	}
	return useKept
}

func (a *app) logCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look at the log as a whole",
		Long: "Look at the log as a whole: of a running ledger, or with --data of a stopped one, in place. Everything that a\n" +
			"server says is checked against the pinned root before it is shown.",
		Example: "  arl log head",
	}
	flags := cmd.PersistentFlags()
	o.register(flags)
	o.registerInPlace(flags)
	cmd.AddCommand(a.logHeadCommand(&o), a.logProofCommand(&o), a.logAuditCommand(&o), a.logFsckCommand(&o),
		a.logExportCommand(&o), a.logImportCommand(&o), a.logTailCommand(&o))
	return cmd
}

// headReport is what arl log head prints.
type headReport struct {
	Origin   string       `json:"origin"`
	Size     uint64       `json:"size"`
	Root     merkle.Hash  `json:"root"`
	Note     string       `json:"note"`
	Previous *merkle.Head `json:"previous,omitempty"` // accepted before; a prefix of this one
	Checked  string       `json:"checked"`
}

func (a *app) logHeadCommand(o *logOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "head",
		Short: "Show the tree head, verified",
		Long: "Show the newest signed tree head. It is checked to be signed by the pinned keys and to continue the head\n" +
			"that was accepted before on this machine.",
		Example: "  arl log head",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLog(cmd.Context(), o, func(l *openLog) error { return a.logHead(cmd.Context(), l) })
		},
	}
}

func (a *app) logHead(ctx context.Context, l *openLog) error {
	head, err := l.head(ctx)
	if err != nil {
		return err
	}
	report, err := l.root.Verify(verify.Material{Heads: []string{head.Note}})
	if err != nil {
		return err
	}
	if err := inconclusive(report.Missing); err != nil {
		return err
	}
	r := headReport{Origin: l.root.Origin, Size: head.Size, Root: head.Root, Note: head.Note, Previous: l.before, Checked: report.Checked[0].Detail}
	history := "none was accepted before on this machine"
	if l.before != nil {
		history = fmt.Sprintf("continues size %d, accepted before", l.before.Size)
	}
	return a.printObject(r, field{"origin", r.Origin}, field{"size", decimal(r.Size)}, field{"root", r.Root.String()},
		field{"checked", r.Checked}, field{"history", history})
}

func (a *app) writeTLogProof(receipt *verify.Receipt, out string) error {
	content, err := receipt.TLogProof()
	if err != nil {
		return err
	}
	if out != "" {
		if err := writeFile(out+".leaf", receipt.Leaf); err != nil {
			return err
		}
	}
	return a.writeOut(out, content)
}

// writeOut writes a file, or standard output if there is no name.
func (a *app) writeOut(path string, content []byte) error {
	if path == "" {
		return a.printText(string(content))
	}
	return writeFile(path, content)
}

// checkOut finds out whether a file can be written, before something is done
// whose result it is for. No name is no file.
func checkOut(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return withExit(exitIO, fmt.Errorf("write %s: it is a directory: name a file", path))
	}
	f, err := durable.Begin("", path, 0o644)
	if err != nil {
		return output(path, err)
	}
	return output(path, f.Discard())
}

// writeFile writes a file that others may read, whole or not at all.
func writeFile(path string, content []byte) error {
	return output(path, durable.Write(path, content, 0o644))
}

func (a *app) logFsckCommand(o *logOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "fsck",
		Short: "Compute everything in a stopped ledger again and compare",
		Long: "Compute everything in a stopped ledger again from its entries and compare: files, leaves, tiles, indexes, dedup\n" +
			"keys, snapshots, tree head, anchor. Nothing is changed. The first difference ends it, with exit code 10.",
		Example: "  arl log fsck --data ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.data == "" {
				return usage("fsck works on a stopped ledger: pass --data DIR (arl log audit checks a running one)")
			}
			return a.fsck(cmd.Context(), o)
		},
	}
}

// fsckReport is a [ledger.CheckReport] as it is printed.
type fsckReport struct {
	Data      string      `json:"data"`
	Head      merkle.Head `json:"head"`
	Anchor    merkle.Head `json:"anchor"`
	Files     uint64      `json:"files"`
	Entries   uint64      `json:"entries"`
	Tiles     uint64      `json:"tiles"`
	Dedup     uint64      `json:"dedup"`
	Tags      uint64      `json:"tags"`
	Snapshots uint64      `json:"snapshots"`
}

// damageEvidence is what fsck found wrong.
type damageEvidence struct {
	Data string `json:"data"`
	Name string `json:"name"`
	Key  []byte `json:"key"`
	What string `json:"what"`
}

func (a *app) fsck(ctx context.Context, o *logOptions) error {
	options := a.inPlace(o)
	options.looks = true
	n, err := prepareNode(options)
	if err != nil {
		return err
	}
	tell, end := a.progress("fsck")
	found, err := ledger.Check(ctx, n.database(), n.ledgerConfig(options), tell)
	end()
	if errors.Is(err, ledger.ErrLost) {
		return n.without(err)
	}
	if damage, ok := errors.AsType[*ledger.DamageError](err); ok {
		return &inconsistency{"fsck", damageEvidence{o.data, damage.Name, damage.Key, damage.What}, n.damaged(err)}
	}
	if err != nil {
		return n.damaged(err)
	}
	n.replica.Committed(found.Head.Size)
	if err := n.checkLedgerKeys(n.replica.View().Chain); err != nil {
		return err
	}
	if err := n.checkCoordinatorKey(); found.Head.Size > 0 && err != nil {
		return err
	}
	r := fsckReport{Data: o.data, Head: found.Head, Anchor: found.Anchor, Files: found.Files, Entries: found.Entries,
		Tiles: found.Tiles, Dedup: found.Dedup, Tags: found.Tags, Snapshots: found.Snapshots}
	return a.printObject(r,
		field{"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)},
		field{"anchor", fmt.Sprintf("size %d, a prefix of it", r.Anchor.Size)},
		field{"entries", decimal(r.Entries)}, field{"full tiles", decimal(r.Tiles)}, field{"dedup keys", decimal(r.Dedup)},
		field{"indexed", decimal(r.Tags)}, field{"snapshots", decimal(r.Snapshots)}, field{"files", decimal(r.Files)},
		field{"verdict", "sound"})
}

// inPlace opens the data directory as it is: a log that is only read is closed
// before anything could fail to be written.
func (a *app) inPlace(o *logOptions) nodeOptions {
	return nodeOptions{dir: o.data, anchor: o.anchor, passphrase: once(a.passphrase), fatal: func(err error) {
		fmt.Fprintf(os.Stderr, "arl: %v\n", err)
		os.Exit(exitCode(brokenLog(err)))
	}}
}
