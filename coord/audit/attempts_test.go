package audit

import (
	"bytes"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestAttemptsOf counts cases by agent, restores the follower from its snapshot, and goes on. A
// shadow counts for none, and a case whose agent nobody knows for the issuer.
func TestAttemptsOf(t *testing.T) {
	f := followed(t, rolledBack(t).Entries)
	cost := int64(70)
	of := func(status entry.CaseStatus) entry.AttemptCase {
		return entry.AttemptCase{Case: "c", Status: status, CostMicroUSD: &cost}
	}
	two := entry.Attempt{Agent: "a", AttemptCase: of(entry.StatusRecovered), Also: []entry.AttemptCase{of(entry.StatusEscalated)}}
	f.attempted(&two, 7)
	f.attempted(&entry.Attempt{Agent: "a", Arm: entry.ArmShadow, AttemptCase: of(entry.StatusEscalated)}, 8)
	f.attempted(&entry.Attempt{Header: entry.Header{Iss: "r"}, Run: "run", AttemptCase: entry.AttemptCase{Case: "c", Status: entry.StatusNoFailure}}, 9)
	again := NewFollower(origin)
	must(t, again.Restore(bytes.NewReader(followerSnapshot(t, f))))
	again.attempted(&two, 10)
	for p, want := range map[entry.Principal]Attempts{
		"a":      {Cases: 4, Recovered: 2, Escalated: 2, CostMicroUSD: 280, Entries: 2, Newest: 10},
		"r":      {Cases: 1, Entries: 1, Newest: 9},
		"nobody": {},
	} {
		if got := again.AttemptsOf(p); got != want {
			t.Errorf("%s: %+v, want %+v", p, got, want)
		}
	}
}
