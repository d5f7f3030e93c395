package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

var (
	errLost    = errors.New("lost on the way")
	errCrashed = errors.New("crashed")
)

// node is an agent: the runtime, its disk, its machine, and its way to the ledger.
type node struct {
	w       *world
	name    entry.Principal
	skew    int64 // its clock, beside the true time
	core    *agent.Agent
	disk    map[string][]byte
	machine *machine
	rogue   bool // its hooks lie
	forked  bool // it saw two logs
	strayed bool // it has accepted one that is not the ledger's

	at      int64 // when it is to wake
	cutTill int64 // until when nothing gets through
	crashed bool  // in this step
	down    bool
	cheated bool   // it was served what the ledger does not say
	size    uint64 // of the log that it has accepted

	stale     *bundle.Bundle // an answer from before
	staleNext uint64         // what went with it
}

func newNode(w *world, name entry.Principal) *node {
	n := &node{w: w, name: name, disk: map[string][]byte{}}
	n.machine = &machine{n: n, lines: map[entry.WorkflowID]*line{}, jobs: map[entry.Ref]*job{}, done: map[string]*agent.Report{}, undone: map[string]int{}, did: map[string]bool{}}
	if w.plan.skew > 0 {
		n.skew = w.between(-w.plan.skew, w.plan.skew)
	}
	if err := agent.Init(n, w.ledger.root, name, n.now()); err != nil {
		w.fail("%v", err)
	}
	return n
}

// believed reports whether an agent was told the truth and tells it: others may
// keep an outcome that the ledger never takes.
func (n *node) believed() bool { return !n.rogue && !n.cheated }

// now is the time by the agent's own clock.
func (n *node) now() int64 { return n.w.now + n.skew }

// open starts the runtime on what is on the disk.
func (n *node) open() {
	n.crashed, n.down = false, false
	cfg := agent.Config{Root: n.w.ledger.root, Agent: n.name, Secret: []byte("the secret of " + n.name + ", which nobody knows"),
		Sign: func(e *entry.Entry) error { n.w.keys.sign(e, n.w.signer(n.name)); return nil }, NewID: n.w.newID,
		Ledger: n, Second: n, Store: n, Tell: n.tell, Hooks: n.machine.hooks()}
	if n.w.plan.follow {
		cfg.Log = n
	}
	core, err := agent.Open(&cfg, n.now())
	if err != nil {
		n.stopped(err)
		return
	}
	n.core = core
	n.strays()
	n.poke(0)
}

// stopped is what follows when the runtime has stopped.
func (n *node) stopped(err error) {
	n.core = nil
	if fork, ok := errors.AsType[*agent.ForkError](err); ok {
		n.forked = true
		n.w.note("  %s: %v", n.name, fork.Detail)
		if !n.cheated {
			n.w.fail("%s sees a fork, and nobody showed it one: %v", n.name, err)
		}
		return
	}
	if !n.crashed {
		n.w.fail("%s stopped, and nothing failed: %v", n.name, err)
	}
	n.w.note("  %s crashed", n.name)
	n.down = true
	n.w.after(n.w.between(10, 40*second), string(n.name)+" starts", func() {
		if n.core == nil && !n.forked {
			if n.w.fault(100) {
				clear(n.disk) // the disk is gone
				n.size = 0
			}
			n.open()
		}
	})
}

// tell traces what the runtime says of itself.
func (n *node) tell(e agent.Event) {
	n.w.note("  %s %s %d %s %s %v", n.name, e.Kind, e.Incident, e.Exec, e.Text, e.Err)
	n.w.observer.told(n, &e)
}

// poke makes the runtime look.
func (n *node) poke(delay int64) {
	n.w.after(delay, string(n.name)+" is poked", func() {
		if n.core != nil {
			n.core.Poke()
			n.wake(0)
		}
	})
}

func (n *node) wake(delay int64) {
	at := n.w.now + max(0, delay)
	if n.at != 0 && n.at <= at {
		return
	}
	n.at = at
	n.w.after(delay, string(n.name), func() {
		if n.at == at {
			n.at = 0
			n.step()
		}
	})
}

func (n *node) step() {
	if n.core == nil {
		return
	}
	next, err := n.core.Step(context.Background(), n.now())
	if size := n.core.Size(); size < n.size {
		n.w.fail("%s accepted a log of %d entries, and then one of %d", n.name, n.size, size)
	}
	n.size = n.core.Size()
	was := n.strayed
	if n.strays(); was && !n.strayed {
		n.w.fail("%s accepted a fork, and then the ledger's log of %d entries", n.name, n.size)
	}
	switch {
	case err != nil:
		n.stopped(err)
	case n.crashed:
		n.stopped(errCrashed)
	default:
		n.wake(max(1, next-n.now()))
	}
}

// strays notes whether the log that the agent has accepted is a fork. It may be
// one: nobody can tell before both are shown.
func (n *node) strays() {
	accepted := n.core.Accepted()
	n.strayed = accepted.Head != "" && accepted.Head != n.w.ledger.heads[n.core.Size()]
}

// Names implements [agent.Store].
func (n *node) Names() ([]string, error) { return slices.Sorted(maps.Keys(n.disk)), nil }

// Load implements [agent.Store].
func (n *node) Load(name string) ([]byte, error) { return n.disk[name], nil }

// Save implements [agent.Store]. It may be the last thing that happens, with or
// without effect.
func (n *node) Save(name string, data []byte) error {
	switch {
	case n.crashed:
		return errCrashed
	case n.core != nil && n.w.fault(n.w.plan.crash):
		n.crashed = true
		if n.w.chance(500) {
			n.disk[name] = slices.Clone(data)
		}
		return errCrashed
	}
	n.disk[name] = slices.Clone(data)
	return nil
}

// fate is what becomes of a message.
type fate int

const (
	arrives   fate = iota
	isLost         // nothing happens
	isLate         // the sender gives up, and it arrives all the same
	replyLost      // it arrives, and its answer does not
	isDoubled      // it arrives now and again later
)

func (n *node) fate() fate {
	p := &n.w.plan
	switch {
	case n.cutTill > n.w.now, n.w.fault(p.loss):
		if n.w.chance(500) {
			return isLost
		}
		return replyLost
	case n.w.fault(p.late):
		return isLate
	case n.w.fault(p.double):
		return isDoubled
	}
	return arrives
}

// cutOff begins a partition, now and then.
func (n *node) cutOff() {
	if n.w.fault(n.w.plan.cut) {
		n.cutTill = n.w.now + n.w.between(second, pick(n.w, []int64{minute, minute, 10 * minute}))
	}
}

// Submit implements [agent.Ledger].
func (n *node) Submit(_ context.Context, e *entry.Entry) (entry.LogRef, error) {
	if n.crashed {
		return entry.LogRef{}, errCrashed
	}
	n.cutOff()
	again := func(after int64) {
		n.w.after(after, fmt.Sprintf("%s arrives of %s", e.Kind, n.name), func() { _, _ = n.w.ledger.submit(e) })
	}
	f := n.fate()
	if n.cutTill > n.w.now {
		f = isLost
	}
	switch f {
	case isLost:
		return entry.LogRef{}, errLost
	case isLate:
		again(n.w.between(1, minute))
		return entry.LogRef{}, errLost
	case isDoubled:
		again(n.w.between(1, minute))
	}
	ref, err := n.w.ledger.submit(e)
	if f == replyLost {
		return entry.LogRef{}, errLost
	}
	return ref, err
}

// Commands implements [agent.Ledger].
func (n *node) Commands(context.Context) (*agent.Hints, error) {
	n.cutOff()
	if f := n.fate(); n.crashed || f == isLost || f == isLate || f == replyLost {
		return nil, errLost
	}
	s := n.w.ledger.state.State
	h := &agent.Hints{Size: s.Size()}
	for _, index := range append(s.News(n.name, 0), s.Overrides(n.name, 0)...) {
		h.News = max(h.News, index)
	}
	for _, c := range s.Commands(n.name) {
		h.Commands = append(h.Commands, agent.Hint{Incident: c.Incident, Decision: c.Decision, Changed: c.Changed})
	}
	return h, nil
}

// Bundle implements [agent.Ledger]. An answer may be one from before.
func (n *node) Bundle(_ context.Context, q agent.Query) (*bundle.Bundle, uint64, error) {
	n.cutOff()
	f := n.fate()
	if n.crashed || f == isLost || f == replyLost {
		return nil, 0, errLost
	}
	b, next, err := n.w.ledger.bundle(query{agent: n.name, incident: q.Incident, from: q.From, after: q.After, whole: q.Whole})
	if err != nil {
		if _, refused := errors.AsType[*entry.Refusal](err); !refused {
			n.w.fail("a bundle for %s: %v", n.name, err)
		}
		return nil, 0, err
	}
	old, oldNext := n.stale, n.staleNext
	n.stale, n.staleNext = b, next
	switch {
	case f == isLate && old != nil:
		n.cheated = true
		return old, oldNext, nil
	case f == isLate:
		return nil, 0, errLost
	case n.w.plan.rogueServer && n.w.fault(300):
		n.cheated = true
		return n.w.mutate(n, b), next, nil
	}
	n.w.observer.serve(n, b, q.Incident)
	return b, next, nil
}

// Follow implements [agent.Log].
func (n *node) Follow(_ context.Context, from uint64, accepted string) (*agent.Page, error) {
	if f := n.fate(); n.crashed || f == isLost || f == isLate || f == replyLost {
		return nil, errLost
	}
	l := n.w.ledger
	page := &agent.Page{}
	for index := from; index < min(l.size(), from+16); index++ {
		page.Entries = append(page.Entries, verify.Entry{Registered: entry.Registered{Entry: l.log[index].Entry, Index: index, RegisteredAt: l.log[index].RegisteredAt}, Signed: true})
	}
	size, err := sizeOf(accepted)
	if err == nil && size != l.size() {
		page.Proof, err = l.consistency(size, l.size())
	}
	return page, err
}

// Plan implements [agent.Log].
func (n *node) Plan(_ context.Context, incident uint64) (members []entry.Member, err error) {
	plan, ok := n.w.ledger.state.PlanInForce(incident, n.w.now)
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "id", "no plan")
	}
	return plan.Set(), nil
}

// Confirm implements [agent.Source]: a mirror of the ledger.
func (n *node) Confirm(_ context.Context, head string) (verify.ConsistencyProof, error) {
	if f := n.fate(); n.crashed || f == isLost || f == isLate || f == replyLost {
		return verify.ConsistencyProof{}, errLost
	}
	l := n.w.ledger
	size, err := sizeOf(head)
	if err != nil || size > l.size() {
		return verify.ConsistencyProof{}, errLost
	}
	p, err := l.consistency(size, l.size())
	p.Older = head
	return p, err
}

// sizeOf reads the size in a head.
func sizeOf(head string) (uint64, error) {
	lines := strings.SplitN(head, "\n", 3)
	if len(lines) < 3 {
		return 0, errors.New("no head")
	}
	return strconv.ParseUint(lines[1], 10, 64)
}
