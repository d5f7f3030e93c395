package agent_test

import (
	"context"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// TestLineOfAllWorkflows: where the agent's line goes through all workflows, a
// drain that nobody knows the end of holds back all of it.
func TestLineOfAllWorkflows(t *testing.T) {
	for drained, want := range map[agent.Status]entry.Result{agent.Done: entry.Restored, agent.Unknown: entry.Withheld} {
		b := newBook(t)
		b.write("root", &entry.Agent{Principal: "rover", Op: entry.Enrol, Key: b.public("rover"), Roles: []entry.Role{entry.RoleAgent}, Domain: "d", Span: entry.SpanAgent})
		b.write("rover", &entry.Checkpoint{Checkpoint: "c0", Digest: zero})
		b.did("source#read", entry.EffectNone)
		for id, wid := range map[string]entry.WorkflowID{"here": "flow", "there": "elsewhere"} {
			for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
				b.write("rover", &entry.Execution{Header: entry.Header{Wid: wid}, Exec: id, Effect: entry.EffectReversible, Progress: progress,
					Parents: []entry.Parent{{Exec: "source#read", Dep: entry.Hard}}})
			}
		}
		rover := b.player("rover", bare)
		rover.change = func(c *agent.Config) {
			c.Hooks.Drain = func(_ context.Context, c *agent.Call) (*agent.Report, error) {
				if c.Members[0].Wid == "elsewhere" {
					return &agent.Report{Status: drained}, nil
				}
				return &agent.Report{Status: agent.Done}, nil
			}
		}
		rover.open()
		play(t, b, b.now+1, nil, rover)
		incident := b.signal("source#read")
		play(t, b, b.now+200_000, nil, rover)
		if got := b.results(incident)["rover#here"]; got != want || (rover.world.effects["restore rover#c0"] == 0) == (want == entry.Restored) {
			t.Errorf("drained %s: %q, want %q; %v; refused %v; %v", drained, got, want, rover, b.refused, rover.events)
		}
	}
}
