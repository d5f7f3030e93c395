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

// keeper is what the claims of a [Config] share to renew their leases. Each is
// renewed when a third of its term has passed, and takes along those that will be
// due soon, in one request and under one signature: so leases of one term are
// renewed together from then on.
//
// That never costs a lease: what has no good answer within a tenth of its period is
// renewed by itself when it is due, at once if the request fails, and so it stays for
// as long as answers take longer. A request of its own is given up after a period, and
// sent again. Only by itself a claim learns that it is lost.
type keeper struct {
	mu      sync.Mutex
	session string // of the coordinator
	seq     int64  // of the newest renewal
	leases  []*heldLease
}

// heldLease is a claim while its lease is renewed.
type heldLease struct {
	claim       *Claim
	term, every time.Duration
	news        chan struct{} // says that due is sooner

	// The keeper's mutex guards these.
	mode      renewalMode
	renewedAt time.Time // when the newest renewal was sent that counts
	due       time.Time // when it is renewed next
}

// renewalMode is how a claim is renewed next.
type renewalMode int

const (
	renewTogether renewalMode = iota // it takes others along, or is taken along
	inBatch                          // a request of another is under way for it
	renewAlone                       // by itself, until that is answered well
)

// patience is which part of its period a lease waits for a request that renews it
// with others.
const patience = 10

// learn takes up what a lease says that renewals are to say.
func (k *keeper) learn(l *api.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session, k.seq = l.Session, max(k.seq, l.Seq)
}

// next returns a renewal that none was before.
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

// Keep renews the lease until ctx ends, or calls lost with
// [ErrLeaseLost] as the cause. [Config.Tell] is told once that renewals
// fail, however many do.
func (c *Claim) Keep(ctx context.Context, lost context.CancelCauseFunc) {
	one := c.keeper.join(c)
	defer c.keeper.leave(one)
	for failing := false; ; {
		others, late, err := c.keeper.turn(ctx, one)
		if err != nil {
			return
		}
		timed, cancel := context.WithDeadline(ctx, late) // an answer after that is too late
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

// final reports whether a request was refused for good: not if nobody answers now,
// or with an error inside the server, which is no word about the claim.
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

// turn waits until a lease is to be renewed, and returns which others it takes
// along, and when it is lost without an answer.
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

// take takes along what is due within half of its period.
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

// recordRenewal notes what came of a renewal, and returns when the lease is lost unless
// there is another.
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

// recordBatchRenewal notes what came of a lease that was taken along, unless it waits no
// longer.
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
		default: // it is told already
		}
	}
}

// renewed notes that a renewal counts, which may not be the newest that does: each
// begins a term when it was sent, however late its answer.
func (one *heldLease) renewed(sent time.Time) {
	if sent.After(one.renewedAt) {
		one.renewedAt = sent
	}
	one.mode, one.due = renewTogether, one.renewedAt.Add(one.every)
	if time.Since(sent) > one.every/patience {
		one.mode = renewAlone
	}
}

// renewWith renews the lease, and others with it, and returns when it was said to
// the coordinator.
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
	ctx, cancel := context.WithTimeout(ctx, one.every) // there is time to ask again, by another connection
	defer cancel()
	_, err = c.renew(ctx, nil)
	return sent, err
}

// renewAll reports whether the lease is renewed; what became of the others, they are
// told.
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

// lease is what a renewal says of the claim.
func (c *Claim) lease(over *entry.Snapshot) entry.Lease {
	return entry.Lease{Epoch: c.Task.Epoch, Task: c.Task.Task, Over: over}
}

// renew renews the lease alone, or says that the claim is over. A coordinator that
// has started again is asked for its session first.
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
