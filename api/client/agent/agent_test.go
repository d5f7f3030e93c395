package agent_test

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestPipeline carries a whole rollback out: three agents, every method, in
// order, each effect once, down to the record.
// Draft: AGT-0, AGT-5.
func TestPipeline(t *testing.T) {
	for _, k := range []kit{probing, idempotent, bare} {
		t.Run(string(k), func(t *testing.T) {
			b := newBook(t)
			worker, writer, source := b.player("worker", k), b.player("writer", k), b.player("source", k)
			play(t, b, b.now+1, nil, worker, writer, source) // first contact
			b.pipeline()
			incident := b.signal("source#read")
			play(t, b, b.now+100_000, nil, worker, writer, source)
			for exec, want := range map[entry.Ref]entry.Result{"source#read": entry.NotExecuted, "worker#draft": entry.Restored, "worker#later": entry.NotExecuted,
				"worker#memo": entry.Restored, "worker#charge": entry.Compensated, "writer#page": entry.Compensated, "worker#slow": entry.Restored} {
				if got := b.results(incident)[exec]; got != want {
					t.Errorf("%s: %q, want %q", exec, got, want)
				}
			}
			view, _ := b.state.Incident(incident, b.now)
			t.Log(view.State, worker.world.calls, writer.world.calls, b.refused)
			for _, p := range []*player{worker, writer} {
				for name, count := range p.world.effects {
					if count != 1 {
						t.Errorf("%s: %d times", name, count)
					}
				}
			}
			if view.State != entry.IncidentRecovered || len(b.refused) > 0 {
				t.Errorf("incident %s, refused %v", view.State, b.refused)
				t.Log(worker.events)
			}
		})
	}
}
