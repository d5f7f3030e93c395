// Package coord is the fold: what the entries of a log mean. [State] is a pure,
// deterministic function of the log's prefix, and it decides which entry may
// come next; two parties with the same prefix compute the same state, so that
// [Audit] derives every verdict again. The package knows no storage and no
// network.
//
// Registration asks the same of everyone, in this order; the first rule that
// fails refuses the entry and nothing is appended:
//
//	REG-3  aud is this ledger
//	REG-4  the key is enrolled for exactly this issuer, counts, and its role allows the kind
//	REG-5  signature
//	REG-6  iat within the window of now, which is registered_at
//	REG-7  quota of the issuer over a rolling hour
//	REG-8  references exist and are older
//	REG-9  the state machine accepts
//
// REG-1 is [entry.Decode] and REG-2, the same entry again, is the ledger's.
//
// Beside the order stands the [Replica]. The replica checks signatures in parallel
// before entries are ordered, and shows the committed state to readers. The
// [Coordinator] reads that state, and decides.
package coord

import (
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Replica is what a ledger needs beside the fold, in the terms of its
// configuration: NewFold, Frozen, Precheck, Committed and MaxStep. Frozen,
// Precheck, View and MaxStep may be called at any time from anywhere.
type Replica struct {
	origin string
	check  signatureCheck

	// state is the fold that admits. It is owned by the goroutine that owns the
	// order; everybody else sees view.
	state *State
	view  atomic.Pointer[View]

	// fresh is what was applied to state since Committed was called last.
	fresh []entry.Registered

	leases *Leases
	rules  Rules

	// behind is what was committed and reader has not taken up yet.
	queue  sync.Mutex
	behind []entry.Registered

	// reader follows state for those who read: it has committed entries only,
	// and keeps nobody waiting in the order.
	reading sync.RWMutex
	reader  *State
	unread  bool
}

// View is the committed state. It is not to be changed.
type View struct {
	Size  uint64        // entries that it covers
	Chain *verify.Chain // policy in force, agents and keys
}

// New returns the coordinator of a ledger of that origin. check tells whether
// sig is the key's signature over message, concurrently; its verdict must be
// that of [verify.Signature], which nil stands for.
func New(origin string, check func(key entry.PublicKey, message, sig []byte) error) *Replica {
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
// admits: the coordinator shows it to readers whenever Committed is called.
// Later ones are on their own.
func (c *Replica) NewFold() *State {
	s := newState(c.origin, c.check)
	if c.state == nil {
		c.state = s
	}
	return s
}

// Committed shows readers the state that admits, which is now durable. The
// ledger calls it when it is open and after every commit.
func (c *Replica) Committed(size uint64) {
	next := &View{Size: size, Chain: c.view.Load().Chain}
	if len(c.state.chain.Links()) != len(next.Chain.Links()) {
		next.Chain = c.state.chain.Clone()
	}
	c.view.Store(next)
	if c.unread {
		return
	}
	if c.state.feed == nil {
		c.leases.begin(c.state)
		c.follow()
	}
	for i := range c.fresh {
		c.leases.follow(c.state, c.fresh[i].Entry)
	}
	c.queue.Lock()
	c.behind = append(c.behind, c.fresh...)
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
	reader := c.state.clone()
	c.state.feed = func(e entry.Registered) { c.fresh = append(c.fresh, e) }
	c.reading.Lock()
	c.reader = reader
	c.reading.Unlock()
}

// catchUp brings reader up to what is committed; the caller holds reading.
func (c *Replica) catchUp() {
	c.queue.Lock()
	behind := c.behind
	c.behind = nil
	c.queue.Unlock()
	for _, e := range behind {
		c.reader.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
}

// Read calls f with the committed state, or a later one that is committed, too.
// f must not change or keep it; long calls keep other readers waiting, but not
// the order. It must not be called before Committed.
func (c *Replica) Read(f func(s *State)) {
	c.queue.Lock()
	behind := len(c.behind) > 0
	c.queue.Unlock()
	if behind {
		c.reading.Lock()
		c.catchUp()
		c.reading.Unlock()
	}
	c.reading.RLock()
	defer c.reading.RUnlock()
	f(c.reader)
}

// Frozen returns a copy of the committed state that nobody changes any more, and
// the number of entries in it: what snapshots are taken from, and good for
// nothing else. It must not be called before Committed.
func (c *Replica) Frozen() (*State, uint64) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.catchUp()
	return c.reader.frozen(), c.reader.size
}

// Rules returns the compiled rules of recovery.
func (c *Replica) Rules() *Rules { return &c.rules }

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

// Precheck checks what needs no order, against committed state: REG-3 to REG-5,
// and a policy by [CheckPolicy]. Else it refuses only what the order would refuse
// too, with the same answer. An unknown key is left to the order, since the entry
// that enrols it may be on its way; so are the rights of who signs policies and
// agents, since a policy may be.
func (c *Replica) Precheck(e *entry.Entry) error {
	if err := c.precheckSigned(e); err != nil {
		return err
	}
	if policy, ok := e.Body.(*entry.Policy); ok {
		if refusal := CheckPolicy(policy); refusal != nil {
			return refusal
		}
	}
	return nil
}

// precheckSigned is REG-3 to REG-5 of Precheck.
func (c *Replica) precheckSigned(e *entry.Entry) error {
	if err := checkAudience(e, c.origin); err != nil { // REG-3
		return err
	}
	chain := c.View().Chain
	key, ok := chain.Key(e.KeyID)
	if !ok {
		return nil
	}
	_, refusal := chain.Signer(e) // REG-4
	mayChange := e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent
	if refusal != nil && !mayChange {
		return refusal
	}
	if err := checkSignature(c.check, key, e); err != nil { // REG-5
		if refusal != nil {
			return refusal
		}
		return err
	}
	e.SignatureChecked = true
	return nil
}
