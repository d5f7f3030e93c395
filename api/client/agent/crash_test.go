package agent_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// fuse ends the life of an agent at the n-th thing that it does, and the next at
// later ones.
type fuse struct {
	ticks   int
	blow    []int
	crashed bool
	lives   int
}

func (f *fuse) at(string) error {
	if f.crashed {
		return errCrash // nothing more happens in this life
	}
	f.ticks++
	if len(f.blow) > 0 && f.ticks == f.blow[0] {
		f.blow, f.ticks, f.crashed = f.blow[1:], 0, true
		return errCrash
	}
	return nil
}

// damage is the pipeline when its failure is noticed, and the agents of it.
type damage struct {
	*book
	stores   map[entry.Principal]*memory
	incident uint64
}

func newDamage(t *testing.T) *damage {
	t.Helper()
	b := newBook(t)
	worker, writer := b.player("worker", probing), b.player("writer", probing)
	play(t, b, b.now+1, nil, worker, writer)
	b.pipeline()
	return &damage{b, map[entry.Principal]*memory{"worker": worker.store, "writer": writer.store}, b.signal("source#read")}
}

// ahead has the writer compensate, so that nobody waits for it.
func (d *damage) ahead() *damage {
	play(d.tb, d.book, d.now+1000, nil, d.player(d.book, "writer", probing))
	return d
}

// player returns an agent of a copy of the damage.
func (d *damage) player(b *book, name entry.Principal, k kit) *player {
	p := &player{name: name, desk: &desk{book: b, agent: name}, store: &memory{docs: maps.Clone(d.stores[name].docs)}, world: newOutside(), kit: k}
	p.open()
	return p
}

// crashAt plays the pipeline with a worker that crashes, and checks that no
// effect came twice, that nothing was forgotten and that nothing was guessed. It
// returns whether every crash took place.
func crashAt(t *testing.T, d *damage, k kit, blow ...int) bool {
	t.Helper()
	b, incident := d.clone(), d.incident
	worker := d.player(b, "worker", k)
	f := &fuse{blow: blow}
	worker.desk.fault, worker.store.fault, worker.world.fault = f.at, f.at, f.at
	play(t, b, b.now+200_000, func(p *player) bool {
		crashed := p == worker && f.crashed
		if crashed {
			f.crashed = false
			f.lives++
		}
		return crashed
	}, worker)
	complain := func(format string, args ...any) {
		t.Errorf("%s, crashes %v: "+format+"; %v; refused %v", append(append([]any{k, blow}, args...), worker, b.refused)...)
	}
	for name, count := range worker.world.effects {
		if count > 1 {
			complain("%s %d times", name, count)
		}
	}
	results := b.results(incident)
	for exec, got := range results {
		if owner, _ := exec.Split(); owner != "worker" {
			continue
		}
		restored, compensated := worker.world.effects["restore worker#c0"] > 0, worker.world.effects["compensate "+string(exec)] > 0
		switch {
		case got == entry.Withheld && k == bare: // a drain of its line is unknown
		case got == "" || got == entry.Withheld || got == entry.Refused || got == entry.ResultFailed:
			complain("%s ended as %q", exec, got)
		case got == entry.Restored && !restored || got == entry.Compensated && !compensated:
			complain("%s is said to be %s", exec, got)
		case got == entry.ResultUnknown && k != bare:
			complain("%s is unknown", exec)
		}
	}
	if !worker.agent.Idle() {
		complain("the agent has not ended")
	}
	view, _ := b.state.Incident(incident, b.now)
	if view.State.Open() {
		complain("incident %s", view.State)
	}
	return f.lives == len(blow)
}

// TestCrashAnywhere crashes the worker before and after every write, call and
// hook, once and twice.
// Draft: EXE-2, AGT-4a.
func TestCrashAnywhere(t *testing.T) {
	budget.Unraced(t, "TestCrashTwiceChaos crashes at some of these places")
	states, d := 0, newDamage(t).ahead()
	for _, k := range []kit{probing, idempotent, bare} {
		for first := 1; crashAt(t, d, k, first); first++ {
			states++
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d states", states)
}

// TestCrashTwiceChaos crashes the worker again while it recovers: at every pair
// of places, or at some of them.
// Draft: AGT-4b.
func TestCrashTwiceChaos(t *testing.T) {
	rng, states := rand.New(rand.NewPCG(1, 2)), 0
	pairs := budget.Budget{Short: 20, Usual: 40, Chaos: 6000}.Now()
	d := newDamage(t).ahead()
	for range pairs {
		blow := []int{1 + rng.IntN(90), 1 + rng.IntN(25), 1 + rng.IntN(25)}
		crashAt(t, d, []kit{probing, idempotent, bare}[rng.IntN(3)], blow...)
		states++
		if t.Failed() {
			return
		}
	}
	t.Logf("%d states", states)
}

// TestStoreFails: after a document could not be saved the agent does nothing more,
// whatever there is to do; its next life begins with what is there.
func TestStoreFails(t *testing.T) {
	d := newDamage(t).ahead()
	errFull := errors.New("no space left")
	for after := 0; ; after++ {
		b := d.clone()
		worker := d.player(b, "worker", probing)
		saves, failed := 0, false
		worker.store.fault = func(call string) error {
			if call != "save" || saves > after || failed {
				return nil
			}
			if saves++; saves <= after {
				return nil
			}
			failed = true
			return errFull
		}
		stopped := false
		for steps := 0; steps < 500 && !stopped; steps++ {
			_, err := worker.agent.Step(context.Background(), b.now)
			if stopped = err != nil; stopped && (!errors.Is(err, agent.ErrStopped) || !errors.Is(err, errFull)) {
				t.Fatalf("after %d documents: %v", after, err)
			}
			b.coordinate()
			b.now += 100
			worker.agent.Poke()
		}
		if !stopped {
			if after < 10 {
				t.Errorf("only %d documents", after)
			}
			return
		}
		size, calls := b.size(), len(worker.world.calls)
		for range 5 {
			if _, err := worker.agent.Step(context.Background(), b.now+1000); !errors.Is(err, agent.ErrStopped) {
				t.Fatalf("after %d documents: it goes on: %v", after, err)
			}
		}
		if b.size() != size || len(worker.world.calls) != calls {
			t.Fatalf("after %d documents: something is done though nothing can be noted", after)
		}
		worker.open()
		d.ends(t, b, restoredAll(), worker)
		for name, count := range worker.world.effects {
			if count > 1 {
				t.Errorf("after %d documents: %s %d times", after, name, count)
			}
		}
	}
}
