package agent_test

import (
	"context"
	"maps"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// TestOlderStore: an agent with a copy of its store from before it compensated
// sees in the log that it has. It does not do so again, nor say that it did not
// begin.
func TestOlderStore(t *testing.T) {
	const compensation = "work-20-14-compensate"
	d := newDamage(t).ahead()
	for _, k := range []kit{probing, bare} {
		cases := 0
		for after := 1; after < 60; after++ {
			b := d.clone()
			worker := d.player(b, "worker", k)
			var older map[string][]byte
			for range after {
				if worker.store.docs[compensation] == nil {
					older = maps.Clone(worker.store.docs)
				}
				_, err := worker.agent.Step(context.Background(), b.now)
				must(t, err)
				b.coordinate()
			}
			if worker.world.effects["compensate worker#charge"] == 0 {
				continue
			}
			cases++
			ended := b.results(d.incident)["worker#charge"] != ""
			worker.store = &memory{docs: older}
			worker.open()
			play(t, b, b.now+200_000, nil, worker)
			if !ended && !worker.told(agent.EventLost) {
				t.Errorf("%s, after %d steps: it does not see that its store is older than the log", k, after)
			}
			got, want := b.results(d.incident)["worker#charge"], entry.Compensated
			if k == bare && !ended {
				want = entry.ResultUnknown
			}
			if times := worker.world.effects["compensate worker#charge"]; times != 1 || got != want {
				t.Errorf("%s, after %d steps: compensated %d times, and said to be %q, want %q; refused %v", k, after, times, got, want, b.refused)
			}
		}
		if cases < 10 {
			t.Errorf("%s: only %d cases", k, cases)
		}
	}
}

// TestLostDocument: an undertaking that is gone from between others makes the
// store count as lost.
func TestLostDocument(t *testing.T) {
	d := newDamage(t).ahead()
	for after := 10; after < 60; after += 7 {
		b := d.clone()
		worker := d.player(b, "worker", bare)
		var order []string // of the undertakings
		for range after {
			before := maps.Clone(worker.store.docs)
			_, err := worker.agent.Step(context.Background(), b.now)
			must(t, err)
			for name := range worker.store.docs {
				if before[name] == nil && len(name) > len("work-") && name[:len("work-")] == "work-" {
					order = append(order, name)
				}
			}
			b.coordinate()
		}
		for _, name := range order[:max(0, len(order)-1)] {
			c := b.clone()
			again := &player{name: "worker", desk: &desk{book: c, agent: "worker"}, store: &memory{docs: maps.Clone(worker.store.docs)}, world: newOutside(), kit: bare}
			again.world.effects, again.world.keys = maps.Clone(worker.world.effects), maps.Clone(worker.world.keys)
			delete(again.store.docs, name)
			again.open()
			if !again.told(agent.EventLost) {
				t.Errorf("after %d steps: nobody was told that %s is gone", after, name)
			}
			play(t, c, c.now+200_000, nil, again)
			for what, times := range again.world.effects {
				if times > 1 {
					t.Errorf("after %d steps, without %s: %s %d times", after, name, what, times)
				}
			}
			again.events = nil
			again.open()
			if again.told(agent.EventLost) {
				t.Errorf("after %d steps, without %s: it is not mended: %v", after, name, again.events)
			}
		}
	}
}
