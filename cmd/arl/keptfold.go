package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"recoveryledger/coord/audit"
	"recoveryledger/verify"
)

// foldGrowth is by which part of itself a log must have grown for its fold to be
// written again: entries are cheaper to fold again than all of it to write.
const foldGrowth = 256

// keptIn is where the fold of a log is kept on this machine.
func (a *app) keptIn(root verify.Root) (audit.Place, error) {
	home, err := a.homeDir()
	return audit.Place{Path: filepath.Join(home, "folds", profileName(root.Origin)+".fold"), Root: root}, err
}

// resume begins a fold with what is kept, if the log under the head continues
// it. A log that contradicts what is kept is a fork.
func (a *app) resume(ctx context.Context, l *openLog, f *folded) error {
	place, err := a.keptIn(l.root)
	if err != nil {
		return err
	}
	kept, err := place.Load()
	if err == nil && kept != nil && kept.Head.Size < f.head.Size {
		err = l.consistent(ctx, kept.Head, f.head)
		if _, proven := errors.AsType[*verify.StepError](err); err != nil && !proven {
			return err
		}
	}
	if err != nil {
		a.warn("the fold in %s is not used, and the log is read from its first entry: %v", place.Path, err)
		return nil
	}
	if kept == nil {
		return nil
	}
	if kept.Head.Size >= f.head.Size {
		err = kept.PrecededBy(f.head)
	}
	if f.passing = kept.Head.Size > f.head.Size; !f.passing {
		f.before, f.follower = kept, kept.Follower
	}
	return err
}

// keep keeps a fold that was verified, if it is by enough more than what is
// kept. That it cannot be kept costs time, no answer.
func (a *app) keep(l *openLog, f *folded) {
	if f.passing || f.Size == 0 || f.before != nil && f.Size-f.before.Head.Size <= f.before.Head.Size/foldGrowth {
		return
	}
	place, err := a.keptIn(l.root)
	if err == nil {
		err = place.Save(&audit.Kept{Follower: f.follower, Head: f.head, At: time.Now().UnixMilli()})
	}
	if err != nil {
		a.warn("the fold is not kept, so that the next command reads the log again: %v", err)
	}
}
