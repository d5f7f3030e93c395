package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	checkpoint "github.com/transparency-dev/formats/log"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
)

// Importing is a log that is rebuilt from an export.
type Importing struct {
	Export string
	Newest []string // known newest heads: SIZE:ROOT, or a file
	// Read reads a file that Newest names.
	Read     func(name string) ([]byte, error)
	Progress func(done, total uint64)
}

// Import rebuilds the database of a data directory from an export. It checks the log against the
// newest heads, and against the head that this machine has accepted.
func Import(ctx context.Context, o Options, im *Importing) (*ledger.ImportReport, error) {
	n, err := Prepare(o)
	if exit.Code(err) == exit.NotFound {
		return nil, exit.With(exit.NotFound, fmt.Errorf("%s has no keys: restore %s from a backup first, an export has none", o.Dir, (&Node{Dir: o.Dir}).KeysDir()))
	}
	if err != nil {
		return nil, err
	}
	what := &ledger.ImportConfig{Export: im.Export, Progress: im.Progress}
	for _, named := range im.Newest {
		head, err := n.namedHead(named, im.Read)
		if err != nil {
			return nil, err
		}
		what.Newest = append(what.Newest, head)
	}
	if what.Seen, err = n.seenHeads(); err != nil {
		return nil, err
	}
	done, err := ledger.Import(ctx, n.Database(), n.LedgerConfig(o), what)
	if err != nil {
		return nil, n.importError(im.Export, err)
	}
	return done, nil
}

// importError gives the errors of an import their exit codes, and damage a remedy.
func (n *Node) importError(from string, err error) error {
	_, path := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, ledger.ErrCorrupt) && isThere(n.Database()):
		return n.damaged(err)
	case errors.Is(err, ledger.ErrCorrupt), errors.Is(err, export.ErrDamaged):
		remedy := fmt.Sprintf("take another copy of %s, or the files of a mirror, and import that", from)
		if !isThere(n.Database()) {
			remedy = n.Dir + " has no log yet: " + remedy
		}
		return exit.Remedied(remedy, err)
	case errors.Is(err, ledger.ErrOrigin), errors.Is(err, ledger.ErrFormat):
		return exit.With(exit.Config, err)
	case errors.Is(err, ledger.ErrKeys):
		return exit.With(exit.Verification, err)
	case path && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return exit.With(exit.IO, err)
	}
	return err
}

// namedHead reads a tree head from the command line: SIZE:ROOT, or a file with a
// head that the ledger's keys have signed.
func (n *Node) namedHead(named string, read func(string) ([]byte, error)) (ledger.KnownHead, error) {
	known := ledger.KnownHead{By: "--newest names a tree head"}
	if size, root, ok := strings.Cut(named, ":"); ok {
		count, sizeErr := strconv.ParseUint(size, 10, 64)
		hash, rootErr := merkle.ParseHash(root)
		if sizeErr == nil && rootErr == nil {
			known.Head = merkle.Head{Size: count, Root: hash}
			return known, nil
		}
	}
	signed, err := read(named)
	if errors.Is(err, fs.ErrNotExist) {
		return known, exit.Usagef("--newest %s is neither a file nor SIZE:ROOT: pass a signed tree head, or its size and root in base64", named)
	}
	if err != nil {
		return known, err
	}
	if known.Head, err = n.openHead(signed); err != nil {
		return known, exit.With(exit.Verification, fmt.Errorf("--newest %s: %w", named, err))
	}
	return known, nil
}

// openHead opens a tree head that one of the ledger's keys has signed.
func (n *Node) openHead(signed []byte) (merkle.Head, error) {
	var verifiers []note.Verifier
	for _, k := range n.Keys {
		verifiers = append(verifiers, k.Verifier)
	}
	opened, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return merkle.Head{}, fmt.Errorf("no tree head that a key in %s has signed: %w", n.KeysDir(), err)
	}
	var c checkpoint.Checkpoint
	if _, err := c.Unmarshal([]byte(opened.Text)); err != nil || len(c.Hash) != merkle.HashSize || c.Origin != n.Origin {
		return merkle.Head{}, fmt.Errorf("no tree head of %s", n.Origin)
	}
	return merkle.Head{Size: c.Size, Root: merkle.Hash(c.Hash)}, nil
}

// seenHeads returns the heads of the ledger that this machine has accepted.
func (n *Node) seenHeads() ([]ledger.KnownHead, error) {
	p, err := n.machine.Of(n.Origin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known, err := n.machine.Head(p.Root)
	if err != nil || known == nil {
		return nil, err
	}
	return []ledger.KnownHead{{Head: known.Head, By: "this machine has accepted a signed tree head"}}, nil
}
