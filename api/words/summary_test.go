package words_test

import (
	"testing"

	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// TestSummary says what an attempt, the steps of a rollout, and the policy that ends one say.
func TestSummary(t *testing.T) {
	one := entry.AttemptCase{Case: "c1", Status: entry.StatusRecovered}
	step := func(r entry.Rollout) *entry.Rollout {
		r.Rollout, r.Reason = "r7", "tried by hand"
		return &r
	}
	for want, body := range map[string]entry.Body{
		"case c1 of run r1: auto_recovered":                           &entry.Attempt{Run: "r1", AttemptCase: one},
		"case c1 of a: auto_recovered by the candidate, beside":       &entry.Attempt{Agent: "a", Arm: entry.ArmShadow, AttemptCase: one},
		"case c1 of a: auto_recovered, and 1 further case":            &entry.Attempt{Agent: "a", AttemptCase: one, Also: make([]entry.AttemptCase, 1)},
		"case c1 of run r1 of a: auto_recovered, and 2 further cases": &entry.Attempt{Run: "r1", Agent: "a", AttemptCase: one, Also: make([]entry.AttemptCase, 2)},
		"start rollout r7: shadow: tried by hand":                     step(entry.Rollout{Op: entry.RolloutStart, Stage: entry.StageShadow}),
		"advance rollout r7: canary of 50 ‰: tried by hand":           step(entry.Rollout{Op: entry.RolloutAdvance, Stage: entry.StageCanary, SharePermille: 50}),
		"abort rollout r7: gate unsafe: tried by hand":                step(entry.Rollout{Op: entry.RolloutAbort, Gate: entry.GateUnsafe}),
		"abort rollout r7: tried by hand":                             step(entry.Rollout{Op: entry.RolloutAbort}),
		"waive rollout r7: tried by hand":                             step(entry.Rollout{Op: entry.RolloutWaive}),
		"genesis":                                                     &entry.Policy{},
		"replaces 4":                                                  &entry.Policy{Previous: &entry.LogRef{Index: 4}},
		"replaces 4, promotes rollout r7":                             &entry.Policy{Previous: &entry.LogRef{Index: 4}, Rollout: &entry.Promotion{Rollout: "r7"}},
	} {
		if got := words.Summary(body); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
