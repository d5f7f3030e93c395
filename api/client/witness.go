package client

import (
	"context"
	"net/http"
	"time"

	"recoveryledger/api"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

const (
	// witnessWait is how long a ledger may take to publish a head, with its
	// cosignatures, that covers what it has just shown.
	witnessWait  = 3 * time.Second
	witnessAgain = 100 * time.Millisecond
)

// believe accepts a head and, where the root names witnesses, holds it to them.
func (c *Client) believe(ctx context.Context, note string, hint *api.HeadEvent) (merkle.Head, error) {
	head, err := c.accept(ctx, note, hint)
	if err != nil || !c.Root().Watched() {
		return head, err
	}
	return head, c.checkWitnessed(ctx, head, note)
}

// Cosigned returns the largest tree head that was accepted and that the witnesses
// have cosigned whom the root names; its Note is empty if there is none.
func (c *Client) Cosigned() verify.SignedHead {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cosigned
}

// checkWitnessed reports nil if the witnesses have cosigned an accepted head, or another
// one that covers it: all accepted heads are of one log. Receipts carry heads that
// no witness has seen yet, so that the published head is asked for until it covers
// them.
func (c *Client) checkWitnessed(ctx context.Context, wanted merkle.Head, note string) error {
	if c.Cosigned().Size >= wanted.Size && c.Cosigned().Note != "" {
		return nil
	}
	lacking := c.noteWitnessed(wanted, note)
	if lacking == nil {
		return nil
	}
	again := time.NewTicker(witnessAgain)
	defer again.Stop()
	for deadline := time.Now().Add(witnessWait); ; {
		r, err := c.do(ctx, call{method: http.MethodGet, path: api.PathCheckpoint, limit: verify.MaxNote, static: true})
		if err != nil {
			return err
		}
		published, err := c.accept(ctx, string(r.body), nil)
		if err != nil {
			return err
		}
		covers := published.Size >= wanted.Size
		if c.noteWitnessed(published, string(r.body)) == nil && covers {
			return nil
		}
		if covers || time.Now().After(deadline) {
			return lacking
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noteWitnessed remembers a head that the witnesses have cosigned; the error says that
// they have not.
func (c *Client) noteWitnessed(accepted merkle.Head, note string) error {
	if _, err := c.Root().Witnessed(note); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if accepted.Size >= c.cosigned.Size {
		c.cosigned = verify.SignedHead{Head: accepted, Note: note}
	}
	return nil
}

// roundWait is how long a ledger may wait for a larger head to cosign.
const roundWait = 20 * time.Second

// Round returns the head that the ledger wants cosigned by witnesses that push, and the
// consistency proof from the size of the head that was cosigned last; 0: none. It waits a
// while for a larger head. Nothing is checked: that is for the witness.
func (c *Client) Round(ctx context.Context, from uint64) (signed string, path []merkle.Hash, err error) {
	round, err := get[api.Round](ctx, c, api.URL(api.PathRound, &api.RoundQuery{From: from, Wait: roundWait}), maxValue)
	if err != nil {
		return "", nil, err
	}
	return round.Head, round.Path, nil
}

// Push gives the ledger a tree head with the cosignatures of a witness.
func (c *Client) Push(ctx context.Context, signed string) error {
	_, err := c.once(ctx, call{method: http.MethodPost, path: api.PathCosign, mediaType: api.MediaNote, body: []byte(signed), limit: maxValue})
	return err
}
