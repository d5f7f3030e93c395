package ledger

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/disk"
	"recoveryledger/merkle"
)

// anchor returns the anchor that the batch leads to.
func (b *Batch) anchor() anchor.Anchor { return anchor.Anchor{Seq: b.Seq, Head: b.Head()} }

// loadAnchor returns the anchor of the database. last is the last batch of the database. The
// anchor is that batch if the log is new, or where [Config.AcceptAnchor] says so.
func loadAnchor(cfg *Config, last *Batch) (anchor.Anchor, error) {
	there, err := disk.Exists(cfg.FS, cfg.Anchor)
	if err != nil {
		return anchor.Anchor{}, fmt.Errorf("ledger: anchor %s: %w", cfg.Anchor, err)
	}
	if !there && last.Size > 0 {
		err = fmt.Errorf("%w: %s is missing, but the log has size %d: restore the anchor, or ask agents, witnesses and mirrors for the newest tree "+
			"head that they saw, and pass --accept-anchor", ErrAnchor, cfg.Anchor, last.Size)
	}
	found := last.anchor()
	if there {
		found, err = anchor.Read(cfg.FS, cfg.Anchor, cfg.Origin)
	}
	if errors.Is(err, ErrAnchor) && !disk.Absent(err) && cfg.AcceptAnchor {
		return last.anchor(), nil
	}
	return found, err
}

// Anchored returns the newest tree head that the anchor file at path holds for the log of that
// origin. The error is [ErrAnchor], or the error of reading the file.
func Anchored(path, origin string) (merkle.Head, error) {
	a, err := anchor.Read(vfs.Default, path, origin)
	return a.Head, err
}

// checkAnchor refuses a database that does not contain the anchored tree.
func (l *Log) checkAnchor(last *Batch) error {
	a, err := loadAnchor(l.cfg, last)
	if err != nil {
		return err
	}
	if err := checkRolledBack(a, last); err != nil {
		return err
	}
	frontier, err := merkle.NewFrontier(a.Head.Size, l.nodes(l.view.Load()))
	if err != nil {
		return fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if stored, err := frontier.Head(); err != nil || stored != a.Head {
		return otherHistory(a, stored)
	}
	return nil
}

func checkRolledBack(a anchor.Anchor, last *Batch) error {
	if last.Size < a.Head.Size || last.Seq < a.Seq {
		return fmt.Errorf("%w: the database has size %d, but its anchor has a signed tree head of %d: %s",
			ErrRolledBack, last.Size, a.Head.Size, LostRemedy)
	}
	return nil
}

func otherHistory(a anchor.Anchor, found merkle.Head) error {
	return fmt.Errorf("%w: the root of size %d is %s, but the signed root is %s: this is another history",
		ErrRolledBack, a.Head.Size, found.Root, a.Head.Root)
}
