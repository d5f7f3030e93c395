// Package coordinator runs the fold of package coord beside a ledger. The [Replica]
// checks signatures in parallel before entries are ordered, and shows the committed
// state to readers. The [Coordinator] reads that state, decides, signs and submits.
// [Leases] know when the coordinator last heard from the holder of each task. Package coord
// alone says what the entries of a log mean, and which entry may come next.
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

// Replica gives a ledger what the ledger's configuration asks for beside the fold: NewFold,
// Frozen, Precheck, Committed and MaxStep. Frozen, Precheck, View and MaxStep may be called
// at any time from any goroutine.
type Replica struct {
	origin string
	check  coord.SignatureCheck

	// state is the fold that admits entries. The goroutine that orders entries owns it.
	// Every other goroutine sees view.
	state *coord.State
	view  atomic.Pointer[View]

	// fresh holds the entries applied to state since the last call of Committed, once reader is
	// there. The goroutine that orders entries owns it.
	fresh []entry.Registered

	leases  *Leases
	sent    *SentBundles
	rules   coord.Rules
	watcher atomic.Pointer[Watcher]

	// behind holds the committed entries that reader has not taken up yet.
	queue  sync.Mutex
	behind []entry.Registered
	newest *View // of the state that reader reaches when it has

	// reader follows state and serves reads. It has committed entries only. Reads do not
	// delay the order, since the order does not use reader.
	reading sync.RWMutex
	reader  *coord.State // nil until Committed is called first
	shown   *View        // of reader
	unread  bool
}

// View is the immutable part of a committed state. Callers must not change it.
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
	c := &Replica{origin: origin, check: check, leases: newLeases(), sent: newSentBundles()}
	c.view.Store(&View{Chain: verify.NewChain()})
	return c
}

// NoReaders says that Read and Frozen will not be called. The replica then keeps no second
// state. NoReaders must be called before Committed.
func (c *Replica) NoReaders() { c.unread = true }

// Watcher is told of an entry that is durable. The state has that entry, and may have later ones.
// The goroutine that orders entries calls it, so it must not wait, and must change neither.
type Watcher func(s *coord.State, e *entry.Registered)

// Watch has watcher told of every entry that is committed from now on, in log order. A second call
// replaces the watcher.
func (c *Replica) Watch(watcher Watcher) { c.watcher.Store(&watcher) }

// Behind returns how many committed entries the state that serves reads has not taken up. Reads
// take them up first.
func (c *Replica) Behind() int {
	c.queue.Lock()
	defer c.queue.Unlock()
	return len(c.behind)
}

// NewFold returns a fold of the empty log. The first fold that it returns admits entries:
// the replica shows the state of that fold to readers after each call of Committed. The replica
// does not follow later folds.
func (c *Replica) NewFold() *Fold {
	f := &Fold{State: coord.NewCheckedState(c.origin, c.check)}
	if c.state == nil {
		c.state, f.replica = f.State, c
	}
	return f
}

// Fold is a state of a log, as a ledger drives it.
type Fold struct {
	*coord.State
	replica *Replica // which follows the fold; nil: nothing does
}

// Apply implements [ledger.Fold].
func (f *Fold) Apply(e *entry.Entry, index uint64, at int64) {
	f.State.Apply(e, index, at)
	if f.replica != nil && f.replica.reader != nil {
		f.replica.fresh = append(f.replica.fresh, entry.Registered{Entry: e, Index: index, RegisteredAt: at})
	}
}

// Committed shows readers the state that admits entries, which is now durable under a head.
// The ledger calls Committed after it opened and after every commit.
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
	watcher := c.watcher.Load()
	for i := range c.fresh {
		c.leases.follow(c.state, c.fresh[i].Entry, c.fresh[i].Index)
		if watcher != nil {
			(*watcher)(c.state, &c.fresh[i])
		}
	}
	c.queue.Lock()
	c.behind, c.newest = append(c.behind, c.fresh...), next
	waiting := len(c.behind)
	c.queue.Unlock()
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	if waiting >= behindMax && c.reading.TryLock() { // without reads the list would only grow
		c.catchUp()
		c.reading.Unlock()
	}
}

// Revert makes the committed state the one that admits entries, and returns a fold of it. The state
// before is given up: it has entries that are not registered. The goroutine that orders entries
// calls Revert. It must not be called after NoReaders, or before Committed.
func (c *Replica) Revert() *Fold {
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	c.reading.Lock()
	defer c.reading.Unlock()
	c.catchUp()
	c.state = c.reader.Clone()
	return &Fold{State: c.state, replica: c}
}

// follow makes reader from the state that admits entries, which is committed.
func (c *Replica) follow() {
	reader := c.state.Clone()
	c.reading.Lock()
	c.reader = reader
	c.reading.Unlock()
}

// catchUp applies the committed entries to reader. The caller holds reading.
func (c *Replica) catchUp() {
	c.queue.Lock()
	behind := c.behind
	c.behind, c.shown = nil, c.newest
	c.queue.Unlock()
	for _, e := range behind {
		c.reader.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
}

// Read calls f with the committed state, or with a later state that is committed too. f
// must not change or keep the state. A long call delays other readers, but not the order.
// Read must not be called before Committed.
func (c *Replica) Read(f func(s *coord.State)) {
	c.ReadView(func(s *coord.State, _ *View) { f(s) })
}

// ReadView is like Read, and also passes the view of exactly that state.
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

// Frozen returns an immutable copy of the committed state, and the number of entries in the
// copy. The copy serves snapshots only. Frozen must not be called before Committed.
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

// MaxStep returns the largest step of the wall clock that the policy in force accepts.
// Before the genesis it is one minute.
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

// ChangesWitnesses reports whether e is a policy that the ledger would order now, and that names
// other witnesses than the policy in force. It marks the entry as Precheck does. now is the
// ledger's clock, Unix milliseconds.
func (c *Replica) ChangesWitnesses(e *entry.Entry, now int64) (changes bool) {
	next, ok := e.Body.(*entry.Policy)
	inForce, _ := c.View().Chain.Policy()
	if !ok || inForce == nil || next.Witnesses == inForce.Witnesses || c.Precheck(e) != nil {
		return false
	}
	c.Read(func(s *coord.State) { changes = s.Admit(e, s.Size(), now) == nil })
	return changes
}
