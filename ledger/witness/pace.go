package witness

import (
	"context"
	"slices"
	"sync"
	"time"

	"recoveryledger/verify"
)

// pace begins rounds until other terms hold, or ctx ends.
func (r *Rounds) pace(ctx context.Context, terms Terms) error {
	var began time.Time
	for ctx.Err() == nil {
		newest := r.cfg.Source.Newest()
		r.mu.Lock()
		r.refresh()
		if r.terms.Policy != terms.Policy || !slices.Equal(r.terms.Former, terms.Former) {
			r.mu.Unlock()
			return nil
		}
		changed, t, asks := r.changed, r.newest(), len(r.parties) > 0
		renew := began.Add(max(r.terms.MaxAge/freshens, slowest))
		due := began.Add(r.cfg.Every)
		hurry := r.waiting > max(t.head.Size, r.inForce().head.Size) && newest.Size > t.head.Size
		// A round in which the quorum may not come any more gives way to the next one.
		running := t.number > 0 && !t.done && !t.behind && time.Since(began) < answerTime
		grown := newest.Size > t.head.Size
		r.mu.Unlock()
		switch {
		case !asks:
			due = time.Now().Add(look)
		case !running && time.Until(renew) <= 0, !running && grown && (time.Until(due) <= 0 || hurry && r.urgent.Allow()):
			began = time.Now()
			r.begin(r.target(newest))
			continue
		case running, !grown:
			due = time.Now().Add(look)
		}
		if limit := time.Now().Add(look); due.After(limit) {
			due = limit
		}
		if asks && !running && renew.Before(due) {
			due = renew
		}
		r.pause(ctx, changed, due, !running && asks && !grown, newest.Size+1)
	}
	return nil
}

// newest returns the newest round as it is; its number is 0 if there is none. Its caller
// holds the mutex.
func (r *Rounds) newest() round {
	if len(r.recent) == 0 {
		return round{}
	}
	return *r.recent[len(r.recent)-1]
}

// pause returns at an instant, when something changes, when ctx ends, or, if growth is
// waited for, when the log has a size.
func (r *Rounds) pause(ctx context.Context, changed <-chan struct{}, until time.Time, growth bool, size uint64) {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	var waiting sync.WaitGroup
	if growth {
		waiting.Go(func() {
			if r.cfg.Source.Wait(ctx, size) == nil {
				stop()
			}
		})
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
	stop()
	waiting.Wait()
}

// target returns the head of the next round, without its number (WIT-2).
func (r *Rounds) target(newest verify.SignedHead) *round {
	r.mu.Lock()
	last, waiting, near := r.newest().head.Size, r.waiting, r.near > max(r.inForce().aligned.head.Size, r.inForce().head.Size)
	r.mu.Unlock()
	if r.cfg.Aligned != nil {
		if head, ok := r.cfg.Aligned(last); ok && head.Size <= newest.Size && (near || head.Size >= waiting) {
			return &round{head: head, aligned: true}
		}
	}
	return &round{head: newest}
}

// begin begins a round.
func (r *Rounds) begin(begun *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	if len(r.recent) == recentRounds {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	begun.number, begun.note = r.number, begun.head.Note
	r.recent = append(r.recent, begun)
	if r.inForce().quorum == nil { // only agents that have not taken up the policy wait for witnesses
		r.settle(begun)
	}
	r.notify()
}

// next returns the round after the one that a witness has done, when there is one; nil if
// ctx ends before.
func (r *Rounds) next(ctx context.Context, done int) *round {
	for {
		r.mu.Lock()
		var newest *round
		if n := len(r.recent); n > 0 {
			newest = r.recent[n-1]
		}
		changed := r.changed
		r.mu.Unlock()
		if newest != nil && newest.number > done {
			return newest
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
