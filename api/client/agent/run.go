package agent

import (
	"context"
	"time"

	"recoveryledger/api/client"
)

// Waiter waits for news of the ledger.
type Waiter interface {
	// Wait returns when the ledger may have something new for the agent since the
	// last call, or has failed, and no later than after limit.
	Wait(ctx context.Context, limit time.Duration) error
}

// Run steps until ctx ends, which is no error, or the agent has stopped. It
// waits by long poll in between, and no longer than a step wants.
func Run(ctx context.Context, a *Agent, w Waiter) error {
	failures := wait{}
	for ctx.Err() == nil {
		now := time.Now().UnixMilli()
		next, err := a.Step(ctx, now)
		if err != nil {
			return err
		}
		if next <= now {
			continue
		}
		limit := time.Duration(next-now) * time.Millisecond
		began := time.Now()
		if err := w.Wait(ctx, limit); err != nil && ctx.Err() == nil {
			failures.failed(0, 0)
			a.cfg.Tell(Event{Kind: EventRetry, Text: "wait for commands", Err: err})
			_ = client.Pause(ctx, min(limit, time.Duration(failures.till)*time.Millisecond)) // the loop asks ctx
			continue
		}
		failures = wait{}
		if time.Since(began) < limit {
			a.Poke()
		}
	}
	return nil
}
