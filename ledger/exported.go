package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/export"
)

// openExport opens an export of this log that a key in cfg has signed.
func openExport(dir string, cfg *Config) (*export.Dir, error) {
	x, err := export.Open(dir, verifiers(cfg.Keys)...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ledger: import: %w", err)
	case x.Origin != cfg.Origin:
		return nil, fmt.Errorf("%w: %s is an export of %.140q, the keys are those of %s: pass an export of %[4]s, or restore the keys of the other ledger",
			ErrOrigin, dir, x.Origin, cfg.Origin)
	case !x.Signed:
		return nil, fmt.Errorf("%w: %s is signed by no key of this ledger: restore the key that signed it, or pass the export of this ledger",
			ErrKeys, filepath.Join(dir, export.Checkpoint))
	case x.Head.Size == 0:
		return nil, fmt.Errorf("%w: %s is the export of a log without entries", ErrNotFound, dir)
	}
	return x, nil
}

// checkKnown checks the export against the tree heads that are known to have been signed. It
// runs before anything is created.
func checkKnown(x *export.Dir, cfg *Config, i *ImportConfig) error {
	known := slices.Concat(i.Newest, i.Seen)
	there, err := disk.Exists(cfg.FS, cfg.Anchor)
	if err != nil {
		return fmt.Errorf("ledger: anchor %s: %w", cfg.Anchor, err)
	}
	if there {
		a, err := anchor.Read(cfg.FS, cfg.Anchor, cfg.Origin)
		if err == nil {
			known = append(known, KnownHead{a.Head, cfg.Anchor + " has a signed tree head"})
		} else if !errors.Is(err, ErrAnchor) || len(i.Newest) == 0 {
			return err
		}
	} else if len(i.Newest) == 0 {
		return fmt.Errorf("%w: %s is missing, so the ledger may have signed a newer tree head than the export has, size %d: "+
			"restore the anchor, or ask agents, witnesses and mirrors for the newest tree head that they saw (also ARL_HOME/heads), and pass it as --newest",
			ErrAnchor, cfg.Anchor, x.Head.Size)
	}
	for _, head := range known {
		if err := covers(x, head, i); err != nil {
			return err
		}
	}
	return nil
}

// covers checks that the export contains the tree of a signed head.
func covers(x *export.Dir, known KnownHead, i *ImportConfig) error {
	if known.Size > x.Head.Size {
		return fmt.Errorf("%w: %s has size %d, but %s of %d: %s; if entries are lost for good, continue under a new origin (arl ledger new-origin)",
			ErrRolledBack, x.Name(), x.Head.Size, known.By, known.Size, cmp.Or(i.Newer, "import a newer export"))
	}
	found, err := x.HeadAt(known.Size)
	if err != nil {
		return err
	}
	if found != known.Head {
		return otherHistory(anchor.Anchor{Head: known.Head}, found)
	}
	return nil
}
