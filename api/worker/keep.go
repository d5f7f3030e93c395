package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// keeper renews the leases of the claims of a [Config]. A lease is due when a third of its
// term has passed. Its renewal takes along the leases that are due soon, in one request and
// under one signature. Leases of one term are renewed together from then on.
//
// A shared request never costs a lease. A lease without a good answer within a tenth of its
// period is renewed alone when it is due, and at once if the request fails. The lease stays
// alone for as long as answers take longer. A request for one lease alone is given up after a
// period, and sent again. A claim learns only from a request of its own that it is lost.
type keeper struct {
	mu      sync.Mutex
	session string // of the coordinator
	seq     int64  // of the newest renewal
	leases  []*heldLease
}

// heldLease is a claim whose lease the keeper renews.
type heldLease struct {
	claim       *Claim
	term, every time.Duration
	news        chan struct{} // says that due is sooner

	// The keeper's mutex guards these.
	mode      renewalMode
	renewedAt time.Time // when the newest renewal that counts was sent
	due       time.Time // when the lease is renewed next
}

// renewalMode is how a claim is renewed next.
type renewalMode int

const (
	renewTogether renewalMode = iota // the lease takes others along, or is taken along
	inBatch                          // a request of another lease is under way for it
	renewAlone                       // alone, until a renewal has a good answer in time
)

// patience is the part of its period, as a divisor, that a lease waits for a request that
// renews it with others.
const patience = 10

// learn takes up the session and the sequence number that renewals must name.
func (k *keeper) learn(l *api.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session, k.seq = l.Session, max(k.seq, l.Seq)
}

// next returns a signed renewal with a new sequence number.
func (c *Config) next(leases ...entry.Lease) (*entry.SignedRenewal, error) {
	c.keeper.mu.Lock()
	c.keeper.seq++
	r := &entry.Renewal{Aud: c.Origin, Iss: c.Agent, Leases: leases, Seq: c.keeper.seq, Session: c.keeper.session}
	c.keeper.mu.Unlock()
	signed, err := c.Signer.SignRenewal(r)
	if err != nil {
		return nil, fmt.Errorf("worker: sign renewal: %w", err)
	}
	return signed, nil
}

// Keep renews the lease until ctx ends. If the lease is lost, Keep calls lost with
// [ErrLeaseLost] as the cause, and returns. [Config.Tell] gets only the first error of
// several renewals that fail in a row.
func (c *Claim) Keep(ctx context.Context, lost context.CancelCauseFunc) {
	one := c.keeper.join(c)
	defer c.keeper.leave(one)
	for failing := false; ; {
		others, late, err := c.keeper.turn(ctx, one)
		if err != nil {
			return
		}
		timed, cancel := context.WithDeadline(ctx, late) // a later answer is too late
		sent, err := c.renewWith(timed, one, others)
		cancel()
		late = c.keeper.recordRenewal(one, sent, err)
		if err != nil && ctx.Err() != nil {
			return
		}
		if fails := err != nil; fails != failing || final(err) {
			failing = fails
			c.tell(err)
		}
		if final(err) || err != nil && !time.Now().Before(late) {
			lost(ErrLeaseLost)
			return
		}
	}
}

// final reports whether a request was refused for good. A temporary problem is not final. An
// error inside the server is not final, since it says nothing about the claim.
func final(err error) bool {
	problem, ok := errors.AsType[*api.Problem](err)
	return ok && !problem.Temporary() && problem.Status < http.StatusInternalServerError
}

func (k *keeper) join(c *Claim) *heldLease {
	now, lease := time.Now(), c.Task.Lease
	one := &heldLease{claim: c, term: time.Duration(lease.TermMS) * time.Millisecond, every: time.Duration(lease.RenewMS) * time.Millisecond,
		news: make(chan struct{}, 1), renewedAt: now}
	one.due = now.Add(one.every)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases = append(k.leases, one)
	return one
}

func (k *keeper) leave(one *heldLease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases = slices.DeleteFunc(k.leases, func(other *heldLease) bool { return other == one })
}

// turn waits until a lease is due. It returns the other leases that the renewal takes along.
// late is the time at which the lease is lost without an answer.
func (k *keeper) turn(ctx context.Context, one *heldLease) (others []*heldLease, late time.Time, err error) {
	for {
		k.mu.Lock()
		wait := time.Until(one.due)
		if wait <= 0 {
			others, late = k.take(one), one.renewedAt.Add(one.term)
			k.mu.Unlock()
			return others, late, nil
		}
		k.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-one.news:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if timer.Stop(); err != nil {
			return nil, late, err
		}
	}
}

// take returns the other leases that are due within half of their periods.
func (k *keeper) take(one *heldLease) (others []*heldLease) {
	was, now := one.mode, time.Now()
	if one.mode = renewAlone; was != renewTogether {
		return nil
	}
	for _, other := range k.leases {
		if other.mode == renewTogether && other.due.Sub(now) <= other.every/2 && len(others) < entry.MaxLeases-1 {
			other.mode, other.due = inBatch, now.Add(other.every/patience)
			others = append(others, other)
		}
	}
	return others
}

// recordRenewal notes the result of a renewal. late is the time at which the lease is lost
// without a further renewal.
func (k *keeper) recordRenewal(one *heldLease, sent time.Time, err error) (late time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		one.renewed(sent)
	}
	late = one.renewedAt.Add(one.term)
	if err != nil {
		one.due = time.Now().Add(min(pollPause, one.every/patience, time.Until(late)))
	}
	return late
}

// recordBatchRenewal notes the result for a lease that was taken along, if the lease still
// waits for the result.
func (k *keeper) recordBatchRenewal(one *heldLease, sent time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case one.mode != inBatch:
	case ok:
		one.renewed(sent)
	default:
		one.mode, one.due = renewAlone, time.Now()
		select {
		case one.news <- struct{}{}:
		default: // the channel holds the news already
		}
	}
}

// renewed notes that a renewal counts. The renewal may be older than the newest one that
// counts. A term begins when the renewal was sent, however late the answer comes.
func (one *heldLease) renewed(sent time.Time) {
	if sent.After(one.renewedAt) {
		one.renewedAt = sent
	}
	one.mode, one.due = renewTogether, one.renewedAt.Add(one.every)
	if time.Since(sent) > one.every/patience {
		one.mode = renewAlone
	}
}

// renewWith renews the lease, and others with it. sent is when the request that decided was
// sent to the coordinator.
func (c *Claim) renewWith(ctx context.Context, one *heldLease, others []*heldLease) (sent time.Time, err error) {
	sent = time.Now()
	if len(others) > 0 {
		if c.renewAll(ctx, one, others) {
			return sent, nil
		}
		if sent = time.Now(); ctx.Err() != nil {
			return sent, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, one.every) // then there is time to ask again over another connection
	defer cancel()
	_, err = c.renew(ctx, nil)
	return sent, err
}

// renewAll renews the lease and others with it. It reports whether the lease is renewed, and
// records the results of the others.
func (c *Claim) renewAll(ctx context.Context, one *heldLease, others []*heldLease) bool {
	ctx, cancel := context.WithTimeout(ctx, one.every/patience)
	defer cancel()
	leases := []entry.Lease{c.lease(nil)}
	for _, other := range others {
		leases = append(leases, other.claim.lease(nil))
	}
	sent := time.Now()
	signed, err := c.next(leases...)
	var all []api.RenewedLease
	if err == nil {
		all, err = c.Client.RenewAll(ctx, signed)
	}
	for i, other := range others {
		c.keeper.recordBatchRenewal(other, sent, err == nil && all[1+i].Problem == nil)
	}
	return err == nil && all[0].Problem == nil
}

// lease returns the claim as a renewal names it.
func (c *Claim) lease(over *entry.Snapshot) entry.Lease {
	return entry.Lease{Epoch: c.Task.Epoch, Task: c.Task.Task, Over: over}
}

// renew renews the lease alone, or tells the coordinator that the claim is over. If the
// coordinator restarted, renew reads the new session and tries again.
func (c *Claim) renew(ctx context.Context, over *entry.Snapshot) (*api.Lease, error) {
	for range 2 {
		signed, err := c.next(c.lease(over))
		if err != nil {
			return nil, err
		}
		lease, err := c.Client.Renew(ctx, signed)
		problem, refused := errors.AsType[*api.Problem](err)
		if err == nil || !refused || problem.Field != "session" && problem.Field != "seq" {
			return lease, err
		}
		t, err := c.Client.Task(ctx, c.Task.Task)
		if err != nil {
			return nil, err
		}
		if t.Lease == nil || t.Epoch != c.Task.Epoch {
			return nil, fmt.Errorf("worker: renew %s: %w", c.Task.Task, problem)
		}
		c.keeper.learn(t.Lease)
	}
	return nil, fmt.Errorf("worker: renew %s: the coordinator starts again and again", c.Task.Task)
}
