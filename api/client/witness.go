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
	// witnessWait is the time that a ledger has to publish a cosigned head that covers the
	// head that it has just shown.
	witnessWait  = 3 * time.Second
	witnessAgain = 100 * time.Millisecond
)

// believe accepts a head. If the root names witnesses, believe checks their cosignatures too.
func (c *Client) believe(ctx context.Context, note string, hint *api.HeadEvent) (merkle.Head, error) {
	head, err := c.accept(ctx, note, hint)
	if err != nil || !c.Root().Watched() {
		return head, err
	}
	return head, c.checkWitnessed(ctx, head, note)
}

// Cosigned returns the largest accepted tree head that the witnesses of the root have cosigned.
// Its Note is empty if there is none.
func (c *Client) Cosigned() verify.SignedHead {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cosigned
}

// checkWitnessed returns nil if the witnesses have cosigned an accepted head, or another head
// that covers it. All accepted heads are of one log. A receipt may carry a head that no witness
// has seen yet, so checkWitnessed asks for the published head until that covers the other.
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

// noteWitnessed remembers a head that the witnesses have cosigned. The error says that they have
// not cosigned it.
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

// Round returns the head that the ledger offers for cosignatures to witnesses that push. path is
// the consistency proof from the size of the head cosigned last, or none if from is 0. Round
// waits a while for a larger head. It checks nothing: that is for the witness.
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
