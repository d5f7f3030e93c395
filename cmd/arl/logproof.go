package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/verify"
)

// proofOptions are the flags of arl log proof.
type proofOptions struct {
	index       optional
	from, to    headFile
	format, out string
}

func (a *app) logProofCommand(o *access.Where) *cobra.Command {
	var p proofOptions
	cmd := &cobra.Command{
		Use:   "proof {--index N | --from HEAD [--to HEAD]}",
		Short: "Write the proof that an entry is in the log, or that one tree head continues another",
		Long: "Write the receipt of an entry, and the receipts of the policies and keys that verify its signer, one a line. arl\n" +
			"verify needs nothing more. Or write a .tlog-proof (c2sp.org/tlog-proof), which shows only that the entry is in\n" +
			"the log, or a COSE receipt (RFC 9942), which the ledger's Ed25519 key signs. With --out, the command writes the\n" +
			"leaf of these two beside the proof, as OUT.leaf.\n" +
			"With --from, write the proof that the newer of two tree heads continues the older, with both heads. HEAD is a\n" +
			"file with a signed tree head, or with anything that contains one, such as a receipt.",
		Example: "  arl log proof --index 0 --out genesis.receipt.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("%q: pass the entry as --index %s", args[0], args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return a.machine().WithLog(cmd.Context(), o, func(l *access.Log) error {
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
	cmd.Flags().StringVar(&p.format, "format", "receipt", "format of the proof: receipt|tlog-proof|cose")
	cmd.Flags().StringVar(&p.out, "out", "", "file to write (default: standard output)")
	cmd.MarkFlagsOneRequired("index", "from")
	cmd.MarkFlagsMutuallyExclusive("index", "from")
	cmd.MarkFlagsMutuallyExclusive("index", "to")
	cmd.MarkFlagsMutuallyExclusive("from", "format")
	return cmd
}

func (p *proofOptions) check() error {
	switch {
	case p.format != "receipt" && p.format != "tlog-proof" && p.format != "cose":
		return exit.Usagef("--format %s: want receipt, tlog-proof or cose", p.format)
	case p.index.value != nil && *p.index.value < 0:
		return exit.Usagef("--index %d: want the index of an entry, from 0 on", *p.index.value)
	}
	return nil
}

func (a *app) logInclusion(ctx context.Context, l *access.Log, p *proofOptions) error {
	if p.format == "cose" {
		content, receipt, err := l.COSE(ctx, uint64(*p.index.value))
		if err != nil {
			return err
		}
		return a.writeBesideLeaf(content, receipt.Leaf, p.out)
	}
	receipt, err := l.Receipt(ctx, uint64(*p.index.value))
	if err != nil {
		return err
	}
	if p.format == "tlog-proof" {
		content, err := receipt.TLogProof()
		if err != nil {
			return err
		}
		return a.writeBesideLeaf(content, receipt.Leaf, p.out)
	}
	content, err := access.ReceiptLines(ctx, l.Registry, l.Root, []verify.Receipt{*receipt})
	if err != nil {
		return err
	}
	return a.WriteOut(p.out, content)
}

// writeBesideLeaf writes a proof without its leaf, and the leaf beside it.
func (a *app) writeBesideLeaf(content, leaf []byte, out string) error {
	if out != "" {
		if err := terminal.WriteFile(out+".leaf", leaf); err != nil {
			return err
		}
	}
	return a.WriteOut(out, content)
}

// logConsistency writes two tree heads and the proof between them, which arl
// verify checks as they are.
func (a *app) logConsistency(ctx context.Context, l *access.Log, p *proofOptions) error {
	older, err := a.readHead(p.from)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	newest, err := l.Head(ctx)
	if err != nil {
		return err
	}
	newer := newest.Note
	if p.to != "" {
		if newer, err = a.readHead(p.to); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	from, err := l.Root.Head([]byte(older))
	if err != nil {
		return fmt.Errorf("--from %s: %w", p.from, err)
	}
	to, err := l.Root.Head([]byte(newer))
	if err != nil {
		return fmt.Errorf("--to %s: %w", p.to, err)
	}
	if from.Size > to.Size {
		return exit.Usagef("--from has size %d, more than the %d of --to: put the older tree head first", from.Size, to.Size)
	}
	if to.Size > newest.Size {
		return exit.With(exit.NotFound, fmt.Errorf("the log has size %d here, less than the %d of --to: ask a server that has them", newest.Size, to.Size))
	}
	proof, err := l.Registry.Consistency(ctx, older, newer)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, encode := range []func() ([]byte, error){access.HeadLine(older), access.HeadLine(newer),
		verify.Consistency{Old: from.Size, New: to.Size, Path: proof.Path}.Encode} {
		if err := access.AppendLine(&b, encode); err != nil {
			return err
		}
	}
	return a.WriteOut(p.out, b.Bytes())
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
	data, err := a.ReadInput(path, verify.MaxFile)
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
	return "", exit.Usagef("%s: the file has no tree head: want a head as GET /checkpoint answers it, or a receipt", path)
}
