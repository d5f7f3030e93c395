package rollout

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

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
func simulate(rollouts, pairs int, casesMin int64, canary, control behavior) (aborted, better int) {
	r := rand.New(rand.NewPCG(7, 11))
	for range rollouts {
		one := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: casesMin}}
		one.Evidence = newEvidence(&one.Terms)
		for range pairs {
			one.take(control.draw(r), begun{}, false)
			one.take(canary.draw(r), begun{}, true)
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
	for i, b := range []behavior{{100, 5000, 900}, {500, 5000, 900}, {750, 5000, 900}, {950, 5000, 900}, {500, 5000, 900}} {
		casesMin := int64(30)
		if i == 4 { // a floor is no part of the argument
			casesMin = 1
		}
		aborted, better := simulate(rollouts, 400, casesMin, b, b)
		t.Logf("%+v: of %d rollouts %d are aborted, and in %d the candidate looks better", b, rollouts, aborted, better)
		if 20*aborted > rollouts || 20*better > rollouts {
			t.Errorf("%+v: %d and %d of %d", b, aborted, better, rollouts)
		}
	}
}

// outcomes counts how simulated rollouts end.
type outcomes struct {
	aborted, promoted int
	better            int // of the promoted: a gate calls the candidate the better arm
}

// promotions takes rollouts through the fold: entries begin a canary of half of the cases, attempt
// entries are the evidence, and after as many cases of the canary as its terms ask for, the
// policy's authority promotes with a report that says promote. The fold aborts or takes the
// promotion.
func promotions(t *testing.T, rollouts int, casesMin int64, canary, control behavior) (o outcomes) {
	t.Helper()
	r := rand.New(rand.NewPCG(17, 19))
	rules := jsontext.Value(`{"a":1}`)
	candidate, baseline := DigestOf(rules), DigestOf(jsontext.Value(`{"a":2}`))
	for n := range rollouts {
		var f Fold
		f.Apply(&entry.Rollout{Rollout: "r", Op: entry.RolloutStart, Stage: entry.StageCanary, SharePermille: entry.ShareMax,
			Start: &entry.RolloutTerms{CandidateDigest: candidate, BaselineDigest: baseline, Candidate: rules, Salt: strconv.Itoa(n),
				Gates: entry.RolloutGates(), CasesMin: casesMin, DeadlineAt: 1000}}, 1, 1)
		f.ApplyRun(&entry.Run{Op: "close", PolicyDigest: candidate, BaselineDigest: baseline, ReportDigest: candidate, Recommendation: "promote"})
		promotion := entry.Policy{Recovery: rules, Rollout: &entry.Promotion{Rollout: "r", Report: candidate}}
		for i := 0; ; i++ {
			a := entry.Attempt{Policy: baseline, Arm: entry.ArmControl, AttemptCase: *control.draw(r)}
			if a.Case = strconv.Itoa(i); f.Decides(a.Case) {
				a.Policy, a.Arm, a.AttemptCase = candidate, entry.ArmCanary, *canary.draw(r)
				a.Case = strconv.Itoa(i)
			}
			f.Observe(&a)
			if abort, _ := f.Next(2, 0); abort != nil {
				o.aborted++
				break
			}
			if now := f.Current(); now.Evidence.Canary.Cases < casesMin || now.Evidence.Control.Cases < casesMin {
				continue
			}
			if err := f.AdmitPolicy(&promotion, Law{}); err != nil {
				t.Fatal(err)
			}
			o.promoted++
			if slices.ContainsFunc(f.Current().Evidence.Gates, func(c Comparison) bool { return c.Watch.Answer == judge.Candidate }) {
				o.better++
			}
			break
		}
	}
	return o
}

// TestPromotionsChaos: of rollouts of a policy against itself at most 5 % are aborted, and in at
// most 5 % the promoted candidate looks better. A candidate that is worse by what docs/rollout.md
// states, and whose report promotes all the same, is promoted in at most 5 %.
func TestPromotionsChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 20, Usual: 40, Chaos: 10_000}.Now()
	base := behavior{750, 5000, 900}
	for _, test := range []struct {
		name     string
		canary   behavior
		casesMin int64
	}{
		{"alike", base, 30}, {"alike", base, 400},
		{"recovers 55 %", behavior{550, 5000, 900}, 400}, {"recovers 65 %", behavior{650, 5000, 900}, 1500},
		{"costs 20 % more", behavior{750, 6000, 900}, 400},
	} {
		o := promotions(t, rollouts, test.casesMin, test.canary, base)
		t.Logf("%s, %d cases: of %d rollouts %+v", test.name, test.casesMin, rollouts, o)
		alike := test.canary == base
		if o.aborted+o.promoted != rollouts || alike && (20*o.aborted > rollouts || 20*o.better > rollouts) || !alike && 20*o.promoted > rollouts {
			t.Errorf("%s, %d cases: of %d rollouts %+v", test.name, test.casesMin, rollouts, o)
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
		aborted, _ := simulate(rollouts, test.pairs, 30, test.canary, base)
		t.Logf("%s: %d of %d are aborted within %d pairs", test.name, aborted, rollouts, test.pairs)
		if 100*aborted < test.least*rollouts {
			t.Errorf("%s: %d of %d", test.name, aborted, rollouts)
		}
	}
}
