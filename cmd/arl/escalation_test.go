package main

import (
	"testing"

	"recoveryledger/api"
)

// TestWaitsForPeople: an incident waits for people when it is escalated, and when
// an amend of the plan in force is proposed.
func TestWaitsForPeople(t *testing.T) {
	for _, c := range []struct {
		state    string
		proposal *api.Proposal
		want     bool
	}{
		{"REPORTED", nil, false},
		{"CONTAINED", nil, false},
		{"ESCALATED", &api.Proposal{}, true},
		{"ESCALATED", nil, true},
		{"AUTHORIZED", nil, false},
		{"AUTHORIZED", &api.Proposal{}, true},
	} {
		if got := waitsForPeople(&api.Incident{State: c.state, Proposal: c.proposal}); got != c.want {
			t.Errorf("%s, proposal %v: %v", c.state, c.proposal != nil, got)
		}
	}
}
