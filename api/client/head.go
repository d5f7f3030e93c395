package client

import (
	"context"
	"errors"
	"net/http"

	"recoveryledger/api"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Accepted returns the largest accepted tree head. Its Note is empty if there is none. Pass the
// head to the next client as [Config].Accepted, so that the ledger cannot show that client
// another log.
func (c *Client) Accepted() verify.SignedHead {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted
}

// Head fetches the published tree head, with all its signatures, and accepts the head.
func (c *Client) Head(ctx context.Context) (verify.SignedHead, error) {
	r, err := c.do(ctx, call{method: http.MethodGet, path: api.PathCheckpoint, limit: verify.MaxNote, static: true})
	if err != nil {
		return verify.SignedHead{}, err
	}
	accepted, err := c.believe(ctx, string(r.body), nil)
	return verify.SignedHead{Head: accepted, Note: string(r.body)}, err
}

// accept opens a signed head and proves it consistent with the largest accepted head. The new
// head may become the largest. hint, if not nil, may have the proof.
func (c *Client) accept(ctx context.Context, note string, hint *api.HeadEvent) (merkle.Head, error) {
	head, err := c.open(ctx, note, hint)
	if err != nil {
		return head, err
	}
	return head, c.settle(ctx, note)
}

func (c *Client) open(ctx context.Context, note string, hint *api.HeadEvent) (merkle.Head, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fork != nil {
		return merkle.Head{}, c.fork
	}
	if opened, ok := c.known[note]; ok {
		return opened, nil
	}
	opened, err := c.Root().Head([]byte(note))
	if err != nil {
		return merkle.Head{}, err
	}
	older, newer := c.accepted, verify.SignedHead{Head: opened, Note: note}
	if newer.Size < older.Size {
		older, newer = newer, older
	}
	if older.Note != "" && !c.proven(opened) {
		if err := c.consistent(ctx, older, newer, hint); err != nil {
			return merkle.Head{}, err
		}
	}
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.accepted, c.known[note] = newer, opened
	c.reached.Store(newer.Size)
	return opened, nil
}

// consistent proves that older is a prefix of newer. A node that has not reached newer, or gives a
// false proof, proves nothing, and convicts nobody.
func (c *Client) consistent(ctx context.Context, older, newer verify.SignedHead, hint *api.HeadEvent) error {
	if older.Head == newer.Head {
		return nil
	}
	if err := older.CheckFork(newer); err != nil {
		c.fork = err
		return err
	}
	if hint != nil && hint.Previous == older.Size && hint.Head == newer.Note &&
		merkle.CheckConsistency(older.Head, newer.Head, hint.Path) == nil {
		return nil
	}
	path, err := c.consistency(ctx, older.Size, newer.Size)
	if stale := c.unreached(older, newer, err); stale != nil {
		return stale
	}
	if err != nil {
		return err
	}
	if err := merkle.CheckConsistency(older.Head, newer.Head, path); err != nil {
		return c.contradicted(ctx, older, newer, err)
	}
	return nil
}

func (c *Client) consistency(ctx context.Context, older, newer uint64) ([]merkle.Hash, error) {
	proof, err := fetch[verify.Consistency](ctx, c, call{
		method: http.MethodGet, path: api.URL(api.PathConsistency, nil, older, newer), limit: maxValue, least: newer,
	})
	if errors.Is(err, ErrNotServed) {
		return merkle.ProveConsistency(older, newer, c.nodes(ctx, newer))
	}
	if err == nil && (proof.Old != older || proof.New != newer) {
		err = malformed("a proof from %d to %d in the place of one from %d to %d", proof.Old, proof.New, older, newer)
	}
	if err != nil {
		return nil, err
	}
	return proof.Path, nil
}

// nodes returns a reader of the nodes of the tree of a size, from tiles. The nodes are not
// checked: a proof made from them must be.
func (c *Client) nodes(ctx context.Context, size uint64) merkle.NodeReader {
	return merkle.TileReader(size, func(tile merkle.Tile) ([]byte, error) {
		data, err := c.Tile(ctx, tile)
		if err == nil && len(data) != tile.Width*merkle.HashSize {
			err = malformed("%s has %d bytes, want %d hashes", tile.Path(), len(data), tile.Width)
		}
		return data, err
	})
}

// Consistency returns the proof that the log of an older signed head is a prefix of the log of a
// newer head, both under the pinned root. If the node gives a false proof, the error is a
// [*verify.ForkError] where the ledger's own signatures convict it, and otherwise an
// [ErrMalformed].
func (c *Client) Consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error) {
	proof := verify.ConsistencyProof{Older: older, Newer: newer}
	a, err := c.Root().Head([]byte(older))
	if err != nil {
		return proof, err
	}
	b, err := c.Root().Head([]byte(newer))
	if err != nil {
		return proof, err
	}
	if proof.Path, err = c.consistency(ctx, a.Size, b.Size); err != nil {
		return proof, err
	}
	_, _, err = c.Root().Consistency(proof)
	if step, ok := errors.AsType[*verify.StepError](err); ok && step.Step == verify.StepConsistency {
		c.mu.Lock()
		defer c.mu.Unlock()
		err = c.contradicted(ctx, verify.SignedHead{Head: a, Note: older}, verify.SignedHead{Head: b, Note: newer}, err)
	}
	return proof, err
}
