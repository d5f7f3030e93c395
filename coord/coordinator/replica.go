// Package coordinator runs the fold of package coord beside a ledger. The [Replica]
// checks signatures in parallel before entries are ordered, and shows the committed
// state to readers. The [Coordinator] reads that state, decides, signs and submits.
// [Leases] know when the holder of a task was last heard of. What the entries of a
// log mean, and which entry may come next, only coord says.
package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// behindMax is the number of committed entries that readers may lag behind.
const behindMax = 1 << 12

// Replica is what a ledger needs beside the fold, in the terms of its
// configuration: NewFold, Frozen, Precheck, Committed and MaxStep. Frozen,
// Precheck, View and MaxStep may be called at any time from anywhere.
type Replica struct {
	origin string
	check  coord.SignatureCheck

	// state is the fold that admits. It is owned by the goroutine that owns the
	// order; everybody else sees view.
	state *coord.State
	view  atomic.Pointer[View]

	// fresh is what was applied to state since Committed was called last.
	fresh []entry.Registered

	leases *Leases
	rules  coord.Rules

	// behind is what was committed and reader has not taken up yet.
	queue  sync.Mutex
	behind []entry.Registered
	newest *View // of the state that reader is when it has

	// reader follows state for those who read: it has committed entries only,
	// and keeps nobody waiting in the order.
	reading sync.RWMutex
	reader  *coord.State // nil until Committed is called first
	shown   *View        // of reader
	unread  bool
}

// View is what never changes of a committed state. It is not to be changed.
type View struct {
	verify.SignedHead               // of exactly the entries that it covers
	Chain             *verify.Chain // policy in force, agents and keys
}

// New returns the replica of a ledger of that origin. check is called concurrently;
// nil stands for [verify.Signature].
func New(origin string, check coord.SignatureCheck) *Replica {
	if check == nil {
		check = verify.Signature
	}
	c := &Replica{origin: origin, check: check, leases: newLeases()}
	c.view.Store(&View{Chain: verify.NewChain()})
	return c
}

// NoReaders says that nobody will call Read or Frozen, so that no second state is
// kept. It must be called before Committed.
func (c *Replica) NoReaders() { c.unread = true }

// NewFold returns a state of the empty log. The first one is the state that
// admits: the replica shows it to readers whenever Committed is called.
// Later ones are on their own.
func (c *Replica) NewFold() *coord.State {
	s := coord.NewCheckedState(c.origin, c.check)
	if c.state == nil {
		c.state = s
	}
	return s
}

// Committed shows readers the state that admits, which is now durable under a head.
// The ledger calls it when it is open and after every commit.
func (c *Replica) Committed(head verify.SignedHead) {
	next := &View{SignedHead: head, Chain: c.view.Load().Chain}
	if len(c.state.Chain().Links()) != len(next.Chain.Links()) {
		next.Chain = c.state.Chain().Clone()
	}
	c.view.Store(next)
	if c.unread {
		return
	}
	if c.reader == nil {
		c.leases.begin(c.state)
		c.follow()
	}
	for i := range c.fresh {
		c.leases.follow(c.state, c.fresh[i].Entry)
	}
	c.queue.Lock()
	c.behind, c.newest = append(c.behind, c.fresh...), next
	waiting := len(c.behind)
	c.queue.Unlock()
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	if waiting >= behindMax && c.reading.TryLock() { // nobody reads: it would only grow
		c.catchUp()
		c.reading.Unlock()
	}
}

// follow makes the reader out of the state that admits, which is committed.
func (c *Replica) follow() {
	reader := c.state.Clone()
	c.state.Feed(func(e entry.Registered) { c.fresh = append(c.fresh, e) })
	c.reading.Lock()
	c.reader = reader
	c.reading.Unlock()
}

// catchUp brings reader up to what is committed; the caller holds reading.
func (c *Replica) catchUp() {
	c.queue.Lock()
	behind := c.behind
	c.behind, c.shown = nil, c.newest
	c.queue.Unlock()
	for _, e := range behind {
		c.reader.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
}

// Read calls f with the committed state, or a later one that is committed, too.
// f must not change or keep it; long calls keep other readers waiting, but not
// the order. It must not be called before Committed.
func (c *Replica) Read(f func(s *coord.State)) {
	c.ReadView(func(s *coord.State, _ *View) { f(s) })
}

// ReadView is Read that also gives the view of exactly that state.
func (c *Replica) ReadView(f func(s *coord.State, v *View)) {
	c.queue.Lock()
	behind := c.shown != c.newest
	c.queue.Unlock()
	if behind {
		c.reading.Lock()
		c.catchUp()
		c.reading.Unlock()
	}
	c.reading.RLock()
	defer c.reading.RUnlock()
	f(c.reader, c.shown)
}

// Frozen returns a copy of the committed state that nobody changes any more, and
// the number of entries in it: what snapshots are taken from, and good for
// nothing else. It must not be called before Committed.
func (c *Replica) Frozen() (*coord.State, uint64) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.catchUp()
	return c.reader.Frozen(), c.reader.Size()
}

// Rules returns the compiled rules of recovery.
func (c *Replica) Rules() *coord.Rules { return &c.rules }

// View returns the committed state as of the last call of Committed.
func (c *Replica) View() *View { return c.view.Load() }

// MaxStep returns the largest step of the wall clock that the policy in force
// believes; one minute before the genesis.
func (c *Replica) MaxStep() time.Duration {
	if policy, _ := c.View().Chain.Policy(); policy != nil {
		return time.Duration(policy.MaxStepMS) * time.Millisecond
	}
	return time.Minute
}

// Precheck checks an entry before the order, as [coord.Precheck] does, against
// committed state.
func (c *Replica) Precheck(e *entry.Entry) error {
	return coord.Precheck(c.View().Chain, c.origin, c.check, e)
}
