package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// ErrBehind reports a tree head of which not all entries have been audited yet. The audit
// goes on meanwhile.
var ErrBehind = errors.New("audit: not all entries below the tree head have been audited yet")

// gatePatience is how long a question waits for the audit: less than a ledger waits for
// a witness.
const gatePatience = 3 * time.Second

// gateGrowth is by which part of itself a log must have grown for its fold to be kept
// again.
const gateGrowth = 256

// Gate audits a log up to the tree heads that it is asked about. An auditing cosigner
// asks it before it cosigns a head. It is safe for concurrent use.
type Gate struct {
	// Source is the log, and Root what is pinned of it. Mandatory.
	Source Source
	Root   verify.Root
	// Place keeps the fold, so that a new process need not read the whole log again.
	Place Place
	// Found is told of what contradicts the ledger's signature, a [*FindingError] or an
	// [*IndexError], once: nothing passes afterwards. Failed is told of what costs time
	// only. Neither may be nil.
	Found, Failed func(error)

	mu       sync.Mutex
	running  *attempt    // nil: no audit is under way
	follower *Follower   // nil: not loaded, or not to be believed
	done     merkle.Head // of the follower
	kept     uint64      // entries of the fold in the file
	wrong    error       // what was found
}

// attempt is an audit under way.
type attempt struct {
	over chan struct{} // closed when it ends
	err  error         // by then
}

// Pass returns nil if every entry under a signed tree head was audited, and the head is
// that of those entries. Else the error is [ErrBehind], what was found against the
// ledger, or that of the head's signature.
func (g *Gate) Pass(ctx context.Context, signed string) error {
	ctx, over := context.WithTimeout(ctx, gatePatience)
	defer over()
	for {
		g.mu.Lock()
		head, err := g.open(signed)
		switch {
		case err != nil, g.wrong != nil:
			g.mu.Unlock()
			return errors.Join(err, g.wrong)
		case g.running == nil && g.follower != nil && g.done.Size >= head.Size:
			err := g.compare(head)
			g.mu.Unlock()
			return err
		case g.running == nil:
			g.running = &attempt{over: make(chan struct{})}
			go g.audit(head)
		}
		running := g.running
		g.mu.Unlock()
		select {
		case <-running.over:
			if running.err != nil {
				return running.err
			}
		case <-ctx.Done():
			return ErrBehind
		}
	}
}

// open opens a head by the keys that the policies name which were audited.
func (g *Gate) open(signed string) (verify.SignedHead, error) {
	root := g.Root
	if g.follower != nil && g.running == nil { // nobody changes it
		root = root.Follow(g.follower.State().Chain())
	}
	head, err := root.Head([]byte(signed))
	return verify.SignedHead{Head: head, Note: signed}, err
}

// compare holds a head to the entries that were audited.
func (g *Gate) compare(head verify.SignedHead) error {
	was, err := HeadAt(g.follower.State(), head.Size)
	if err == nil && was != head.Head {
		err = &RootError{Head: head, Detail: otherRoot(was, head)}
	}
	return err
}

// audit brings the fold to a head. It goes on when nobody waits any more.
func (g *Gate) audit(head verify.SignedHead) {
	follower, err := g.follower, error(nil)
	if follower == nil {
		follower = g.load()
	}
	if follower.State().Size() < head.Size {
		follower, _, err = Run(context.Background(), g.Source, g.Root, head, Config{From: follower})
	}
	var size uint64
	if err == nil {
		size = follower.State().Size()
	}
	if err == nil && (g.kept == 0 || size-g.kept > g.kept/gateGrowth) {
		if failed := g.Place.Save(&Kept{Follower: follower, Head: head, At: time.Now().UnixMilli()}); failed != nil {
			g.Failed(fmt.Errorf("the audit is not kept, and a new process reads the log again: %w", failed))
		} else {
			g.kept = size
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.follower = follower
		g.done, err = HeadAt(follower.State(), size)
	}
	g.running.err = err
	close(g.running.over)
	if g.running = nil; err == nil {
		return
	}
	g.follower, g.kept = nil, 0 // it may have entries that no head has shown to be those of the log
	if convicts(err) {
		g.wrong = err
		g.Found(err)
		return
	}
	g.Failed(err)
}

// load returns the fold that was kept, or that of the empty log.
func (g *Gate) load() *Follower {
	kept, err := g.Place.Load()
	if err != nil {
		g.Failed(fmt.Errorf("the audit that was kept is not used, and the log is read from its first entry: %w", err))
	}
	if kept == nil {
		return NewFollower(g.Root.Origin)
	}
	g.kept = kept.Head.Size
	return kept.Follower
}

// convicts reports whether an audit ended with evidence against the ledger. Leaves that
// are not those of the head may be the fault of who carries them.
func convicts(err error) bool {
	_, entry := errors.AsType[*FindingError](err)
	_, index := errors.AsType[*IndexError](err)
	return entry || index
}
