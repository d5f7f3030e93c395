package engine

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/coord/recovery/scenario"
)

// ClassChange compares the cases of a class in two runs.
type ClassChange struct {
	scenario.Label
	Before Cases `json:"before"`
	After  Cases `json:"after"`
	// ChangePPM is the change of the recovery rate in parts per million. It is nil if one of the
	// runs has no such case.
	ChangePPM *int64 `json:"change_ppm,omitzero"`
	// CostPerCaseChange is the change of the cost of a case in micro-USD. It is nil if one of the
	// runs has no such case or knows no cost.
	CostPerCaseChange *int64 `json:"cost_per_case_change_micro_usd,omitzero"`
}

// ReportDiff compares two runs.
type ReportDiff struct {
	Before  Recommendation `json:"before"`
	After   Recommendation `json:"after"`
	Classes []ClassChange  `json:"classes"` // with all cases as the last one
	// Same names the parts that both runs share: policy, scenario, seed or runtime.
	Same []string `json:"same"`
	// MissingBefore and MissingAfter are the strategies that the policies name and that were not
	// registered.
	MissingBefore []string `json:"missing_strategies_before,omitzero"`
	MissingAfter  []string `json:"missing_strategies_after,omitzero"`
}

// Diff compares two reports class by class. The codes of a class are compared separately.
func Diff(before, after *Report) ReportDiff {
	d := ReportDiff{Before: before.Recommendation, After: after.Recommendation, Same: []string{},
		MissingBefore: before.MissingStrategies, MissingAfter: after.MissingStrategies}
	for _, s := range []struct {
		name string
		same bool
	}{
		{"policy", before.PolicyDigest == after.PolicyDigest}, {"scenario", before.ScenarioDigest == after.ScenarioDigest},
		{"seed", before.Seed == after.Seed}, {"runtime", before.Runtime == after.Runtime}, {"run root", before.RunRoot == after.RunRoot},
	} {
		if s.same {
			d.Same = append(d.Same, s.name)
		}
	}
	type pair struct{ before, after Class }
	pairs := map[scenario.Label]*pair{}
	at := func(l scenario.Label) *pair {
		if pairs[l] == nil {
			pairs[l] = new(pair)
		}
		return pairs[l]
	}
	for _, c := range before.Classes {
		at(c.Label).before = c
	}
	for _, c := range after.Classes {
		at(c.Label).after = c
	}
	labels := slices.SortedFunc(maps.Keys(pairs), func(a, b scenario.Label) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code))
	})
	for _, label := range labels {
		p := pairs[label]
		d.Classes = append(d.Classes, change(label, p.before.Cases, p.after.Cases, p.before.Spent, p.after.Spent))
	}
	d.Classes = append(d.Classes, change(scenario.Label{Class: "all"}, before.Cases, after.Cases, before.Spent, after.Spent))
	return d
}

// Changed removes the classes without a difference. The order of the others stays.
func (d *ReportDiff) Changed() {
	d.Classes = slices.DeleteFunc(d.Classes, func(c ClassChange) bool {
		return c.Before == c.After && (c.CostPerCaseChange == nil || *c.CostPerCaseChange == 0)
	})
}

func change(label scenario.Label, before, after Cases, spent, now Spent) ClassChange {
	c := ClassChange{Label: label, Before: before, After: after}
	if before.Failing > 0 && after.Failing > 0 {
		rate := after.ratePPM() - before.ratePPM()
		c.ChangePPM = &rate
		if was, is := spent.CostPerCaseMicroUSD, now.CostPerCaseMicroUSD; was != nil && is != nil {
			cost := *is - *was
			c.CostPerCaseChange = &cost
		}
	}
	return c
}
