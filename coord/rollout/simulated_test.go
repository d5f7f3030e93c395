package rollout

import (
	"math/rand/v2"
	"testing"

	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// behavior is how an arm does: recoveries in a thousand cases, mean cost and mean time.
type behavior struct{ recovers, cost, elapsed int64 }

func (b behavior) draw(r *rand.Rand) *entry.AttemptCase {
	c := &entry.AttemptCase{Case: "c", Status: entry.StatusEscalated}
	if r.Int64N(1000) < b.recovers {
		c.Status = entry.StatusRecovered
	}
	cost, elapsed := b.cost/2+r.Int64N(b.cost), b.elapsed/2+r.Int64N(b.elapsed)
	c.CostMicroUSD, c.ElapsedMS = &cost, &elapsed
	return c
}

// simulate runs rollouts of so many pairs of cases, watched after every case. It counts those that
// a gate ends, and those in which the candidate is better by a gate and none fell.
func simulate(rollouts, pairs int, canary, control behavior) (aborted, better int) {
	r := rand.New(rand.NewPCG(7, 11))
	for range rollouts {
		one := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: 30}}
		one.Evidence = newEvidence(&one.Terms)
		for range pairs {
			one.take(control.draw(r), false)
			one.take(canary.draw(r), true)
			if one.Evidence.Fell != "" {
				break
			}
		}
		wins := 0
		for i := range one.Evidence.Gates {
			if one.Evidence.Gates[i].Watch.Answer == judge.Candidate {
				wins++
			}
		}
		switch {
		case one.Evidence.Fell != "":
			aborted++
		case wins > 0:
			better++
		}
	}
	return aborted, better
}

// TestAlikeArmsChaos: of rollouts of a policy against itself at most 5 % are aborted, and in at
// most 5 % the candidate looks better, whatever the policy is like.
func TestAlikeArmsChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 300, Usual: 1000, Chaos: 10_000}.Now()
	for _, b := range []behavior{{100, 5000, 900}, {500, 5000, 900}, {750, 5000, 900}, {950, 5000, 900}} {
		aborted, better := simulate(rollouts, 400, b, b)
		t.Logf("%+v: of %d rollouts %d are aborted, and in %d the candidate looks better", b, rollouts, aborted, better)
		if 20*aborted > rollouts || 20*better > rollouts {
			t.Errorf("%+v: %d and %d of %d", b, aborted, better, rollouts)
		}
	}
}

// TestPowerOfGatesChaos: the effects that docs/rollout.md states are found as often as it states.
func TestPowerOfGatesChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 100, Usual: 200, Chaos: 2000}.Now()
	base := behavior{750, 5000, 900}
	for _, test := range []struct {
		name   string
		canary behavior
		pairs  int
		least  int // percent of the rollouts that are aborted
	}{
		{"recovers 55 % and not 75 %", behavior{550, 5000, 900}, 400, 90},
		{"recovers 65 % and not 75 %", behavior{650, 5000, 900}, 1500, 90},
		{"costs 20 % more", behavior{750, 6000, 900}, 400, 90},
		{"takes 20 % longer", behavior{750, 5000, 1080}, 400, 90},
	} {
		aborted, _ := simulate(rollouts, test.pairs, test.canary, base)
		t.Logf("%s: %d of %d are aborted within %d pairs", test.name, aborted, rollouts, test.pairs)
		if 100*aborted < test.least*rollouts {
			t.Errorf("%s: %d of %d", test.name, aborted, rollouts)
		}
	}
}
