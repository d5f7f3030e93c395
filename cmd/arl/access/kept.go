package access

import (
	"context"
	"errors"
	"time"

	"recoveryledger/coord/audit"
	"recoveryledger/verify"
)

// foldGrowth is the share by which a log must have grown before its fold is written again: folding
// entries again is cheaper than writing the whole fold.
const foldGrowth = 256

// resume begins a fold with the kept fold, if the log under the head continues it. A log that
// contradicts the kept fold is a fork.
func (m *Machine) resume(ctx context.Context, l *Log, f *Fold) error {
	place, err := m.Trust.Fold(l.Root)
	if err != nil {
		return err
	}
	kept, err := place.Load()
	if err == nil && kept != nil && kept.Head.Size < f.Head.Size {
		err = l.Consistent(ctx, kept.Head, f.Head)
		if _, proven := errors.AsType[*verify.StepError](err); err != nil && !proven {
			return err
		}
	}
	if err != nil {
		m.Warn("the fold in %s is not used, and the log is read from its first entry: %v", place.Path, err)
		return nil
	}
	if kept == nil {
		return nil
	}
	if kept.Head.Size >= f.Head.Size {
		err = kept.PrecededBy(f.Head)
	}
	if f.passing = kept.Head.Size > f.Head.Size; !f.passing {
		f.Before, f.Follower = kept, kept.Follower
	}
	return err
}

// keep writes a verified fold if it has grown enough since the last write. If keep fails, the next
// command takes longer, but the answer of this command does not change.
func (m *Machine) keep(l *Log, f *Fold) {
	written := f.written
	if f.Before != nil {
		written = max(written, f.Before.Head.Size)
	}
	if f.passing || f.Size == 0 || written > 0 && f.Size-written <= written/foldGrowth {
		return
	}
	kept := &audit.Kept{Follower: f.Follower, Head: f.Head, At: time.Now().UnixMilli()}
	place, err := m.Trust.Fold(l.Root)
	if err == nil {
		err = place.Save(kept)
	}
	f.written = f.Size // keep does not try an unwritable place again for every entry
	if err != nil {
		m.Warn("the fold is not kept, and the next command reads the log again: %v", err)
	}
}
