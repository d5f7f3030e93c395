package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const zero = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// exec registers one entry of an execution.
func (b *book) exec(ref string, effect entry.Effect, progress entry.Progress, parents ...string) {
	b.tb.Helper()
	iss, id, _ := strings.Cut(ref, "#")
	x := &entry.Execution{Exec: id, Effect: effect, Progress: progress, Parents: []entry.Parent{}}
	if effect == entry.EffectCompensable || effect == entry.EffectIrrevocable {
		x.IdempotencyKey = zero
	}
	for _, parent := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: entry.Ref(parent), Dep: entry.Hard})
	}
	b.write(entry.Principal(iss), x)
}

// did registers an execution up to its confirmation.
func (b *book) did(ref string, effect entry.Effect, parents ...string) {
	b.tb.Helper()
	if effect != entry.EffectNone {
		b.exec(ref, effect, entry.Started, parents...)
	}
	b.exec(ref, effect, entry.Confirmed, parents...)
}

// pipeline is what source, worker and writer did before somebody noticed.
func (b *book) pipeline() {
	b.tb.Helper()
	b.write("worker", &entry.Checkpoint{Checkpoint: "c0", Digest: zero})
	b.did("source#read", entry.EffectNone)
	b.did("worker#draft", entry.EffectReversible, "source#read")
	b.exec("worker#later", entry.EffectReversible, entry.Planned, "worker#draft")
	b.did("worker#memo", entry.EffectReversible)
	b.did("worker#charge", entry.EffectCompensable, "worker#draft")
	b.did("writer#page", entry.EffectCompensable, "worker#charge")
	b.exec("worker#slow", entry.EffectReversible, entry.Started, "worker#draft")
}

// signal reports an execution by its agent, and returns the incident.
func (b *book) signal(subject string) uint64 {
	b.tb.Helper()
	iss, _, _ := strings.Cut(subject, "#")
	return b.write(entry.Principal(iss), &entry.Signal{Subject: entry.Ref(subject), Class: "output", Code: "ungrounded", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: b.now}).Index
}

// signalAgain reports what an incident that is over had as a member.
func (b *book) signalAgain(subject string, before uint64) uint64 {
	b.tb.Helper()
	iss, _, _ := strings.Cut(subject, "#")
	return b.write(entry.Principal(iss), &entry.Signal{Subject: entry.Ref(subject), Class: "output", Code: "ungrounded", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: b.now,
		Supersedes: &entry.LogRef{Index: before, LeafHash: merkle.HashLeaf(b.leaves[before])}}).Index
}

// coordinate registers what the coordinator writes now.
func (b *book) coordinate() {
	b.tb.Helper()
	todo, _ := b.state.Next(b.now)
	for _, body := range todo {
		if _, err := b.try("coordinator", body); err != nil {
			b.refused = b.refused[:len(b.refused)-1] // overtaken by the one before
		}
	}
}

// results returns what became of the members of an incident.
func (b *book) results(incident uint64) map[entry.Ref]entry.Result {
	b.tb.Helper()
	view, ok := b.state.PlanInForce(incident, b.now)
	if !ok {
		b.tb.Fatal("no plan in force")
	}
	found := map[entry.Ref]entry.Result{}
	for _, m := range view.Members {
		found[m.Exec] = m.Result
	}
	return found
}

// outside is the world that hooks change: it counts what was done to it.
type outside struct {
	fault   func(call string) error
	effects map[string]int // by what was done
	keys    map[string]bool
	repeat  bool // what is done twice has one effect
	says    map[agent.Hook]agent.Status
	calls   []string
}

func newOutside() *outside {
	return &outside{effects: map[string]int{}, keys: map[string]bool{}, says: map[agent.Hook]agent.Status{}}
}

// what names the effect of a call.
func what(hook agent.Hook, c *agent.Call) string {
	if hook == agent.Restore {
		return "restore " + string(c.Checkpoint)
	}
	return string(hook) + " " + string(c.Members[0].Exec)
}

func (o *outside) at(call string) error {
	if o.fault == nil {
		return nil
	}
	return o.fault(call)
}

func (o *outside) hook(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if err := o.at("hook"); err != nil {
		return nil, err
	}
	o.calls = append(o.calls, what(c.Hook, c))
	if status := o.says[c.Hook]; status != "" && status != agent.Done {
		return &agent.Report{Status: status, Residual: "something"}, o.at("hook!")
	}
	name := what(c.Hook, c)
	id := name + c.Key
	if !o.repeat || !o.keys[id] {
		o.effects[name]++
	}
	o.keys[id] = true
	return o.done(c.Hook, c), o.at("hook!")
}

func (o *outside) done(hook agent.Hook, c *agent.Call) *agent.Report {
	r := &agent.Report{Status: agent.Done}
	switch hook {
	case agent.Restore:
		r.Digest = c.Digest
	case agent.Drain:
		if strings.HasSuffix(string(c.Members[0].Exec), "slow") {
			r.Progress = entry.Confirmed
		}
	}
	return r
}

// probe knows exactly what was done.
func (o *outside) probe(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if err := o.at("probe"); err != nil {
		return nil, err
	}
	keys := c.Keys
	if len(keys) == 0 {
		keys = []string{""}
	}
	report := &agent.Report{Status: agent.NoEffect}
	if slices.ContainsFunc(keys, func(key string) bool { return o.keys[what(c.Of, c)+key] }) {
		report = o.done(c.Of, c)
	}
	return report, o.at("probe!")
}

// kit is how much an agent can find out.
type kit string

const (
	probing    kit = "probe"      // hooks run once, Probe knows
	idempotent kit = "idempotent" // hooks may run again
	bare       kit = "bare"       // neither
)

func (o *outside) hooks(k kit) agent.Hooks {
	h := agent.Hooks{Drain: o.hook, Restore: o.hook, Compensate: o.hook, Cancel: o.hook}
	switch k {
	case probing:
		h.Probe = o.probe
	case idempotent:
		o.repeat = true
		h.Idempotent = []agent.Hook{agent.Drain, agent.Restore, agent.Compensate, agent.Cancel}
	}
	return h
}

// player is an agent with its store and its world, in a scene.
type player struct {
	name   entry.Principal
	desk   *desk
	store  *memory
	world  *outside
	kit    kit
	agent  *agent.Agent
	events []agent.Event
	change func(*agent.Config)
	wake   int64
}

func (b *book) player(name entry.Principal, k kit) *player {
	b.tb.Helper()
	p := &player{name: name, desk: &desk{book: b, agent: name}, store: newMemory(), world: newOutside(), kit: k}
	must(b.tb, agent.Init(p.store, b.root, name, b.now))
	p.open()
	return p
}

// open begins the agent's next life.
func (p *player) open() {
	p.desk.tb.Helper()
	must(p.desk.tb, p.tryOpen())
}

func (p *player) tryOpen() error {
	cfg := agent.Config{Root: p.desk.root, Agent: p.name, Secret: []byte("sixteen or more of " + p.name), Sign: p.desk.sign(p.name), NewID: p.desk.id,
		Ledger: p.desk, Log: p.desk, Second: p.desk, Store: p.store, Hooks: p.world.hooks(p.kit),
		Tell: func(e agent.Event) { p.events = append(p.events, e) }}
	if p.change != nil {
		p.change(&cfg)
	}
	var err error
	p.agent, err = agent.Open(&cfg, p.desk.now)
	p.wake = 0
	return err
}

// told reports whether the agent told of something.
func (p *player) told(kind agent.EventKind) bool {
	return slices.ContainsFunc(p.events, func(e agent.Event) bool { return e.Kind == kind })
}

// errCrash ends the life of an agent.
var errCrash = errors.New("crash")

// play steps the agents and the coordinator until nothing happens before an
// instant; a player whose crash says so begins anew.
func play(tb testing.TB, b *book, until int64, crashed func(p *player) bool, players ...*player) {
	tb.Helper()
	for steps := 0; ; steps++ {
		if steps > 20_000 {
			tb.Fatalf("no end; refused: %v; events: %v", b.refused, players[0].events[max(0, len(players[0].events)-20):])
		}
		next := until
		size := b.size()
		for _, p := range players {
			if p.wake > b.now {
				next = min(next, p.wake)
				continue
			}
			wake, err := p.agent.Step(context.Background(), b.now)
			if crashed != nil && crashed(p) {
				p.open()
				wake = b.now
			} else {
				must(tb, err)
			}
			p.wake = wake
			next = min(next, max(wake, b.now))
		}
		b.coordinate()
		if b.size() != size {
			for _, p := range players {
				p.agent.Poke()
				p.wake = b.now
			}
			continue
		}
		if next > b.now {
			if next >= until {
				return
			}
			b.now = next
		}
	}
}

func (p *player) String() string { return fmt.Sprintf("%s: %v", p.name, p.world.effects) }
