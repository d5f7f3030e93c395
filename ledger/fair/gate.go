// Package fair shares scarce resources among senders, so that the flood of one sender costs the
// others little. A [Gate] lets keys take turns at signature checks. [Lanes] slow down senders that
// are refused again and again.
package fair

import (
	"context"
	"runtime"
	"sync"

	"recoveryledger/ledger/entry"
)

// Gate lets twice as many signature checks run as there are processors, and shares
// them fairly among the keys that entries claim: each key has a bounded queue
// of its own, and the queues take turns. A flood under one key costs the others
// one turn each round.
type Gate struct {
	mu      sync.Mutex
	free    int // checks that may start now
	waiting int
	queues  map[string]*keyQueue
	turns   []*keyQueue // queues that are not empty, in the order of their turns
}

type keyQueue struct {
	key     string
	waiters []chan struct{}
}

// NewGate returns a gate without waiting checks.
func NewGate() *Gate {
	return &Gate{free: 2 * runtime.GOMAXPROCS(0), queues: map[string]*keyQueue{}}
}

// Acquire waits for the key's turn. The error is rate-limited if too many wait,
// or that of ctx.
func (g *Gate) Acquire(ctx context.Context, key string) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	q := g.queues[key]
	if q == nil {
		q = &keyQueue{key: key}
	}
	if g.waiting >= maxWaiting || len(q.waiters) >= MaxPerKey {
		g.mu.Unlock()
		return overloaded("signature checks wait")
	}
	if len(q.waiters) == 0 {
		g.queues[key] = q
		g.turns = append(g.turns, q)
	}
	turn := make(chan struct{})
	q.waiters = append(q.waiters, turn)
	g.waiting++
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		go func() { // the turn comes all the same; pass it on
			<-turn
			g.Release()
		}()
		return ctx.Err()
	}
}

// Release gives the place to the next key's oldest waiter.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) == 0 {
		g.free++
		return
	}
	q := g.turns[0]
	g.turns = g.turns[1:]
	turn := q.waiters[0]
	q.waiters = q.waiters[1:]
	if len(q.waiters) > 0 {
		g.turns = append(g.turns, q)
	} else {
		delete(g.queues, q.key)
	}
	g.waiting--
	close(turn)
}

func overloaded(what string) *entry.Refusal {
	refusal := entry.Refuse(entry.RateLimited, "", "too many %s", what)
	refusal.RetryAfterMS = 1000
	return refusal
}
