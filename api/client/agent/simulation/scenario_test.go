package simulation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strconv"

	"recoveryledger/api/client/agent"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// scenario is what a seed decides before anything happens. Chances are per
// mille.
type scenario struct {
	agents     int
	workflows  int
	executions int
	signals    int
	quorum     int64

	loss, double, late int // of a message
	crash              int // at each write of a store, and at each hook
	cut                int // partitions
	skew               int64
	unsafe             int64 // how long the safety phase lasts, milliseconds
	probe              bool  // whether agents have the hook Probe
	idempotent         bool  // whether restore and compensate may run again
	follow             bool  // whether agents read the log themselves

	silent                                                   bool // the coordinator falls silent for ever: p1 does what approvers may
	rogueAgent, rogueApprover, rogueCoordinator, rogueServer bool
}

// draw decides. Most runs are small, a quarter of them without any fault, and few
// of them have everything at once.
func draw(rng *rand.Rand) scenario {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	s := scenario{agents: 2 + rng.IntN(3), workflows: 1, executions: 3 + rng.IntN(6), signals: 1 + rng.IntN(2), quorum: 1 + int64(rng.IntN(2)),
		probe: !one(3), idempotent: one(2), follow: one(4), unsafe: 4 * minute}
	if one(50) {
		s.agents, s.executions, s.signals = 5+rng.IntN(8), 12+rng.IntN(12), 2+rng.IntN(4)
	}
	if one(4) {
		s.workflows = 2
	}
	if one(4) {
		return s
	}
	s.loss, s.double, s.late, s.unsafe = rng.IntN(301), rng.IntN(501), rng.IntN(301), 6*minute
	if one(2) {
		s.crash = rng.IntN(60)
	}
	if one(3) {
		s.cut, s.unsafe = 1+rng.IntN(100), 12*minute
	}
	if one(3) {
		s.skew = 280 * second
		if one(3) {
			s.skew = 900 * second
		}
	}
	s.silent = one(10)
	s.rogueAgent, s.rogueApprover, s.rogueCoordinator, s.rogueServer = one(4), one(4), one(4), one(4)
	return s
}

// result is what a run leaves.
type result struct {
	digest    string // of the whole trace, with the root of the log
	entries   int
	steps     int
	incidents map[entry.IncidentState]int
	err       error
}

// simulate runs one seed.
func simulate(seed uint64, keys *keyring, out io.Writer) (r result) {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), now: start, trace: sha256.New(), out: out, keys: keys, faults: true,
		signers: map[entry.Principal]string{}}
	keys.forget()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			r.err = fmt.Errorf("%s", v.text)
		default:
			r.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		if w.ledger != nil {
			r.entries, r.steps = len(w.ledger.log), w.steps
			head := w.ledger.tree.Head(w.ledger.size())
			w.note("root %s", head.Root)
			for _, v := range w.ledger.state.Incidents(0, 1<<10, w.now) {
				if r.incidents == nil {
					r.incidents = map[entry.IncidentState]int{}
				}
				r.incidents[v.State]++
			}
		}
		r.digest = fmt.Sprintf("%x", w.trace.Sum(nil))
	}()
	w.plan = draw(w.rng)
	w.note("scenario %+v", w.plan)
	if w.changes = drawChanges(seed, &w.plan); w.changes.any() {
		w.note("changes: domains %t, policy %t, revoked %s", w.changes.domains, w.changes.policy, w.changes.revoked)
	}
	w.begin()
	w.run(start+w.plan.unsafe, func() bool { return false })
	w.heal()
	w.run(w.now+6*60*minute, w.settled)
	w.observer.end()
	return r
}

// heal ends the faults: who is down comes up, clocks are set right, and what was
// cut off is reached again.
func (w *world) heal() {
	w.note("heal")
	w.faults = false
	for _, n := range w.nodes {
		n.cutTill = 0
		n.skew = max(-4*minute, min(n.skew, 4*minute))
		if n.core == nil && !n.forked {
			n.open()
		}
		n.poke(0)
	}
	w.coordinator.wake(0)
	if w.plan.silent {
		w.people.standIn()
	}
}

// settled reports whether every incident has ended and nobody has anything left
// to do.
func (w *world) settled() bool {
	if w.steps%16 != 0 {
		return false
	}
	if w.observer.open() > 0 {
		return false
	}
	for _, n := range w.nodes {
		if n.core != nil && n.believed() && !n.core.Idle() || n.busy() {
			return false
		}
	}
	return true
}

// begin makes the log's beginning, the parties and their work.
func (w *world) begin() {
	w.observer = newObserver(w)
	w.ledger = newLedger(w)
	w.people = &people{w: w}
	w.coordinator = newCoordinator(w)
	names := make([]entry.Principal, w.plan.agents)
	for i := range names {
		names[i] = entry.Principal("a" + strconv.Itoa(i))
	}
	for _, e := range w.beginning(names) {
		w.observer.logged(e, w.ledger.size(), start)
		w.ledger.append(e, start)
	}
	w.ledger.root = verify.Root{Origin: origin, LedgerKeys: []string{w.keys.vkey}, Genesis: w.ledger.leafHash(0), Signature: w.keys.check}
	for i, name := range names {
		n := newNode(w, name)
		n.rogue = w.plan.rogueAgent && i == 0
		w.nodes = append(w.nodes, n)
		n.open()
	}
	w.work()
	w.mischief()
	w.change()
	if w.plan.silent {
		w.after(w.between(minute, w.plan.unsafe), "coordinator falls silent", func() { w.coordinator.gone = true })
	}
}

// Principals beside the agents: k coordinates, p1 to p3 approve, p2 has two keys, p3
// is a monitor too, m is a monitor, o an operator.
var others = []struct {
	name  string
	roles []entry.Role
}{
	{"k", []entry.Role{entry.RoleCoordinator}},
	{"p1", []entry.Role{entry.RoleApprover}},
	{"p2", []entry.Role{entry.RoleApprover}},
	{"p3", []entry.Role{entry.RoleApprover, entry.RoleMonitor}},
	{"m", []entry.Role{entry.RoleMonitor}},
	{"o", []entry.Role{entry.RoleOperator}},
}

// beginning returns the first entries of the log: they are the same whenever the
// same take part, and so signed once.
func (w *world) beginning(names []entry.Principal) []*entry.Entry {
	key := fmt.Sprint(len(names), w.plan.quorum, w.changes.domains)
	if entries, ok := w.keys.beginnings[key]; ok {
		w.ids += uint64(len(entries))
		return entries
	}
	var entries []*entry.Entry
	add := func(body entry.Body) {
		w.header(body, "root", "", start)
		entries = append(entries, w.seal(body, "root"))
	}
	enrol := func(name entry.Principal, key, domain string, span entry.Span, roles ...entry.Role) {
		add(&entry.Agent{Principal: name, Op: entry.Enrol, Key: w.keys.of(key).public, Roles: roles, Domain: domain, Span: span})
	}
	add(w.policy())
	for _, o := range others {
		enrol(entry.Principal(o.name), o.name, "d", entry.SpanWorkflow, o.roles...)
	}
	enrol("p2", "p2 again", "d", entry.SpanWorkflow, entry.RoleApprover)
	for i, name := range names {
		span := entry.SpanWorkflow
		if i%4 == 3 {
			span = entry.SpanAgent
		}
		enrol(name, string(name), w.changes.domain(i), span, entry.RoleAgent)
	}
	w.keys.beginnings[key] = entries
	return entries
}

// policy is the genesis, with windows of minutes.
func (w *world) policy() *entry.Policy {
	p := entry.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: w.keys.of("root").public})
	p.Windows = entry.Windows{DecideMS: minute, AnswerMS: 2 * minute, MemberMS: 2 * minute, DeadlineMaxMS: 5 * minute, CooldownMS: 5 * minute,
		SinceMaxMS: 60 * minute, BundleMaxAgeMS: 10 * minute, IatMS: 5 * minute}
	p.Limits.Incident.Members = 8
	p.Limits.Incident.Agents = 3
	p.Quorum.Approve = w.plan.quorum
	if w.changes.domains {
		p.Limits.Incident.Domains, p.Quorum.Signalers = 2, 1
	}
	return p
}

// seal signs a body with the key that a name stands for.
func (w *world) seal(body entry.Body, key string) *entry.Entry {
	e, err := entry.New(body)
	if err != nil {
		w.fail("%s: %v", body.Kind(), err)
	}
	w.keys.sign(e, key)
	return e
}

// tell spreads the word of an entry: whoever it may concern looks, some time.
func (w *world) tell(e *entry.Entry) {
	w.coordinator.wake(w.between(1, 50))
	switch e.Kind {
	case entry.KindDecision, entry.KindOutcome, entry.KindPolicy, entry.KindAgent:
		for _, n := range w.nodes {
			if !w.fault(w.plan.loss) {
				n.poke(w.between(1, 200))
			}
		}
	}
	w.people.hear(e)
}

// coordinatorProcess runs the coordinator, which dies and starts again.
type coordinatorProcess struct {
	w           *world
	coordinator *coordinator.Coordinator
	at          int64 // when it is to wake; 0: it is not
	down        bool
	gone        bool // for ever
}

func newCoordinator(w *world) *coordinatorProcess {
	k := &coordinatorProcess{w: w}
	k.start()
	return k
}

// start makes a coordinator that knows nothing but the log.
func (k *coordinatorProcess) start() {
	k.down = false
	k.coordinator = &coordinator.Coordinator{Replica: k.w.ledger.coord, Log: k, Principal: "k", NewID: k.w.newID,
		Seal: func(e *entry.Entry) error { k.w.keys.sign(e, k.w.signer("k")); return nil }}
	k.wake(0)
}

func (k *coordinatorProcess) wake(delay int64) {
	at := k.w.now + delay
	if k.down || k.at != 0 && k.at <= at {
		return
	}
	k.at = at
	k.w.after(delay, "coordinator", func() {
		if k.at == at {
			k.at = 0
			k.step()
		}
	})
}

func (k *coordinatorProcess) step() {
	if k.down || k.gone {
		return
	}
	_, wake, err := k.coordinator.Step(context.Background())
	if err != nil {
		k.w.note("  coordinator dies: %v", err)
		k.down, k.at = true, 0
		k.w.after(k.w.between(second, minute), "coordinator starts", func() {
			k.w.ledger.fold()
			k.start()
		})
		return
	}
	if wake < k.w.now+60*minute {
		k.wake(max(1, wake-k.w.now))
	}
}

// Submit implements [coordinator.Log]: the coordinator may die before entries are registered,
// or after it.
func (k *coordinatorProcess) Submit(_ context.Context, entries ...*entry.Entry) (taken int, err error) {
	if k.w.fault(k.w.plan.crash / 2) {
		return 0, errLost
	}
	for _, e := range entries {
		if _, err := k.w.ledger.submit(e); err != nil {
			return taken, err
		}
		taken++
	}
	if k.w.fault(k.w.plan.crash / 2) {
		err = errLost
	}
	return taken, err
}

// Wait implements [coordinator.Log]. Nobody calls it: the coordinator takes single steps.
func (k *coordinatorProcess) Wait(ctx context.Context, _ uint64) error { return ctx.Err() }

// Now implements [coordinator.Log].
func (k *coordinatorProcess) Now() int64 { return max(k.w.now, k.w.ledger.last) }

var _ agent.Ledger = (*node)(nil)
