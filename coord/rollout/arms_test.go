package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// TestFollow follows lists of a log with two rollouts. A list that lacks an entry before another
// one is refused, and the state stays.
func TestFollow(t *testing.T) {
	rules := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
	start := func(name string) *entry.Rollout {
		return &entry.Rollout{Rollout: name, Op: entry.RolloutStart, Stage: entry.StageShadow, Start: &entry.RolloutTerms{
			CandidateDigest: DigestOf(rules), BaselineDigest: recovery.Default().Hash(), Candidate: rules, Salt: "s", Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: 1000}}
	}
	log := []entry.Body{
		&entry.Policy{}, start("r1"), &entry.Rollout{Rollout: "r1", Op: entry.RolloutAdvance, Stage: entry.StageCanary, SharePermille: 500},
		&entry.Policy{Rollout: &entry.Promotion{Rollout: "r1"}}, &entry.Signal{}, start("r2"), &entry.Rollout{Rollout: "r2", Op: entry.RolloutAbort}, &entry.Policy{},
	}
	follow := func(left ...int) (f Fold, refused int) {
		for i, body := range log {
			if slices.Contains(left, i) {
				continue
			}
			before := f.Clone()
			if err := f.follow(&entry.Registered{Entry: &entry.Entry{Kind: body.Kind(), Body: body}, Index: uint64(i), RegisteredAt: int64(i)}); err != nil {
				if (f.Current() == nil) != (before.Current() == nil) || len(f.History()) != len(before.History()) {
					t.Errorf("without %v, entry %d was taken up in part: %v", left, i, err)
				}
				return f, i
			}
		}
		return f, -1
	}
	f, refused := follow()
	if all := f.History(); refused >= 0 || f.Current() != nil || len(all) != 2 || all[0].Outcome != Promoted || all[0].Ended != 3 || all[1].Outcome != Aborted || all[1].Rollout != "r2" {
		t.Errorf("entry %d refused: %+v", refused, all)
	}
	for _, test := range []struct{ left, refused int }{{1, 2}, {3, 5}, {5, 6}, {4, -1}, {7, -1}} {
		if _, refused := follow(test.left); refused != test.refused {
			t.Errorf("without entry %d, entry %d is refused, want %d", test.left, refused, test.refused)
		}
	}
	if _, refused := follow(1, 2); refused != 3 {
		t.Errorf("a promotion without its rollout: %d", refused)
	}
}

// TestUnpriced: one attempt without a price makes the cost of its case unknown, also if an earlier
// entry has the attempt. A wait and a probe need none, and what was not made cost nothing.
func TestUnpriced(t *testing.T) {
	rung := func(strategy recovery.Strategy, result recovery.Result, cost *int64) entry.Rung {
		return entry.Rung{Strategy: string(strategy), Result: string(result), CostMicroUSD: cost}
	}
	paid := rung(recovery.Retry, recovery.ResultFailed, new(int64(5)))
	for _, test := range []struct {
		name string
		last entry.Rung
		want int64 // cases whose cost is known
	}{
		{"priced", rung(recovery.FallbackModel, recovery.ResultOK, new(int64(2))), 1},
		{"free", rung(recovery.FallbackModel, recovery.ResultOK, new(int64(0))), 1},
		{"unpriced", rung(recovery.FallbackModel, recovery.ResultOK, nil), 0},
		{"unpriced and failed", rung(recovery.FallbackModel, recovery.ResultFailed, nil), 0},
		{"unpriced and not verified", rung(recovery.FallbackModel, recovery.ResultUnverified, nil), 0},
		{"a wait", rung(recovery.Wait, recovery.ResultOK, nil), 1},
		{"a probe", rung(recovery.Reconcile, recovery.ResultOK, nil), 1},
		{"not made", rung(recovery.Escalate, recovery.ResultDecided, nil), 1},
		{"not observed", rung(recovery.FallbackModel, recovery.ResultNotObserved, nil), 1},
	} {
		for _, earlier := range []bool{false, true} {
			first, last := &entry.AttemptCase{Rungs: []entry.Rung{paid}}, &entry.AttemptCase{Status: entry.StatusRecovered, CostMicroUSD: new(int64(7)), Rungs: []entry.Rung{test.last}}
			if earlier {
				first.Rungs, last.Rungs = last.Rungs, first.Rungs
			}
			var open Open
			open.Note(1, entry.ArmCanary, first, false)
			r := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: 30}}
			r.Evidence = newEvidence(&r.Terms)
			if r.take(last, open.end(1), true); r.Evidence.Canary.Costed != test.want {
				t.Errorf("%s, earlier %t: %d cases with a cost", test.name, earlier, r.Evidence.Canary.Costed)
			}
		}
	}
}
