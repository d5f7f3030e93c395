package agent

import (
	"errors"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestRefusalOfProblem: what a ledger says of a refusal over HTTP reaches the agent
// whole, so that it can tell what to wait for from what to do again.
func TestRefusalOfProblem(t *testing.T) {
	want := entry.Refuse(entry.FencedDependency, "parents[0].exec", "b#pay was undone").WithRemedy("do it again")
	want.Incident, want.WaitsFor, want.RetryAfterMS = 20, "1 of 2 outcomes", 7
	got, ok := errors.AsType[*entry.Refusal](refusalOf(api.NewProblem(want)))
	if !ok || *got != *want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
