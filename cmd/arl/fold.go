package main

import (
	"context"
	"errors"
	"time"

	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// folded is what follows from a whole log, derived here: every entry was held to
// the rules of registration, and all of them to the signed tree head.
type folded struct {
	coord.AuditReport
	follower *coord.Follower
	head     verify.SignedHead
	now      int64 // the ledger's clock as far as it is known, Unix milliseconds

	// before is the fold that was kept, and gone on from; nil: the log was read
	// from its first entry. passing says that what is kept is of a longer log, so
	// that this fold does not take its place.
	before  *audit.Kept
	passing bool
}

// fold derives the state of a log from its entries, from those on that are not
// in the fold which is kept. An entry that should not be there, and a log that is
// not the one under its head, is an inconsistency. see, if not nil, is told of
// every entry, which are all read then.
func (a *app) fold(ctx context.Context, l *openLog, name string, see func(entry.Registered)) (*folded, error) {
	head, err := l.head(ctx)
	if err != nil {
		return nil, err
	}
	f := &folded{head: head, follower: coord.NewFollower(l.root.Origin)}
	if l.kept == useKept && see == nil {
		if err := a.resume(ctx, l, f); err != nil {
			return nil, err
		}
	}
	if err := a.follow(ctx, l, f, name, see); err != nil {
		return nil, err
	}
	if root := l.root.Follow(f.State.Chain()); root.Since != l.root.Since {
		if _, err := root.Head([]byte(head.Note)); err != nil {
			return nil, err
		}
		if err := a.keepRoot(root); err != nil {
			return nil, err
		}
	}
	if l.kept != ignoreKept && see == nil {
		a.keep(l, f)
	}
	return f, nil
}

// follow reads what the fold has not taken up yet, and holds all of it to the
// head.
func (a *app) follow(ctx context.Context, l *openLog, f *folded, name string, see func(entry.Registered)) error {
	tell, end := a.progress(name)
	var err error
	f.follower, f.AuditReport, err = audit.Run(ctx, l, l.root, f.head, audit.Config{From: f.follower, See: see, Progress: tell})
	end()
	if err != nil {
		return accused(err)
	}
	f.now = max(time.Now().Add(l.skew()).UnixMilli(), f.follower.RegisteredAt())
	return nil
}

// accused adds the evidence to what an audit found against the ledger.
func accused(err error) error {
	if found, ok := errors.AsType[*audit.FindingError](err); ok {
		return &inconsistency{"audit", auditEvidence{found.Index, string(found.Refusal.Problem), found.Refusal.Field, found.Refusal.Detail, found.Receipt}, err}
	}
	if other, ok := errors.AsType[*audit.RootError](err); ok {
		return &inconsistency{"audit", forkEvidence{other.Detail, other.Head.Note, ""}, err}
	}
	return err
}

// skew is how far the clock of the log's server is ahead of this machine's.
func (l *openLog) skew() time.Duration {
	if c, ok := l.logSource.(*connection); ok && c.clock.seen {
		return c.clock.skew
	}
	return 0
}

// withFold folds the log that the flags name, for as long as use takes.
func (a *app) withFold(ctx context.Context, o *logOptions, use func(l *openLog, f *folded) error) error {
	return a.withLog(ctx, o, func(l *openLog) error {
		f, err := a.fold(ctx, l, "read the log", nil)
		if err != nil {
			return err
		}
		return use(l, f)
	})
}
