package server_test

import (
	"testing"

	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestHistoryShowsAttempts: a history has the cases of the newest attempt entries about the
// principal's work, with the proven entries. It has neither those of a shadow, nor what the
// principal decided about others. An attempt in its work is enough for a principal to have a
// history, and so is its enrolment.
func TestHistoryShowsAttempts(t *testing.T) {
	n := start(t, nil)
	key := newSigner(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine), n.good())
	put := func(of entry.Principal, arm entry.Arm, cases ...string) {
		t.Helper()
		a := &entry.Attempt{Header: n.header("engine-1", "w"), Agent: of, Policy: entry.DigestOf("rules"), Arm: arm,
			AttemptCase: entry.AttemptCase{Case: cases[0], Status: entry.StatusEscalated, Rungs: []entry.Rung{}}}
		for _, id := range cases[1:] {
			a.Also = append(a.Also, entry.AttemptCase{Case: id, Status: entry.StatusRecovered, Rungs: []entry.Rung{}})
		}
		a.JTI = uuid.NewString()
		n.register(sign(t, key, a))
	}
	put("agent-1", "", "old")
	for range 4 {
		put("agent-1", entry.ArmControl, "between")
	}
	put("agent-1", entry.ArmShadow, "beside")
	put("agent-2", "", "other")
	put("agent-1", entry.ArmCanary, "one", "two")
	n.register(n.enrol("idle", newSigner(t), entry.RoleAgent))
	if h := value[api.History](n, "/v1/agents/idle/history"); h.Principal != "idle" || h.SignalLimit == 0 {
		t.Errorf("a principal without an entry of its own: %+v", h)
	}
	h := value[api.History](n, "/v1/agents/agent-1/history")
	if len(h.Attempts) != 6 || h.Attempts[0].Case != "one" || h.Attempts[0].Status != entry.StatusEscalated || h.Attempts[0].Arm != entry.ArmCanary ||
		h.Attempts[1].Case != "two" || h.Attempts[1].Status != entry.StatusRecovered || h.Attempts[5].Case != "between" || len(h.Entries) != 5 {
		t.Errorf("%d entries, attempts %+v", len(h.Entries), h.Attempts)
	}
	if h := value[api.History](n, "/v1/agents/agent-1/history?before=3"); len(h.Attempts) != 0 {
		t.Errorf("the next page has attempts: %+v", h.Attempts)
	}
	for query, attempts := range map[string]int{"": 1, "?after=0": 0, "?before=9": 0} { // nobody enrolled agent-2
		if h := value[api.History](n, "/v1/agents/agent-2/history"+query); h.Principal != "agent-2" || len(h.Attempts) != attempts {
			t.Errorf("%q: %+v", query, h)
		}
	}
	if h := value[api.History](n, "/v1/agents/engine-1/history"); len(h.Attempts) != 0 {
		t.Errorf("the engine did not work at %+v", h.Attempts)
	}
}
