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

// ErrBehind reports a tree head whose entries have not all been audited yet. The audit goes on
// meanwhile.
var ErrBehind = errors.New("audit: not all entries below the tree head have been audited yet")

// gatePatience is how long a call of Pass waits for the audit. A ledger waits longer for a witness.
const gatePatience = 3 * time.Second

// gateGrowth says when the fold is kept again: the log must have grown by more than this fraction
// (one part in gateGrowth) of its size.
const gateGrowth = 256

// Gate audits a log up to the tree heads that are passed to it. An auditing cosigner calls
// [Gate.Pass] before it cosigns a head. A gate is safe for concurrent use.
type Gate struct {
	// Source is the log. Root is the pinned root of the log. Both are mandatory.
	Source Source
	Root   verify.Root
	// Place keeps the fold, so that a new process need not read the whole log again.
	Place Place
	// Found is called once with an error that convicts the ledger: a [*FindingError] or an
	// [*IndexError]. Afterwards no head passes. Failed is called with an error that only costs
	// time. Neither may be nil.
	Found, Failed func(error)

	mu       sync.Mutex
	running  *attempt    // nil: no audit is under way
	follower *Follower   // nil: not loaded, or not to be believed
	done     merkle.Head // of the follower
	kept     uint64      // entries of the fold in the file
	wrong    error       // the error that Found got
}

// attempt is an audit under way.
type attempt struct {
	over chan struct{} // closed when it ends
	err  error         // set when over is closed
}

// Pass returns nil if every entry under a signed tree head was audited, and the head is the head
// of these entries. Else the error is [ErrBehind], the finding against the ledger, or the error of
// the head's signature.
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

// open opens a head by the keys that the audited policies name.
func (g *Gate) open(signed string) (verify.SignedHead, error) {
	root := g.Root
	if g.follower != nil && g.running == nil { // no audit changes the follower
		root = root.Follow(g.follower.State().Chain())
	}
	head, err := root.Head([]byte(signed))
	return verify.SignedHead{Head: head, Note: signed}, err
}

// compare compares a head with the audited entries.
func (g *Gate) compare(head verify.SignedHead) error {
	was, err := HeadAt(g.follower.State(), head.Size)
	if err == nil && was != head.Head {
		err = &RootError{Head: head, Detail: otherRoot(was, head)}
	}
	return err
}

// audit brings the fold to a head. It goes on even if no call of Pass waits any more.
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
	g.follower, g.kept = nil, 0 // it may have entries that no signed head has confirmed
	// Whoever asks the gate compares the tree heads that it is shown by itself.
	if e := Evidence(err); e != nil && e.Kind != verify.EvidenceFork {
		g.wrong = err
		g.Found(err)
		return
	}
	g.Failed(err)
}

// load returns the kept fold, or the fold of the empty log.
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
