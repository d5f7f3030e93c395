package client_test

import (
	"bytes"
	"errors"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

// TestHistoryOfAttempts: the attempts of a history are those of proven entries, all cases of each.
// A line that says otherwise, is missing, or is there twice is refused.
func TestHistoryOfAttempts(t *testing.T) {
	n := judged(t)
	n.add(sign(t, n.agent, &entry.Attempt{Header: header("agent-1", "flow-1"), Agent: "agent-1",
		AttemptCase: entry.AttemptCase{Case: "one", Status: entry.StatusEscalated, Rungs: []entry.Rung{}},
		Also:        []entry.AttemptCase{{Case: "two", Status: entry.StatusRecovered, Rungs: []entry.Rung{}}}}))
	h, err := n.client(nil).History(t.Context(), "agent-1")
	must(t, err)
	if len(h.Attempts) != 2 || h.Attempts[0].Case != "one" || h.Attempts[1].Status != entry.StatusRecovered {
		t.Fatalf("%+v", h.Attempts)
	}
	for name, change := range map[string][2]string{
		"status": {`"case":"one","status":"escalated"`, `"case":"one","status":"auto_recovered"`},
		"case":   {`"case":"two","status"`, `"case":"six","status"`},
		"rungs":  {`"rungs":0}],"entries"`, `"rungs":1}],"entries"`},
		"twice":  {`"attempts":[{`, `"attempts":[{"index":1,"case":"one","status":"escalated","rungs":0},{`},
	} {
		changed := false
		n.tamper("/v1/agents/agent-1/history", func(body []byte) []byte {
			lie := bytes.Replace(body, []byte(change[0]), []byte(change[1]), 1)
			changed = changed || !bytes.Equal(lie, body)
			return lie
		})
		if _, err := n.client(nil).History(t.Context(), "agent-1"); !errors.Is(err, client.ErrMalformed) || !changed {
			t.Errorf("%s: %v; changed: %t", name, err, changed)
		}
	}
}
