package witness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"recoveryledger/merkle"
)

// Pushed is a log to which a witness pushes its cosignatures, since the log cannot ask it.
type Pushed interface {
	// Round returns the head that the log wants cosigned, signed, and the consistency proof
	// from a size, 0 for none. It waits for a larger head as long as the log likes.
	Round(ctx context.Context, from uint64) (signed string, path []merkle.Hash, err error)
	// Push takes a head with cosignatures.
	Push(ctx context.Context, signed string) error
}

// PushTo cosigns what a log wants cosigned, again and again until ctx ends; then it
// returns nil. The checks are those of [Witness.Cosign]. told is called after each round,
// with the size of the head or with what went wrong. Any other error is [ErrUnknownLog],
// [ErrClosed], or [ErrProof]: the log is not the one that was cosigned before.
func (w *Witness) PushTo(ctx context.Context, origin string, to Pushed, told func(size uint64, err error)) error {
	if _, known := w.logs[origin]; !known {
		return fmt.Errorf("%w: %.140q", ErrUnknownLog, origin)
	}
	for pause := time.Duration(0); ctx.Err() == nil; {
		size, err := w.pushOnce(ctx, origin, to)
		if ctx.Err() != nil {
			break // the end, whatever the error of the round
		}
		told(size, err)
		switch {
		case errors.Is(err, ErrProof), errors.Is(err, ErrClosed):
			return err
		case err == nil:
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstPause), longestPause)
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
	return nil //nolint:nilerr // the end was asked for, whatever the last round said
}

func (w *Witness) pushOnce(ctx context.Context, origin string, to Pushed) (size uint64, err error) {
	w.mu.Lock()
	before, err := w.newest(origin)
	w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	signed, path, err := to.Round(ctx, before.Size)
	if err != nil {
		return 0, err
	}
	lines, err := w.Cosign(&Request{Old: before.Size, Proof: path, Note: signed})
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(signed, "\n\n")
	if err := to.Push(ctx, text+"\n\n"+lines); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	head, err := w.newest(origin)
	return head.Size, err
}
