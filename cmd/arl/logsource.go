package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// logSource is where a log is looked at: a server or a stopped ledger.
type logSource interface {
	// head returns the newest tree head there is, and published the newest with
	// all signatures. Both are signed by the pinned keys and continue the head
	// that was accepted before.
	head(ctx context.Context) (client.Head, error)
	published(ctx context.Context) (client.Head, error)
	// receipt returns a verified receipt.
	receipt(ctx context.Context, index uint64) (*verify.Receipt, error)
	// tile returns bytes that count for nothing until they are hashed into a
	// head.
	tile(ctx context.Context, t merkle.Tile) ([]byte, error)
}

// openLog is a log under what is pinned of it.
type openLog struct {
	logSource
	registry registry // of the same log
	root     verify.Root
	before   *headInfo // accepted before this command; nil: none
}

// withLog opens the log that the flags name, for as long as use takes.
func (a *app) withLog(ctx context.Context, o *logOptions, use func(*openLog) error) error {
	if o.data == "" {
		return a.withConnection(ctx, &o.target, func(c *connection) error { return use(c.openLog()) })
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
		l := &openLog{logSource: source, registry: n, root: source.root}
		if source.known != nil {
			l.before = &headInfo{source.known.Size, source.known.Root}
		}
		err = use(l)
	}
	return errors.Join(err, n.log.Close())
}

func (c *connection) openLog() *openLog { return &openLog{c, c, c.root, c.before} }

// head is that of a new receipt where the published one, which is up to a second
// behind, is older.
func (c *connection) head(ctx context.Context) (client.Head, error) {
	published, err := c.client.Head(ctx)
	if err != nil {
		return client.Head{}, err
	}
	if err := c.catchUp(ctx); err != nil {
		return client.Head{}, err
	}
	if cosigned := c.client.Cosigned(); cosigned.Note != "" {
		return cosigned, nil // which covers all that was shown
	}
	if accepted := c.client.Accepted(); accepted.Size > published.Size {
		return accepted, nil
	}
	return published, nil
}

// catchUp accepts the newest tree head there is: receipts carry it. Where there
// are none, in a mirror of an export, the published one is the newest.
func (c *connection) catchUp(ctx context.Context) error {
	_, err := c.client.Receipt(ctx, 0)
	if problemName(err) == entry.NotFound || errors.Is(err, client.ErrNotServed) { // or the log is empty
		return nil
	}
	return err
}

// publishWait is how long a ledger may take to publish what it has registered;
// a mirror may take longer.
const publishWait = 2 * time.Second

// published waits for what was registered when it was called.
func (c *connection) published(ctx context.Context) (client.Head, error) {
	if err := c.catchUp(ctx); err != nil {
		return client.Head{}, err
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
			return client.Head{}, ctx.Err()
		}
	}
}

func (c *connection) receipt(ctx context.Context, index uint64) (*verify.Receipt, error) {
	return c.client.Receipt(ctx, index)
}

func (c *connection) tile(ctx context.Context, t merkle.Tile) ([]byte, error) {
	return c.client.Tile(ctx, t)
}

// nodeSource is a stopped ledger, opened in place.
type nodeSource struct {
	app   *app
	node  *node
	root  verify.Root
	known *client.Head // accepted before; nil: none
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

func (s *nodeSource) head(ctx context.Context) (client.Head, error) { return s.published(ctx) }

func (s *nodeSource) published(context.Context) (client.Head, error) {
	published, err := s.node.log.Published()
	if err != nil {
		return client.Head{}, err
	}
	head := client.Head{Head: published.Head, Note: published.Note}
	if _, err := s.root.Witnessed(head.Note); err != nil {
		return head, err
	}
	if s.known != nil {
		if err := s.continues(head); err != nil {
			return head, err
		}
	}
	return head, s.app.saveHead(s.root.Origin, head.Note)
}

// continues proves that the head continues the one accepted before. That it
// does not is evidence.
func (s *nodeSource) continues(head client.Head) error {
	path, err := s.node.log.Consistency(s.known.Size, head.Size)
	if err == nil {
		err = merkle.CheckConsistency(s.known.Head, head.Head, path)
	}
	if errors.Is(err, merkle.ErrProof) || errors.Is(err, ledger.ErrNotFound) {
		return &verify.ForkError{First: s.known.Note, Second: head.Note,
			Detail: fmt.Sprintf("the log of %d entries here, root %s, does not continue that of %d, root %s, accepted before: %v",
				head.Size, head.Root, s.known.Size, s.known.Root, err)}
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

func (s *nodeSource) tile(_ context.Context, t merkle.Tile) ([]byte, error) {
	return s.node.log.Tile(t)
}

// leaves reads the leaves of a log from its entry bundles.
func leaves(ctx context.Context, src logSource, size uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for index := uint64(0); index*merkle.TileWidth < size; index++ {
			width := min(size-index*merkle.TileWidth, merkle.TileWidth)
			tile := merkle.Tile{Entries: true, Index: index, Width: int(width)}
			bundle, err := src.tile(ctx, tile)
			for range width {
				var leaf []byte
				if err == nil {
					leaf, bundle, err = cutLeaf(bundle)
				}
				if !yield(leaf, err) || err != nil {
					return
				}
			}
			if len(bundle) > 0 {
				yield(nil, fmt.Errorf("%w: %s has %d bytes too many", ledger.ErrCorrupt, tile.Path(), len(bundle)))
				return
			}
		}
	}
}

// cutLeaf cuts the first leaf off a bundle: its length in two bytes, then it.
func cutLeaf(bundle []byte) (leaf, rest []byte, err error) {
	if len(bundle) < 2 || len(bundle)-2 < int(binary.BigEndian.Uint16(bundle)) {
		return nil, nil, fmt.Errorf("%w: an entry bundle ends too early", ledger.ErrCorrupt)
	}
	end := 2 + int(binary.BigEndian.Uint16(bundle))
	return bundle[2:end], bundle[end:], nil
}
