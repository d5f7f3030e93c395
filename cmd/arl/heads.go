package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recoveryledger/ledger/durable"
	"recoveryledger/verify"
)

// Kept here is the tree head that was accepted last, of each ledger that this machine knows:
// later ones must continue it, so that no server can show two logs one after
// the other (AGT-1).

func (a *app) headFile(origin string) (string, error) {
	home, err := a.homeDir()
	return filepath.Join(home, "heads", profileName(origin)+".note"), err
}

// loadHead returns the head that was accepted last, or the one that the pinned
// root carries if that is larger; nil if there is neither. Two that cannot both be
// of one log are a [*verify.ForkError].
func (a *app) loadHead(root verify.Root) (*verify.SignedHead, error) {
	kept, err := a.keptHead(root)
	if err != nil || root.Seen == "" {
		return kept, err
	}
	head, err := root.Head([]byte(root.Seen))
	if err != nil {
		return nil, fmt.Errorf("the tree head that the pinned root carries: %w", err)
	}
	switch {
	case kept == nil || head.Size > kept.Size:
		return &verify.SignedHead{Head: head, Note: root.Seen}, nil
	case head.Size == kept.Size && head.Root != kept.Root:
		return nil, &verify.ForkError{First: kept.Note, Second: root.Seen,
			Detail: fmt.Sprintf("the log of %d entries has the root %s as it was accepted here, and %s in the pinned root", head.Size, kept.Root, head.Root)}
	}
	return kept, nil
}

func (a *app) keptHead(root verify.Root) (*verify.SignedHead, error) {
	path, err := a.headFile(root.Origin)
	if err != nil {
		return nil, err
	}
	note, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := root.Head(note)
	if err != nil {
		return nil, fmt.Errorf("%s, the tree head that was accepted last: %w", path, err)
	}
	return &verify.SignedHead{Head: head, Note: string(note)}, nil
}

func (a *app) saveHead(origin, note string) error {
	path, err := a.headFile(origin)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return withExit(exitIO, durable.Write(path, []byte(note), 0o600))
}
