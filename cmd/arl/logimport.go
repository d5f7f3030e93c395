package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	checkpoint "github.com/transparency-dev/formats/log"

	"recoveryledger/ledger"
	"recoveryledger/merkle"
)

func (a *app) logImportCommand(o *logOptions) *cobra.Command {
	var newest []string
	cmd := &cobra.Command{
		Use:   "import EXPORT",
		Short: "Rebuild a data directory from an export",
		Long: "Rebuild the database of a data directory from an export (arl log export) and the ledger's keys, which are restored\n" +
			"first. Entries count only if they give the signed root of the export's tree head; tiles, dedup keys, indexes and\n" +
			"state are computed from them. An import that was interrupted goes on where it was.\n\n" +
			"A log that lost acknowledged entries must not go on. So the tree head of the export must cover the anchor and\n" +
			"every head that --newest names. Where there is no anchor, --newest is mandatory: the newest head that anybody has\n" +
			"seen, as a file with the signed head or as SIZE:ROOT. Ask the agents, mirrors and witnesses for their newest head.",
		Example: "  arl log import ./public --data ./data --newest ./checkpoint",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.data == "" {
				return usage("an import rebuilds a data directory: pass --data DIR, with the ledger's keys in DIR/keys")
			}
			return a.logImport(cmd.Context(), o, args[0], newest)
		},
	}
	cmd.Flags().StringArrayVar(&newest, "newest", nil, "newest tree head that anybody has seen, FILE or SIZE:ROOT; may be repeated")
	return cmd
}

// logImportReport is what arl log import prints.
type logImportReport struct {
	Data    string      `json:"data"`
	Head    merkle.Head `json:"head"`
	Resumed uint64      `json:"resumed"`
	Already bool        `json:"already"`
}

func (a *app) logImport(ctx context.Context, o *logOptions, export string, newest []string) error {
	options := a.inPlace(o)
	n, err := prepareNode(options)
	if exitCode(err) == exitNotFound {
		return withExit(exitNotFound, fmt.Errorf("%s has no keys: restore %s from a backup first, an export has none", o.data, (&node{dir: o.data}).keysDir()))
	}
	if err != nil {
		return err
	}
	what := &ledger.ImportConfig{Export: export}
	for _, named := range newest {
		head, err := a.namedHead(n, named)
		if err != nil {
			return err
		}
		what.Newest = append(what.Newest, head)
	}
	if what.Seen, err = a.seenHeads(n); err != nil {
		return err
	}
	tell, end := a.progress("import")
	what.Progress = tell
	done, err := ledger.Import(ctx, n.database(), n.ledgerConfig(options), what)
	end()
	if err != nil {
		return n.importError(export, err)
	}
	r := logImportReport{Data: o.data, Head: done.Head, Resumed: done.Resumed, Already: done.Already}
	fields := []field{{"data", r.Data}, {"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)}}
	if r.Resumed > 0 {
		fields = append(fields, field{"resumed", fmt.Sprintf("%d entries were there from an import before", r.Resumed)})
	}
	state := "rebuilt; start it with arl serve --data " + o.data
	if r.Already {
		state = "was there, whole"
	}
	return a.printObject(r, append(fields, field{"database", state})...)
}

// importError gives the errors of an import their exit codes, and damage a remedy.
func (n *node) importError(export string, err error) error {
	_, path := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, ledger.ErrCorrupt) && isThere(n.database()):
		return n.damaged(err)
	case errors.Is(err, ledger.ErrCorrupt):
		return &remedyError{fmt.Sprintf("%s has no log yet; take another copy of %s, or the files of a mirror, and import that", n.dir, export), err}
	case errors.Is(err, ledger.ErrOrigin), errors.Is(err, ledger.ErrFormat):
		return withExit(exitConfig, err)
	case errors.Is(err, ledger.ErrKeys):
		return withExit(exitVerification, err)
	case path && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return withExit(exitIO, err)
	}
	return err
}

// namedHead reads a tree head from the command line: SIZE:ROOT, or a file with a
// head that the ledger's keys have signed.
func (a *app) namedHead(n *node, named string) (merkle.Head, error) {
	if size, root, ok := strings.Cut(named, ":"); ok {
		count, sizeErr := strconv.ParseUint(size, 10, 64)
		hash, rootErr := merkle.ParseHash(root)
		if sizeErr == nil && rootErr == nil {
			return merkle.Head{Size: count, Root: hash}, nil
		}
	}
	const maxHead = 1 << 20
	signed, err := a.readInput(named, maxHead)
	if errors.Is(err, fs.ErrNotExist) {
		return merkle.Head{}, usage("--newest %s is neither a file nor SIZE:ROOT: pass a signed tree head, or its size and root in base64", named)
	}
	if err != nil {
		return merkle.Head{}, err
	}
	head, err := n.openHead(signed)
	if err != nil {
		return head, withExit(exitVerification, fmt.Errorf("--newest %s: %w", named, err))
	}
	return head, nil
}

// openHead opens a tree head that one of the ledger's keys has signed.
func (n *node) openHead(signed []byte) (merkle.Head, error) {
	var verifiers []note.Verifier
	for _, k := range n.keys {
		verifiers = append(verifiers, k.Verifier)
	}
	opened, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return merkle.Head{}, fmt.Errorf("no tree head that a key in %s has signed: %w", n.keysDir(), err)
	}
	var c checkpoint.Checkpoint
	if _, err := c.Unmarshal([]byte(opened.Text)); err != nil || len(c.Hash) != merkle.HashSize || c.Origin != n.origin {
		return merkle.Head{}, fmt.Errorf("no tree head of %s", n.origin)
	}
	return merkle.Head{Size: c.Size, Root: merkle.Hash(c.Hash)}, nil
}

// seenHeads are the heads that this machine has accepted of the ledger.
func (a *app) seenHeads(n *node) ([]merkle.Head, error) {
	p, err := a.profileOf(n.origin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known, err := a.loadHead(p.Root)
	if err != nil || known == nil {
		return nil, err
	}
	return []merkle.Head{known.Head}, nil
}
