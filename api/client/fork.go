package client

import (
	"context"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// proven reports whether a head was proven to be of the accepted log. The caller holds mu.
func (c *Client) proven(head merkle.Head) bool {
	for _, known := range c.known {
		if known == head {
			return true
		}
	}
	return false
}

// contradicted returns the error for a false proof that newer continues older. The proof is the
// node's word, so the error is a [*verify.ForkError] only if what the ledger has signed contradicts
// itself: newer began otherwise, or the newest head at the node is not of the accepted log. Else it
// is an [ErrMalformed]. The caller holds mu.
func (c *Client) contradicted(ctx context.Context, older, newer verify.SignedHead, cause error) error {
	fork := c.beganOtherwise(ctx, older, newer)
	if fork == nil && newer.Note == c.accepted.Note {
		fork = c.newestContradicts(ctx)
	}
	if fork != nil {
		c.fork = fork
		return fork
	}
	return malformed("a false proof that the log of size %d continues that of size %d: %v", newer.Size, older.Size, cause)
}

// newestContradicts compares the newest head at the node, which a receipt carries, with the
// accepted one. It returns nil if the two may be of one log.
func (c *Client) newestContradicts(ctx context.Context) error {
	receipt, err := c.fetchReceipt(ctx, 0)
	if err != nil {
		return nil //nolint:nilerr // nothing was shown
	}
	head, err := c.Root().Head([]byte(receipt.Head))
	if err != nil || head.Size < c.accepted.Size {
		return nil //nolint:nilerr // nothing was shown
	}
	newest := verify.SignedHead{Head: head, Note: receipt.Head}
	if err := c.accepted.CheckFork(newest); err != nil {
		return err
	}
	return c.beganOtherwise(ctx, c.accepted, newest)
}

// beganOtherwise returns a [*verify.ForkError] if the tiles show, by the signed root of newer, that
// its tree has another root at the size of older. It returns nil if they do not show that.
func (c *Client) beganOtherwise(ctx context.Context, older, newer verify.SignedHead) error {
	if fork := verify.BeganOtherwise(older, newer, c.nodes(ctx, newer.Size)); fork != nil {
		return fork
	}
	return nil
}
