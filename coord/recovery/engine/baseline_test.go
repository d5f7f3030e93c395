package engine

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// judged returns the report of traces under the default policy, whose text differs as said.
func judged(t *testing.T, traces []Trace, base *Baseline, replace ...string) Report {
	t.Helper()
	text := string(recovery.DefaultDocument())
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("no %q in the default policy", replace[i])
		}
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	p, err := recovery.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tally, err := NewTally(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range traces {
		if err := tally.Add(&traces[i], leafOf([]byte{byte(i)})); err != nil {
			t.Fatal(err)
		}
	}
	r, err := tally.Report(Subject{Policy: p, Baseline: base})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finding is the verdict of a gate, a part of what it says, and the recommendation of the report.
type finding struct {
	verdict        Verdict
	detail         string
	recommendation Recommendation
}

// wants checks a gate, what it says, and the recommendation.
func wants(t *testing.T, r *Report, gate string, want finding) {
	t.Helper()
	at := slices.IndexFunc(r.Gates, func(g Gate) bool { return g.Gate == gate })
	if g := &r.Gates[at]; g.Verdict != want.verdict || !strings.Contains(g.Text(), want.detail) || r.Recommendation != want.recommendation {
		t.Errorf("gate %s: %s; %s, want %+v", gate, g.Text(), r.Recommendation, want)
	}
}

// escalated makes the cases of a slice escalate, as many as said.
func escalated(traces []Trace, tag string, most int) []Trace {
	all := slices.Clone(traces)
	for i := range all {
		if all[i].Status == AutoRecovered && slices.Contains(all[i].Tags, tag) && most > 0 {
			all[i].Status, all[i].Reason = Escalated, "ladder_exhausted"
			most--
		}
	}
	return all
}

// A run whose hold-out or adversarial cases fail is not promoted, however well the others do.
func TestSliceRejects(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	loose := []string{"recovery_rate_min_ppm: 700000", "recovery_rate_min_ppm: 600000"}
	r := judged(t, traces, nil, loose...)
	wants(t, &r, gateSlices, finding{Pass, "0 slices", Promote})
	r = judged(t, escalated(traces, "holdout", 9), nil, loose...)
	wants(t, &r, gateSlices, finding{Fail, "holdout recovers in 0 of 5 cases, wanted are 60 %", Reject})
	r = judged(t, escalated(traces, "adversarial", 9), nil)
	wants(t, &r, gateSlices, finding{Fail, "adversarial recovers in 0 of 6 cases, wanted are 70 %", Reject})
	own := []string{"slices: [adversarial, holdout]", "slices: [adversarial, holdout]\n    slice_recovery_rate_min_ppm: { holdout: 1000000, adversarial: 0 }"}
	r = judged(t, escalated(traces, "adversarial", 9), nil, append(own, loose...)...)
	wants(t, &r, gateSlices, finding{Pass, "0 slices", Promote})
	r = judged(t, escalated(traces, "holdout", 1), nil, own...)
	wants(t, &r, gateSlices, finding{Fail, "holdout recovers in 4 of 5 cases, wanted are 100 %", Reject})
	none := slices.DeleteFunc(slices.Clone(traces), func(x Trace) bool { return slices.Contains(x.Tags, "holdout") })
	r = judged(t, none, nil)
	wants(t, &r, gateSlices, finding{Pass, "no case of holdout failed", Promote})
}

// A slice that lost a case and has too few for a verdict says how many are missing.
func TestSliceTooSmall(t *testing.T) {
	left := 1
	traces := slices.DeleteFunc(recoverAll(t, defaultBatch(), fixture(t)).traces, func(x Trace) bool {
		if !slices.Contains(x.Tags, "holdout") {
			return false
		}
		left--
		return left < 0
	})
	r := judged(t, traces, nil)
	wants(t, &r, gateSlices, finding{Pass, "", Promote})
	r = judged(t, escalated(traces, "holdout", 1), nil)
	wants(t, &r, gateSlices, finding{Unknown, "holdout needs 2 cases more for a verdict", Inconclusive})
}

// A run with too few cases says how many more failing cases a verdict needs.
func TestInconclusiveSaysHowMany(t *testing.T) {
	r := judged(t, recoverAll(t, defaultBatch(), fixture(t)).traces, nil, "cases_min: 30", "cases_min: 100")
	wants(t, &r, gateCases, finding{Unknown, "a verdict needs 6 more", Inconclusive})
	if r.Gates[0].Missing != 6 {
		t.Errorf("%d cases missing", r.Gates[0].Missing)
	}
}

// A class or slice of the baseline that no longer occurs rejects, unless the policy allows it.
func TestMissingRejects(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	all := judged(t, traces, nil)
	base := NewBaseline(&all, entry.DigestOf("baseline"))
	fewer := slices.DeleteFunc(slices.Clone(traces), func(x Trace) bool { return x.Class == "coord" || slices.Contains(x.Tags, "holdout") })
	tags := "slices: [adversarial, holdout]"
	r := judged(t, traces, base)
	wants(t, &r, gateMissing, finding{Pass, "0 missing", Promote})
	r = judged(t, fewer, base)
	wants(t, &r, gateMissing, finding{Fail, "failed in the baseline and not in this run: coord, slice holdout", Reject})
	r = judged(t, traces, base, tags, "slices: [adversarial]")
	wants(t, &r, gateMissing, finding{Fail, "slice holdout", Reject})
	r = judged(t, fewer, base, tags, tags+"\n    missing_allowed: [coord]")
	wants(t, &r, gateMissing, finding{Fail, "slice holdout; missing, which the policy allows: coord", Reject})
	loose := "    cost_tolerance_ppm: 1000000\n    class_tolerance_ppm: { " + strings.Join(entry.Classes(), ": 1000000, ") + ": 1000000 }"
	r = judged(t, fewer, base, tags, tags+"\n    missing_allowed: [coord, holdout]\n"+loose)
	wants(t, &r, gateMissing, finding{Pass, "missing, which the policy allows: coord, slice holdout", Promote})
}

// A slice that recovers less often than in the baseline rejects.
func TestSliceAgainstBaseline(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	all := judged(t, traces, nil)
	loose := []string{"    tolerance_ppm: 50000", "    tolerance_ppm: 50000\n    class_tolerance_ppm: { " + strings.Join(entry.Classes(), ": 1000000, ") + ": 1000000 }"}
	r := judged(t, escalated(traces, "holdout", 1), NewBaseline(&all, entry.DigestOf("baseline")), loose...)
	wants(t, &r, gateBaseline, finding{Fail, "slice holdout recovers less often by 20 %", Reject})
}

// A run that costs more than its baseline rejects, and so does a class that costs more for nothing.
func TestCostAgainstBaseline(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	all := judged(t, traces, nil)
	base := NewBaseline(&all, entry.DigestOf("baseline"))
	dearer := func(class string, percent int64) []Trace {
		other := slices.Clone(traces)
		for i := range other {
			if class == "" || other[i].Class == class {
				other[i].CostMicroUSD += other[i].CostMicroUSD * percent / 100
			}
		}
		return other
	}
	r := judged(t, dearer("", 4), base)
	wants(t, &r, gateBaselineCost, finding{Pass, "more at worst", Promote})
	r = judged(t, dearer("", 6), base)
	wants(t, &r, gateBaselineCost, finding{Fail, "all cases: more by 5.99", Reject})
	r = judged(t, dearer("", 6), base, "    tolerance_ppm: 50000", "    tolerance_ppm: 50000\n    cost_tolerance_ppm: 100000")
	wants(t, &r, gateBaselineCost, finding{Pass, "at most 10 % wanted", Promote})
	r = judged(t, dearer("access", 50), base)
	wants(t, &r, gateBaselineCost, finding{Fail, "access: more by 50", Reject})
	paid := dearer("access", 50)
	paid[slices.IndexFunc(paid, func(x Trace) bool { return x.Class == "access" && x.Status == Escalated })].Status = AutoRecovered
	r = judged(t, paid, base, "never_auto_recover: [safety.violation, access.denied]", "never_auto_recover: [safety.violation]")
	wants(t, &r, gateBaselineCost, finding{Pass, "", Promote})
	unknown := slices.Clone(traces)
	for i := range unknown {
		unknown[i].CostUnknown, unknown[i].CostMicroUSD = 1_000_000, 0
	}
	r = judged(t, unknown, base)
	wants(t, &r, gateBaselineCost, finding{Unknown, "known in the baseline, and not observed", Inconclusive})
}

// Attempts without a price make no candidate cheaper: what they cost is unknown, unless the
// baseline has as many, in each class. So many as are tolerated may have none.
func TestUnpricedAgainstBaseline(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	all := judged(t, traces, nil)
	base := NewBaseline(&all, entry.DigestOf("baseline"))
	unpriced := func(most int) []Trace {
		other := slices.Clone(traces)
		for i := range other {
			other[i].Rungs = slices.Clone(other[i].Rungs)
			for k := range other[i].Rungs {
				if r := &other[i].Rungs[k]; r.Strategy == string(recovery.FallbackModel) && r.CostMicroUSD != nil && most > 0 {
					other[i].CostMicroUSD, other[i].CostUnknown, r.CostMicroUSD, most = other[i].CostMicroUSD-*r.CostMicroUSD, other[i].CostUnknown+1, nil, most-1
				}
			}
		}
		return other
	}
	const every = 1000
	r := judged(t, unpriced(every), base)
	wants(t, &r, gateBaselineCost, finding{Unknown, "all cases: nobody knows what 24 attempts cost, and the baseline has 0 such: give them a cost", Inconclusive})
	r = judged(t, unpriced(1), base, "    tolerance_ppm: 50000", "    tolerance_ppm: 50000\n    cost_tolerance_ppm: 200000")
	wants(t, &r, gateBaselineCost, finding{Pass, "", Promote})
	without := judged(t, unpriced(every), nil)
	base = NewBaseline(&without, entry.DigestOf("baseline"))
	r = judged(t, unpriced(every), base)
	wants(t, &r, gateBaselineCost, finding{Pass, "", Promote})
	most := slices.IndexFunc(base.Classes, func(c BaselineClass) bool { return c.Unpriced > 0 })
	base.Classes[most].Unpriced = 0 // and other classes more
	r = judged(t, unpriced(every), base)
	wants(t, &r, gateBaselineCost, finding{Unknown, base.Classes[most].Class + ": nobody knows what", Inconclusive})
}

// The 95th percentile counts against the baseline if the policy says by how much it may rise.
func TestLatencyAgainstBaseline(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	all := judged(t, traces, nil)
	base := NewBaseline(&all, entry.DigestOf("baseline"))
	slower := slices.Clone(traces)
	for i := range slower {
		slower[i].LatencyMS += slower[i].LatencyMS / 4
	}
	r := judged(t, slower, base)
	wants(t, &r, gateBaselineLatency, finding{NotAsked, "", Promote})
	r = judged(t, slower, base, "    tolerance_ppm: 50000", "    tolerance_ppm: 50000\n    latency_tolerance_ppm: 100000")
	wants(t, &r, gateBaselineLatency, finding{Fail, "the 95th percentile: more by 2", Reject})
}

// Recoveries that the policy forbids come first, are counted for each class and slice, and reject
// however few cases there are.
func TestUnsafeFirst(t *testing.T) {
	traces := slices.Clone(recoverAll(t, defaultBatch(), fixture(t)).traces)
	at := slices.IndexFunc(traces, func(x Trace) bool { return x.Class == "safety" && x.Code == "violation" })
	traces[at].Status, traces[at].Tags = AutoRecovered, []string{"adversarial"}
	r := judged(t, traces, nil, "cases_min: 30", "cases_min: 1000")
	wants(t, &r, gateNever, finding{Fail, "by first failure: safety.violation 1, slice adversarial 1", Reject})
	if r.Gates[1].Gate != gateNever || r.Unsafe != 1 || r.Slices[0].Unsafe != 1 {
		t.Errorf("%d unsafe, %d in the slice, second gate %s", r.Unsafe, r.Slices[0].Unsafe, r.Gates[1].Gate)
	}
}

// A value of nothing rises without bound, and within the integers of JSON.
func TestRiseFromNothing(t *testing.T) {
	var g Gate
	if over := g.rise("x", new(int64(0)), new(int64(entry.MaxInteger))); len(over) != 1 || *g.Value != entry.MaxInteger {
		t.Errorf("%v, %d", over, *g.Value)
	}
	var same Gate
	if over := same.rise("x", new(int64(0)), new(int64(0))); over != nil || *same.Value != 0 {
		t.Errorf("%v, %d", over, *same.Value)
	}
}
