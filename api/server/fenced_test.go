package server_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Whoever builds on what is fenced is told over HTTP which incident fences it and
// what that waits for; and of one that is over that nothing lifts the fence, and
// what to do instead.
// Draft: INC-4e, ERR-2.
func TestFencedProblem(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	incident := func() *api.Incident { return value[api.Incident](c.node, fmt.Sprintf("/v1/incidents/%d", id)) }
	fenced := func(parent entry.Ref, waits, detail, remedy string) {
		t.Helper()
		x := work("agent-3", "next", entry.EffectNone, parent)
		x.Header, x.Progress = c.header("agent-3", "flow-1"), entry.Planned
		p := c.problem(c.post("application/json", c.by(&x).AppendEnvelope(nil)), entry.FencedDependency, 409)
		if p.Incident != id || p.WaitsFor != waits || !strings.Contains(p.Detail, detail) || !strings.Contains(p.Remedy, remedy) {
			t.Errorf("incident %d, waits for %q: %s (%s)", p.Incident, p.WaitsFor, p.Detail, p.Remedy)
		}
		if got := incident().WaitsFor; got != waits {
			t.Errorf("the incident waits for %q, the problem says %q", got, waits)
		}
	}
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActContain}))
	fenced("agent-1#make", "the coordinator", "is fenced by incident", "arl incident deny")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	fenced("agent-2#pay", "1 of 4 outcomes", "is fenced by incident", "wait until")
	fenced("agent-2#build", "1 of 4 outcomes", "was undone (not_executed)", "under a new id")
	c.ends(id, "agent-2#pay", entry.Compensated)
	c.put(c.drawnRecord(id))
	fenced("agent-2#pay", "", "was undone (compensated)", "under a new id, with parents that are not fenced")
	if got := incident().StillFenced; got != 4 {
		t.Errorf("%d members stay fenced", got)
	}
	again := c.did("agent-2", "pay-again", entry.EffectCompensable)
	c.did("agent-3", "next", entry.EffectNone, again)
}
