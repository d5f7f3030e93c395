package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/verify"
)

// proofOptions are the flags of arl log proof.
type proofOptions struct {
	index       optional
	from, to    headFile
	format, out string
}

func (a *app) logProofCommand(o *logOptions) *cobra.Command {
	var p proofOptions
	cmd := &cobra.Command{
		Use:   "proof {--index N | --from HEAD [--to HEAD]}",
		Short: "Write the proof that an entry is in the log, or that one tree head continues another",
		Long: "Write the receipt of an entry with those of the policies and keys that it counts by, one a line, which is all that\n" +
			"arl verify needs; or its .tlog-proof (c2sp.org/tlog-proof), which shows only that it is in the log. The leaf of a\n" +
			".tlog-proof is written beside it, as OUT.leaf.\n" +
			"With --from, write the proof that the log of one tree head is the beginning of that of another, with both heads.\n" +
			"HEAD is a file with a signed tree head, or with anything that has one, such as a receipt.",
		Example: "  arl log proof --index 0 --out genesis.receipt.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%q: pass the entry as --index %s", args[0], args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return a.withLog(cmd.Context(), o, func(l *openLog) error {
				if p.from != "" {
					return a.logConsistency(cmd.Context(), l, &p)
				}
				return a.logInclusion(cmd.Context(), l, &p)
			})
		},
	}
	cmd.Flags().Var(&p.index, "index", "index of the entry")
	cmd.Flags().Var(&p.from, "from", "file with the older tree head")
	cmd.Flags().Var(&p.to, "to", "file with the newer tree head (default: the newest of the log)")
	cmd.Flags().StringVar(&p.format, "format", "receipt", "what to write: receipt|tlog-proof")
	cmd.Flags().StringVar(&p.out, "out", "", "file to write (default: standard output)")
	cmd.MarkFlagsOneRequired("index", "from")
	cmd.MarkFlagsMutuallyExclusive("index", "from")
	cmd.MarkFlagsMutuallyExclusive("index", "to")
	cmd.MarkFlagsMutuallyExclusive("from", "format")
	return cmd
}

func (p *proofOptions) check() error {
	switch {
	case p.format != "receipt" && p.format != "tlog-proof":
		return usage("--format %s: want receipt or tlog-proof", p.format)
	case p.index.value != nil && *p.index.value < 0:
		return usage("--index %d: want the index of an entry, from 0 on", *p.index.value)
	}
	return nil
}

func (a *app) logInclusion(ctx context.Context, l *openLog, p *proofOptions) error {
	receipt, err := l.receipt(ctx, uint64(*p.index.value))
	if err != nil {
		return err
	}
	if p.format == "tlog-proof" {
		return a.writeTLogProof(receipt, p.out)
	}
	content, err := bundle(ctx, l.registry, l.root, []verify.Receipt{*receipt})
	if err != nil {
		return err
	}
	return a.writeOut(p.out, content)
}

// logConsistency writes two tree heads and the proof between them, which arl
// verify checks as they are.
func (a *app) logConsistency(ctx context.Context, l *openLog, p *proofOptions) error {
	older, err := a.readHead(p.from)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	newest, err := l.head(ctx)
	if err != nil {
		return err
	}
	newer := newest.Note
	if p.to != "" {
		if newer, err = a.readHead(p.to); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	from, err := l.root.Head([]byte(older))
	if err != nil {
		return fmt.Errorf("--from %s: %w", p.from, err)
	}
	to, err := l.root.Head([]byte(newer))
	if err != nil {
		return fmt.Errorf("--to %s: %w", p.to, err)
	}
	if from.Size > to.Size {
		return usage("--from has %d entries, more than the %d of --to: put the older tree head first", from.Size, to.Size)
	}
	if to.Size > newest.Size {
		return withExit(exitNotFound, fmt.Errorf("the log has %d entries here, fewer than the %d of --to: ask a server that has them", newest.Size, to.Size))
	}
	proof, err := l.registry.Consistency(ctx, older, newer)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, encode := range []func() ([]byte, error){headLine(older), headLine(newer),
		verify.Consistency{Old: from.Size, New: to.Size, Path: proof.Path}.Encode} {
		if err := appendLine(&b, encode); err != nil {
			return err
		}
	}
	return a.writeOut(p.out, b.Bytes())
}

// headFile is the name of a file that has a tree head.
type headFile string

// Set implements [pflag.Value].
func (f *headFile) Set(text string) error { *f = headFile(text); return nil }

// String implements [pflag.Value].
func (f *headFile) String() string { return string(*f) }

// Type implements [pflag.Value].
func (*headFile) Type() string { return "HEAD" }

// readHead reads the first tree head that a file has.
func (a *app) readHead(file headFile) (string, error) {
	path := string(file)
	data, err := a.readInput(path, verify.MaxFile)
	if err != nil {
		return "", err
	}
	var m verify.Material
	if err := m.Add(path, data); err != nil {
		return "", err
	}
	switch {
	case len(m.Heads) > 0:
		return m.Heads[0], nil
	case len(m.Receipts) > 0:
		return m.Receipts[0].Head, nil
	case len(m.Proofs) > 0:
		return m.Proofs[0].Head, nil
	}
	return "", usage("%s: no tree head in it: want one as GET /checkpoint gives it, or a receipt", path)
}
