package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recoveryledger/coord/audit"
	"recoveryledger/ledger"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// headSource is where tree heads come from.
type headSource interface {
	// head returns the newest tree head there is, and published the newest with
	// all signatures. Both are signed by the pinned keys and continue the head
	// that was accepted before.
	head(ctx context.Context) (verify.SignedHead, error)
	published(ctx context.Context) (verify.SignedHead, error)
}

// logSource is where a log is looked at: a server or a stopped ledger.
type logSource interface {
	headSource
	// receipt returns a verified receipt.
	receipt(ctx context.Context, index uint64) (*verify.Receipt, error)
	// consistent returns nil if the log of the newer head is proven to continue
	// that of the older one, and a [*verify.ForkError] if it is proven not to.
	consistent(ctx context.Context, older, newer verify.SignedHead) error
	audit.Source
}

// openLog is a log under what is pinned of it.
type openLog struct {
	logSource
	registry registry // of the same log
	root     verify.Root
	before   *merkle.Head // accepted before this command; nil: none
	kept     keptUse
}

// keptUse is what a command does with the fold that is kept of a log.
type keptUse int

const (
	useKept     keptUse = iota // go on from it, and keep the new one
	replaceKept                // derive it again, and keep it
	ignoreKept                 // neither read nor write it
)

// withLog opens the log that the flags name, for as long as use takes.
func (a *app) withLog(ctx context.Context, o *logOptions, use func(*openLog) error) error {
	if o.data == "" {
		return a.withConnection(ctx, &o.target, func(c *connection) error { return use(c.openLog(o)) })
	}
	if o.url != "" {
		return usage("--data and --url name two logs: pass one of them")
	}
	options := a.inPlace(o)
	options.looks = true
	n, err := openNode(options)
	if err != nil {
		return err
	}
	source, err := a.nodeSource(n, o.root)
	if err == nil {
		l := &openLog{logSource: source, registry: n, root: source.root, kept: o.keptUse()}
		if source.known != nil {
			l.before = &source.known.Head
		}
		err = use(l)
	}
	return errors.Join(err, n.log.Close())
}

func (c *connection) openLog(o *logOptions) *openLog {
	return &openLog{c, c, c.root, c.before, o.keptUse()}
}

// head is that of a new receipt where the published one, which is up to a second
// behind, is older.
func (c *connection) head(ctx context.Context) (verify.SignedHead, error) {
	published, err := c.client.Head(ctx)
	if err != nil {
		return verify.SignedHead{}, err
	}
	if err := c.client.CatchUp(ctx); err != nil {
		return verify.SignedHead{}, err
	}
	if cosigned := c.client.Cosigned(); cosigned.Note != "" {
		return cosigned, nil // which covers all that was shown
	}
	if accepted := c.client.Accepted(); accepted.Size > published.Size {
		return accepted, nil
	}
	return published, nil
}

// publishWait is how long a ledger may take to publish what it has registered;
// a mirror may take longer.
const publishWait = 2 * time.Second

// published waits for what was registered when it was called.
func (c *connection) published(ctx context.Context) (verify.SignedHead, error) {
	if err := c.client.CatchUp(ctx); err != nil {
		return verify.SignedHead{}, err
	}
	registered := c.client.Accepted().Size
	again := time.NewTicker(publishWait / 20)
	defer again.Stop()
	for deadline := time.Now().Add(publishWait); ; {
		head, err := c.client.Head(ctx)
		if err != nil || head.Size >= registered || time.Now().After(deadline) {
			return head, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return verify.SignedHead{}, ctx.Err()
		}
	}
}

func (c *connection) receipt(ctx context.Context, index uint64) (*verify.Receipt, error) {
	return c.client.Receipt(ctx, index)
}

func (c *connection) consistent(ctx context.Context, older, newer verify.SignedHead) error {
	_, err := c.client.Consistency(ctx, older.Note, newer.Note)
	if step, ok := errors.AsType[*verify.StepError](err); ok && step.Step == verify.StepConsistency {
		return discontinued(older, newer, err)
	}
	return err
}

// discontinued is that a log does not continue one that was seen before.
func discontinued(older, newer verify.SignedHead, cause error) error {
	return &verify.ForkError{First: older.Note, Second: newer.Note,
		Detail: fmt.Sprintf("the log of %d entries here, root %s, does not continue that of %d, root %s, accepted before: %v",
			newer.Size, newer.Root, older.Size, older.Root, cause)}
}

func (c *connection) Tile(ctx context.Context, t merkle.Tile) ([]byte, error) {
	return c.client.Tile(ctx, t)
}

// nodeSource is a stopped ledger, opened in place.
type nodeSource struct {
	app   *app
	node  *node
	root  verify.Root
	known *verify.SignedHead // accepted before; nil: none
}

// nodeSource pins the root in a file, or what the directory itself says.
func (a *app) nodeSource(n *node, rootFile string) (*nodeSource, error) {
	s := &nodeSource{app: a, node: n}
	root, err := n.root()
	s.root = withCosigner(root)
	if err == nil && rootFile != "" {
		s.root, err = a.readRoot(rootFile)
	}
	if err == nil {
		s.known, err = a.loadHead(s.root)
	}
	return s, err
}

func (s *nodeSource) head(ctx context.Context) (verify.SignedHead, error) { return s.published(ctx) }

func (s *nodeSource) published(ctx context.Context) (verify.SignedHead, error) {
	published, err := s.node.log.Published()
	if err != nil {
		return verify.SignedHead{}, err
	}
	head := published.SignedHead
	if _, err := s.root.Witnessed(head.Note); err != nil {
		return head, err
	}
	if s.known != nil {
		if err := s.consistent(ctx, *s.known, head); err != nil {
			return head, err
		}
	}
	return head, s.app.saveHead(s.root.Origin, head.Note)
}

func (s *nodeSource) consistent(_ context.Context, older, newer verify.SignedHead) error {
	return s.node.continues(older, newer)
}

// continues proves that the log of the newer head, which it has or had, continues
// that of the older one. That it does not is evidence.
func (n *node) continues(older, newer verify.SignedHead) error {
	path, err := n.log.Consistency(older.Size, newer.Size)
	if err == nil {
		err = merkle.CheckConsistency(older.Head, newer.Head, path)
	}
	if errors.Is(err, merkle.ErrProof) || errors.Is(err, ledger.ErrNotFound) {
		return discontinued(older, newer, err)
	}
	return err
}

func (s *nodeSource) receipt(_ context.Context, index uint64) (*verify.Receipt, error) {
	receipt, err := s.node.log.Receipt(index)
	if err != nil {
		return nil, err
	}
	_, err = s.root.Verify(verify.Material{Receipts: []verify.Receipt{*receipt}})
	return receipt, err
}

func (s *nodeSource) Tile(_ context.Context, t merkle.Tile) ([]byte, error) {
	return s.node.log.Tile(t)
}
