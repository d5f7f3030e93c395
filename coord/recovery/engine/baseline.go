package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"recoveryledger/coord/recovery/figure"
	"recoveryledger/ledger/entry"
)

// Baseline is the run that another run is compared with.
type Baseline struct {
	Digest entry.Digest `json:"digest"` // of the report
	// PolicyDigest is that of the rules which decided in that run.
	PolicyDigest entry.Digest `json:"policy_digest,omitzero"`
	// ScenarioDigest is that of the cases. It is empty if the report is of no file of cases.
	ScenarioDigest entry.Digest    `json:"scenario_digest,omitzero"`
	Classes        []BaselineClass `json:"classes"`
	// Slices are the slices with a case that failed, by their tags.
	Slices []BaselineClass `json:"slices,omitzero"`
	// These are of all failing cases; nil: the run knew none. See [Spent].
	CostPerCaseMicroUSD *int64 `json:"cost_per_case_micro_usd,omitzero"`
	LatencyP95MS        *int64 `json:"latency_p95_ms,omitzero"`
	Unpriced            int64  `json:"attempts_unpriced,omitzero"`
	// Missing are the strategies that were missing in that run, so that ladders decided.
	Missing []string `json:"missing_strategies,omitzero"`
}

// BaselineClass is how often cases of a class or slice recovered.
type BaselineClass struct {
	Class         string `json:"class"`
	Failing       int64  `json:"failing"`
	AutoRecovered int64  `json:"auto_recovered"`
	// CostPerCaseMicroUSD is the mean cost of the cases. It is nil if it is unknown.
	CostPerCaseMicroUSD *int64 `json:"cost_per_case_micro_usd,omitzero"`
	Unpriced            int64  `json:"attempts_unpriced,omitzero"`
}

// ErrOtherCases means that a baseline is of other cases than the run that is compared with it. Such
// a comparison says nothing: a policy looks better on easier cases.
var ErrOtherCases = errors.New("the baseline is of other cases")

// of checks that the baseline is of the cases of a scenario. A nil baseline is of any.
func (base *Baseline) of(scenario entry.Digest) error {
	if base == nil || base.ScenarioDigest == "" || base.ScenarioDigest == scenario {
		return nil
	}
	return fmt.Errorf("engine: %w: its scenario is %s, and that of the run is %s", ErrOtherCases, base.ScenarioDigest, scenario)
}

// NewBaseline takes the values from a report that other reports are compared with.
func NewBaseline(r *Report, digest entry.Digest) *Baseline {
	b := &Baseline{Digest: digest, PolicyDigest: r.PolicyDigest, ScenarioDigest: r.ScenarioDigest, Classes: byClass(r.Classes),
		Slices: bySlice(r.Slices), CostPerCaseMicroUSD: r.Spent.CostPerCaseMicroUSD, LatencyP95MS: r.Spent.LatencyP95MS, Unpriced: r.Spent.Unpriced}
	if slices.ContainsFunc(r.Gates, func(g Gate) bool { return g.Gate == gateStrategies && g.Verdict == Unknown }) {
		b.Missing = r.MissingStrategies
	}
	return b
}

// byClass adds up the codes of each class. The mean cost weighs each code by its cases.
func byClass(rows []Class) []BaselineClass {
	var all []BaselineClass
	var costs []*big.Int
	for i := range rows {
		row := &rows[i]
		if n := len(all); n == 0 || all[n-1].Class != row.Class {
			all, costs = append(all, BaselineClass{Class: row.Class}), append(costs, new(big.Int))
		}
		last := len(all) - 1
		all[last].Failing += row.Failing
		all[last].AutoRecovered += row.AutoRecovered
		all[last].Unpriced += row.Unpriced
		if cost := row.CostPerCaseMicroUSD; cost == nil {
			costs[last] = nil
		} else if costs[last] != nil {
			costs[last].Add(costs[last], new(big.Int).Mul(big.NewInt(*cost), big.NewInt(row.Failing)))
		}
	}
	for i, cost := range costs {
		if cost != nil && all[i].Failing > 0 {
			all[i].CostPerCaseMicroUSD = new(cost.Quo(cost, big.NewInt(all[i].Failing)).Int64())
		}
	}
	return all
}

// bySlice returns the slices with a case that failed.
func bySlice(rows []Slice) []BaselineClass {
	var all []BaselineClass
	for i := range rows {
		if s := &rows[i]; s.Failing > 0 {
			all = append(all, BaselineClass{s.Tag, s.Failing, s.AutoRecovered, s.CostPerCaseMicroUSD, s.Unpriced})
		}
	}
	return all
}

// pair is a class or slice in two runs.
type pair struct {
	name     string
	was, now *BaselineClass // now is nil if the new run has no such case
	slice    bool
}

// pairs returns what failed in the baseline, beside the same in this run.
func (base *Baseline) pairs(r *Report) []pair {
	var all []pair
	add := func(was, now []BaselineClass, slice bool) {
		for i := range was {
			if was[i].Failing == 0 {
				continue
			}
			p := pair{name: was[i].Class, was: &was[i], slice: slice}
			if slice {
				p.name = "slice " + p.name
			}
			if at := slices.IndexFunc(now, func(c BaselineClass) bool { return c.Class == was[i].Class && c.Failing > 0 }); at >= 0 {
				p.now = &now[at]
			}
			all = append(all, p)
		}
	}
	add(base.Classes, byClass(r.Classes), false)
	add(base.Slices, bySlice(r.Slices), true)
	return all
}

// baselineGate fails when a class or slice got worse by more than its tolerance. The value is by
// how much the worst one got worse. A case that no longer recovers escalates, so that the gate
// compares escalations, too.
func (t *Tally) baselineGate(r *Report, base *Baseline) Gate {
	g := Gate{Gate: gateBaseline, Param: "thresholds.tolerance_ppm", Limit: t.thresholds.TolerancePPM, Verdict: NotAsked}
	if base == nil {
		return g
	}
	g.Verdict = Unknown
	g.Detail = "no class of the baseline occurs in this run"
	var worse []string
	for _, p := range base.pairs(r) {
		if p.now == nil {
			continue
		}
		loss := p.was.AutoRecovered*million/p.was.Failing - p.now.AutoRecovered*million/p.now.Failing
		if g.Value == nil || loss > *g.Value {
			g.Value = &loss
		}
		tolerance := t.thresholds.TolerancePPM
		if !p.slice {
			tolerance = t.thresholds.Tolerance(p.was.Class)
		}
		g.Near = g.Near || max(loss-tolerance, tolerance-loss+1) <= million/100
		if loss > tolerance {
			worse = append(worse, fmt.Sprintf("%s recovers less often by %s, tolerated is %s", p.name, figure.Exact(figure.UnitPPM, loss), figure.Exact(figure.UnitPPM, tolerance)))
		}
	}
	switch {
	case len(worse) > 0:
		g.Verdict, g.Detail = Fail, strings.Join(worse, "; ")
	case g.Value != nil && base.Missing != nil:
		g.Detail = "the baseline itself was made without " + strings.Join(base.Missing, ", ")
	case g.Value != nil:
		g.Verdict, g.Detail = Pass, ""
	}
	return g
}

// missingGate fails if a class or slice that failed in the baseline does not occur in this run:
// then nobody knows whether it got worse. The value is the number of those that the policy does not
// allow to be missing.
func (t *Tally) missingGate(r *Report, base *Baseline) Gate {
	g := Gate{Gate: gateMissing, Param: "thresholds.missing_allowed", Verdict: NotAsked}
	if base == nil {
		return g
	}
	var missing, allowed []string
	for _, p := range base.pairs(r) {
		switch {
		case p.now != nil:
		case slices.Contains(t.thresholds.MissingAllowed, p.was.Class):
			allowed = append(allowed, p.name)
		default:
			missing = append(missing, p.name)
		}
	}
	g.Verdict, g.Value = Pass, new(int64(len(missing)))
	var details []string
	if len(missing) > 0 {
		g.Verdict = Fail
		details = append(details, "failed in the baseline and not in this run: "+strings.Join(missing, ", "))
	}
	if len(allowed) > 0 {
		details = append(details, "missing, which the policy allows: "+strings.Join(allowed, ", "))
	}
	g.Detail = strings.Join(details, "; ")
	return g
}

// costGate fails if a case costs more than in the baseline by more than is tolerated. A class or
// slice fails the gate only if it does not recover more often: a recovery may cost more than none.
// The value is the greatest rise. It is unknown if nobody knows the cost of more attempts than in
// the baseline: what is known makes the candidate look cheaper than it is.
func (t *Tally) costGate(r *Report, base *Baseline) Gate {
	g := Gate{Gate: gateBaselineCost, Param: "thresholds.cost_tolerance_ppm", Limit: t.thresholds.CostTolerance(), Verdict: NotAsked}
	if base == nil {
		return g
	}
	over := g.rise("all cases", base.CostPerCaseMicroUSD, r.Spent.CostPerCaseMicroUSD)
	unpriced := g.unpriced("all cases", base.Unpriced, r.Spent.Unpriced, r.Failing)
	for _, p := range base.pairs(r) {
		if p.now == nil || p.was.CostPerCaseMicroUSD == nil {
			continue
		}
		unpriced = cmp.Or(unpriced, g.unpriced(p.name, p.was.Unpriced, p.now.Unpriced, p.now.Failing))
		was := new(big.Int).Mul(big.NewInt(p.was.AutoRecovered), big.NewInt(p.now.Failing))
		if now := new(big.Int).Mul(big.NewInt(p.now.AutoRecovered), big.NewInt(p.was.Failing)); now.Cmp(was) <= 0 {
			over = append(over, g.rise(p.name, p.was.CostPerCaseMicroUSD, p.now.CostPerCaseMicroUSD)...)
		}
	}
	if g = g.risen(over); g.Verdict == Pass && unpriced != "" {
		g.Verdict, g.Detail = Unknown, unpriced
	}
	return g
}

// unpriced says what is not known of a class or slice, if that is more than its cases may lack.
func (g *Gate) unpriced(name string, was, now, failing int64) string {
	if over := now - was; over <= 0 || new(big.Int).Mul(big.NewInt(over), big.NewInt(million)).Cmp(new(big.Int).Mul(big.NewInt(g.Limit), big.NewInt(failing))) <= 0 {
		return ""
	}
	return fmt.Sprintf("%s: nobody knows what %d attempts cost, and the baseline has %d such: give them a cost, 0 if they cost nothing", name, now, was)
}

// latencyGate fails if the 95th percentile is longer than in the baseline by more than is
// tolerated.
func (t *Tally) latencyGate(r *Report, base *Baseline) Gate {
	g := Gate{Gate: gateBaselineLatency, Param: "thresholds.latency_tolerance_ppm", Limit: t.thresholds.LatencyTolerancePPM, Verdict: NotAsked}
	if base == nil || g.Limit == 0 {
		return g
	}
	return g.risen(g.rise("the 95th percentile", base.LatencyP95MS, r.Spent.LatencyP95MS))
}

// rise compares a value with the one before, and says what rose by too much. The verdict is unknown
// if the value was known and is not any more.
func (g *Gate) rise(name string, was, now *int64) (over []string) {
	switch {
	case was == nil:
		return nil
	case now == nil:
		g.Verdict, g.Detail = Unknown, "known in the baseline, and not observed in this run"
		return nil
	}
	// A value of nothing has risen without bound as soon as there is something.
	rise := int64(0)
	if *now != *was {
		by := new(big.Int).Mul(big.NewInt(*now-*was), big.NewInt(million))
		if rise = entry.MaxInteger; by.Quo(by, big.NewInt(max(*was, 1))).IsInt64() {
			rise = min(by.Int64(), entry.MaxInteger)
		}
	}
	if g.Value == nil || rise > *g.Value {
		g.Value = &rise
	}
	if rise > g.Limit {
		over = append(over, fmt.Sprintf("%s: more by %s, tolerated is %s", name, figure.Exact(figure.UnitPPM, rise), figure.Exact(figure.UnitPPM, g.Limit)))
	}
	return over
}

// risen gives the verdict once everything was compared.
func (g *Gate) risen(over []string) Gate {
	switch {
	case len(over) > 0:
		g.Verdict, g.Detail = Fail, strings.Join(over, "; ")
	case g.Verdict == Unknown:
	case g.Value != nil:
		g.Verdict = Pass
	default:
		g.Detail = "the baseline knows no such value"
	}
	return *g
}
