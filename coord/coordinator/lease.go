package coordinator

import (
	"container/heap"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Leases hold what the coordinator knows beside the fold: when it last heard from the
// holder of each task (TSK-2). A claim begins a term, and so does every entry under the
// claim. A renewal begins a term too, and is not logged. A lease is lost when its term
// ends before the coordinator hears from the holder. The coordinator then signs an entry
// that says that the claim failed.
//
// The monotonic clock of this process measures the terms, so steps of the wall clock
// have no effect. After a restart every lease gets one full term, because no holder
// could renew while the coordinator was down.
//
// A heap orders the leases by the end of their terms. A renewal notes the later end and
// leaves the lease at its place in the heap. The coordinator looks at a lease, and moves
// it, when the lease comes to the top.
type Leases struct {
	now     func() time.Time // with a monotonic reading
	session string

	mu     sync.Mutex
	byTask map[entry.Ref]*lease
	queue  leaseQueue
	lost   uint64
	size   uint64 // entries that were followed
}

// lease is a running lease.
type lease struct {
	task  entry.Ref
	agent entry.Principal
	epoch int64
	term  time.Duration
	until time.Time       // end of the term
	seq   int64           // of the newest renewal
	lost  bool            // Lost has returned it
	over  *entry.Snapshot // the holder's report that the claim is over; nil: no report

	due   time.Time // when to look at it, at the latest
	place int       // in the queue
}

// lostPause is the time after which Lost returns a lost lease again, if the log still
// says that the task is held.
const lostPause = time.Second

func newLeases() *Leases {
	return &Leases{now: time.Now, session: rand.Text(), byTask: map[entry.Ref]*lease{}}
}

// begin gives every held task a full term.
func (l *Leases) begin(s *coord.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginAt(s)
}

func (l *Leases) beginAt(s *coord.State) {
	l.byTask, l.queue, l.size = map[entry.Ref]*lease{}, nil, s.Size()
	for claim := range s.Claims() {
		l.hear(&claim)
	}
}

// restart begins a new session, in which every held task has a full term. It returns false, and
// changes nothing, if s lacks entries that were followed.
func (l *Leases) restart(s *coord.State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Size() < l.size {
		return false
	}
	l.session = rand.Text()
	l.beginAt(s)
	return true
}

// follow takes up the committed entry at index. The state has the entry already.
func (l *Leases) follow(s *coord.State, e *entry.Entry, index uint64) {
	claim, ok := s.ClaimOf(e)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size = index + 1
	if claim.Held {
		l.hear(&claim)
		return
	}
	if old := l.byTask[claim.Task]; old != nil {
		heap.Remove(&l.queue, old.place)
		delete(l.byTask, old.task)
	}
}

// hear begins a term of a held task.
func (l *Leases) hear(claim *coord.Claim) {
	one := l.byTask[claim.Task]
	if one == nil {
		one = &lease{task: claim.Task}
		l.byTask[claim.Task] = one
	}
	if one.epoch != claim.Epoch {
		one.seq, one.over = 0, nil
	}
	one.agent, one.epoch, one.term = claim.Agent, claim.Epoch, time.Duration(claim.LeaseMS)*time.Millisecond
	if one.over != nil {
		return // the holder gave the claim up: later entries tell how it ended
	}
	one.lost, one.until = false, l.now().Add(one.term)
	switch {
	case one.due.IsZero():
		one.due = one.until
		heap.Push(&l.queue, one)
	case one.until.Before(one.due):
		one.due = one.until
		heap.Fix(&l.queue, one.place)
	}
}

// ErrLate says that another node of a cluster may lead by now.
var ErrLate = errors.New("coordinator: another node may order the log by now")

// Renewed is the result of a renewal for one lease that it names.
type Renewed struct {
	Lease   api.Lease      // as it stands now
	Refused *entry.Refusal // why the lease was not renewed; nil: it was renewed
}

// renew takes up a renewal, lease by lease. The caller has checked the signature.
// absent are the places in the renewal of leases on tasks without a holder.
//
// Nothing is noted at until or later: this process may have hung since it knew that it leads.
// Another node may have led, and may have given a task away. Zero: no other node can.
func (l *Leases) renew(r *entry.Renewal, until time.Time, now int64) (all []Renewed, absent []int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !until.IsZero() && !l.now().Before(until) {
		return nil, nil, ErrLate
	}
	all = make([]Renewed, len(r.Leases))
	for i := range r.Leases {
		one := l.byTask[r.Leases[i].Task]
		if one == nil {
			absent = append(absent, i)
			continue
		}
		if all[i].Refused = l.refuse(one, r, i); all[i].Refused == nil {
			l.prolong(one, r.Seq, r.Leases[i].Over)
			all[i].Lease = l.view(one, now)
		}
	}
	return all, absent, nil
}

// refuse returns why a renewal does not count for its i-th lease; nil: it counts.
func (l *Leases) refuse(one *lease, r *entry.Renewal, i int) *entry.Refusal {
	named := &r.Leases[i]
	switch {
	case named.Epoch != one.epoch:
		return entry.Refuse(entry.StaleEpoch, leaseField(i, "epoch"), "%d, but %s is held at epoch %d", named.Epoch, named.Task, one.epoch).WithRemedy(remedyStop)
	case r.Iss != one.agent:
		return entry.Refuse(entry.NoStanding, "iss", "%s does not hold %s", r.Iss, named.Task)
	case one.lost || !l.now().Before(one.until):
		return entry.Refuse(entry.StateConflict, leaseField(i, "task"), "the lease on %s was lost", named.Task).WithRemedy(remedyStop)
	case r.Session != l.session:
		return entry.Refuse(entry.StateConflict, "session", "the coordinator has started since").WithRemedy("read the session with the task, and renew again")
	case r.Seq <= one.seq:
		return entry.Refuse(entry.StateConflict, "seq", "%d, but %d was heard already", r.Seq, one.seq).WithRemedy("count every renewal up")
	}
	return nil
}

// remedyStop tells an agent that lost its lease what to do.
const remedyStop = "stop: another worker may now hold the task"

// leaseField names a member of the i-th lease of a renewal.
func leaseField(i int, member string) string { return fmt.Sprintf("leases[%d].%s", i, member) }

// prolong begins a term, or ends the claim.
func (l *Leases) prolong(one *lease, seq int64, over *entry.Snapshot) {
	one.seq, one.until = seq, l.now().Add(one.term)
	if over != nil {
		one.over, one.until = over, l.now()
		one.due = one.until
		heap.Fix(&l.queue, one.place)
	}
}

// view returns a lease as it stands. It is to be renewed three times a term.
func (l *Leases) view(one *lease, now int64) api.Lease {
	return api.Lease{Task: one.task, Agent: one.agent, Epoch: one.epoch, Session: l.session, Seq: one.seq,
		TermMS: one.term.Milliseconds(), RenewMS: (one.term / 3).Milliseconds(), ExpiresAt: now + one.until.Sub(l.now()).Milliseconds()}
}

// Find returns the lease on a task, if an agent holds the task. now is the ledger's clock, Unix
// milliseconds.
func (l *Leases) Find(task entry.Ref, now int64) (api.Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.byTask[task]
	if one == nil {
		return api.Lease{}, false
	}
	return l.view(one, now), true
}

// Lost returns the leases whose term is over. wait is the time after which more leases
// may be over, if no entry comes; it is negative if no task is held. A lease that Lost
// has returned cannot be renewed.
func (l *Leases) Lost() (lost []entry.Lease, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for len(l.queue) > 0 && !l.queue[0].due.After(now) {
		one := l.queue[0]
		if one.due = one.until; !one.until.After(now) {
			if lost = append(lost, entry.Lease{Task: one.task, Epoch: one.epoch, Over: one.over}); !one.lost {
				one.lost = true
				if one.over == nil {
					l.lost++
				}
			}
			one.due = now.Add(lostPause)
		}
		heap.Fix(&l.queue, 0)
	}
	if len(l.queue) == 0 {
		return lost, -1
	}
	return lost, l.queue[0].due.Sub(now)
}

// Counts returns the number of leases, and the number of leases lost since the
// coordinator started.
func (l *Leases) Counts() (held int, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byTask), l.lost
}

// NewTerm begins a new session of the leases, in which every held task has a full term: a node of a
// cluster does so when it begins to order the log. NewTerm must not be called before Committed.
func (c *Replica) NewTerm() {
	for begun := false; !begun; {
		c.Read(func(s *coord.State) { begun = c.leases.restart(s) })
	}
}

// Leases returns the leases of the replica. It may be called at any time.
func (c *Replica) Leases() *Leases { return c.leases }

// Renew takes up a renewal and returns the result for each lease that it names. One lease
// can be refused with not-found, no-standing, stale-epoch or state-conflict. The error is
// a [*entry.Refusal] of the whole renewal: wrong-audience, unknown-issuer,
// unauthorized-role or bad-signature. It is [ErrLate], and nothing is renewed, if the instant
// until has come, up to which no other node of a cluster can lead; zero: there is none. now is the
// ledger's clock, Unix milliseconds.
func (c *Replica) Renew(r *entry.SignedRenewal, until time.Time, now int64) ([]Renewed, error) {
	if r.Aud != c.origin {
		return nil, entry.Refuse(entry.WrongAudience, "aud", "%q is not this ledger, which is %q", r.Aud, c.origin).
			WithRemedy("sign the renewal for this ledger")
	}
	key, refusal := c.View().Chain.Speaks(r.KeyID, r.Iss, entry.RoleAgent)
	if refusal != nil {
		return nil, refusal
	}
	message, err := r.PAE()
	if err != nil {
		return nil, err
	}
	if c.check(key, message, r.Sig) != nil {
		return nil, entry.Refuse(entry.BadSignature, "sig", "not a signature by %s over the PAE", r.KeyID).
			WithRemedy("sign the DSSE pre-authentication encoding of the canonical renewal")
	}
	all, absent, err := c.leases.renew(&r.Renewal, until, now)
	if err != nil {
		return nil, err
	}
	if len(absent) > 0 {
		c.Read(func(s *coord.State) {
			for _, i := range absent {
				all[i].Refused = notHeld(s, &r.Leases[i], i)
			}
		})
	}
	return all, nil
}

// notHeld returns why the i-th lease of a renewal does not exist.
func notHeld(s *coord.State, named *entry.Lease, i int) *entry.Refusal {
	t, ok := s.Task(named.Task)
	switch {
	case !ok:
		return entry.Refuse(entry.NotFound, leaseField(i, "task"), "no task %s in the log", named.Task)
	case named.Epoch != t.Epoch:
		return entry.Refuse(entry.StaleEpoch, leaseField(i, "epoch"), "%d, but the newest claim of %s is %d", named.Epoch, named.Task, t.Epoch)
	}
	return entry.Refuse(entry.StateConflict, leaseField(i, "task"), "nobody holds %s, which is %s", named.Task, t.State).WithRemedy(remedyStop)
}

// leaseQueue implements [heap.Interface].
type leaseQueue []*lease

// Len implements [sort.Interface].
func (q leaseQueue) Len() int { return len(q) }

// Less implements [sort.Interface]: the lease that ends first comes first.
func (q leaseQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements [sort.Interface].
func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements [heap.Interface].
func (q *leaseQueue) Push(x any) {
	one, _ := x.(*lease)
	one.place = len(*q)
	*q = append(*q, one)
}

// Pop implements [heap.Interface].
func (q *leaseQueue) Pop() any {
	old := *q
	one := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return one
}
