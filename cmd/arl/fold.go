package main

import (
	"context"
	"fmt"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/coord"
	"recoveryledger/merkle"
)

// folded is what follows from a whole log, derived here: every entry was held to
// the rules of registration, and all of them to the signed tree head.
type folded struct {
	coord.AuditReport
	head client.Head
	now  int64 // the ledger's clock as far as it is known, Unix milliseconds
}

// fold derives the state of a log from its entries. An entry that should not be
// there, and a log that is not the one under its head, is an inconsistency.
// see, if not nil, is told of every entry.
func (a *app) fold(ctx context.Context, l *openLog, name string, see func(coord.AuditEntry)) (*folded, error) {
	head, err := l.head(ctx)
	if err != nil {
		return nil, err
	}
	tree, err := merkle.NewFrontier(0, nil)
	if err != nil {
		return nil, err
	}
	f := &folded{head: head, now: time.Now().Add(l.skew()).UnixMilli()}
	entries := func(yield func(coord.AuditEntry, error) bool) {
		for e, err := range auditEntries(ctx, l, head.Size, tree) {
			f.now = max(f.now, e.At)
			if see != nil && err == nil {
				see(e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	tell, end := a.progress(name)
	f.AuditReport, err = coord.Audit(ctx, l.root.Origin, entries, func(done uint64) { tell(done, head.Size) })
	end()
	if err != nil {
		return nil, err
	}
	computed, err := tree.Head()
	if err != nil {
		return nil, err
	}
	if found := f.Finding; found != nil {
		receipt, err := accuse(ctx, l, &head, found.Index, computed)
		if err != nil {
			return nil, err
		}
		err = fmt.Errorf("entry %d should not be in the log: %w", found.Index, found.Refusal)
		return nil, &inconsistency{"audit", auditEvidence{found.Index, string(found.Refusal.Problem), found.Refusal.Field, found.Refusal.Detail, *receipt}, err}
	}
	if computed != head.Head {
		err := fmt.Errorf("the entries of the log have the root %s, its signed tree head of size %d has %s", computed.Root, head.Size, head.Root)
		return nil, &inconsistency{"audit", forkEvidence{err.Error(), head.Note, ""}, err}
	}
	root := l.root.Follow(f.State.Chain())
	if root.Since == l.root.Since {
		return f, nil
	}
	if _, err := root.Head([]byte(head.Note)); err != nil {
		return nil, err
	}
	return f, a.keepRoot(root)
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
