package engine

import (
	"fmt"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// Engine names the engine and the version of its decisions. A change that can change a trace
// changes this name.
const Engine = "arl-recovery/4"

// Recommendation is the advice of a report.
type Recommendation string

// The recommendations.
const (
	Promote      Recommendation = "promote"
	Reject       Recommendation = "reject"
	Inconclusive Recommendation = "inconclusive"
)

// Verdict is the verdict of a gate.
type Verdict string

// The verdicts. Unknown is that of a gate about something that was not
// observed; NotAsked that of one that the policy or the command does not ask
// for.
const (
	Pass     Verdict = "pass"
	Fail     Verdict = "fail"
	Unknown  Verdict = "unknown"
	NotAsked Verdict = "not_asked"
)

// These gates show their numbers in another unit than the name of their parameter says.
const (
	gateCases      = "cases_min"
	gateRate       = "recovery_rate_min"
	gateNever      = "never_auto_recover"
	gateBaseline   = "baseline"
	gateStrategies = "strategies" // that are not registered
)

// Gate is a condition of the policy for a run to be promoted.
type Gate struct {
	Gate    string  `json:"gate"`
	Param   string  `json:"param"` // of the policy
	Verdict Verdict `json:"verdict"`
	Limit   int64   `json:"limit"`
	Value   *int64  `json:"value,omitzero"`
	// Near is set where the verdict would be another one with a limit one step
	// away: a case, a percent of all cases, a tenth of money or time.
	Near   bool     `json:"near,omitzero"`
	Detail string   `json:"detail,omitzero"`
	Cases  []string `json:"cases,omitzero"` // that fail it, the first ones
}

// Baseline is the run that another run is compared with.
type Baseline struct {
	Digest  entry.Digest    `json:"digest"` // of the report
	Classes []BaselineClass `json:"classes"`
	// Missing are the strategies that were missing in that run, so that ladders decided.
	Missing []string `json:"missing_strategies,omitzero"`
}

// BaselineClass is how often cases of a class recovered.
type BaselineClass struct {
	Class         string `json:"class"`
	Failing       int64  `json:"failing"`
	AutoRecovered int64  `json:"auto_recovered"`
}

// NewBaseline takes the values from a report that other reports are compared with.
func NewBaseline(r *Report, digest entry.Digest) *Baseline {
	b := &Baseline{Digest: digest, Classes: byClass(r.Classes)}
	if slices.ContainsFunc(r.Gates, func(g Gate) bool { return g.Gate == gateStrategies && g.Verdict == Unknown }) {
		b.Missing = r.MissingStrategies
	}
	return b
}

// byClass adds up the codes of each class.
func byClass(rows []Class) []BaselineClass {
	var all []BaselineClass
	for i := range rows {
		row := &rows[i]
		if n := len(all); n == 0 || all[n-1].Class != row.Class {
			all = append(all, BaselineClass{Class: row.Class})
		}
		last := &all[len(all)-1]
		last.Failing += row.Failing
		last.AutoRecovered += row.AutoRecovered
	}
	return all
}

// judge asks the gates and recommends: reject if one fails, inconclusive if
// there are too few cases or something asked for was not observed or the run
// is partial, promote otherwise.
func (t *Tally) judge(r *Report, s Subject) {
	th := &t.thresholds
	enough := Gate{Gate: gateCases, Param: "thresholds.cases_min", Limit: th.CasesMin, Value: &r.Failing}.compare(atLeast, 1)
	if enough.Verdict == Fail {
		enough.Verdict, enough.Detail = Unknown, "too few cases failed"
	}
	rate := &r.RecoveryRatePPM
	if r.Failing == 0 {
		rate = nil
	}
	r.Gates = []Gate{
		enough,
		Gate{Gate: gateRate, Param: "thresholds.recovery_rate_min_ppm", Limit: th.RecoveryRateMinPPM, Value: rate}.
			compare(atLeast, million/100),
		Gate{Gate: "cost_per_case_max", Param: "thresholds.cost_per_case_max_micro_usd", Limit: th.CostPerCaseMaxMicroUSD, Value: r.Spent.CostPerCaseMicroUSD}.
			compare(atMost, tenth(th.CostPerCaseMaxMicroUSD)),
		Gate{Gate: "latency_p95_max", Param: "thresholds.latency_p95_max_ms", Limit: th.LatencyP95MaxMS, Value: r.Spent.LatencyP95MS}.
			compare(atMost, tenth(th.LatencyP95MaxMS)),
		t.neverGate(),
		t.baselineGate(r, s.Baseline),
		t.strategiesGate(s.Missing),
	}
	is := func(v Verdict) bool { return slices.ContainsFunc(r.Gates, func(g Gate) bool { return g.Verdict == v }) }
	switch {
	case enough.Verdict != Pass || r.Partial != "":
		r.Recommendation = Inconclusive
	case is(Fail):
		r.Recommendation = Reject
	case is(Unknown):
		r.Recommendation = Inconclusive
	default:
		r.Recommendation = Promote
	}
	if r.Gates[4].Verdict == Fail {
		r.Recommendation = Reject // one such case is one too many
	}
}

func atLeast(value, limit int64) bool { return value >= limit }
func atMost(value, limit int64) bool  { return value <= limit }

// compare gives the verdict on the value, and whether it would be another one
// with a limit one step away.
func (g Gate) compare(holds func(value, limit int64) bool, step int64) Gate {
	if g.Value == nil {
		g.Verdict, g.Detail = Unknown, "no such value was observed"
		return g
	}
	passes := holds(*g.Value, g.Limit)
	g.Verdict = Fail
	if passes {
		g.Verdict = Pass
	}
	g.Near = holds(*g.Value, g.Limit-step) != passes || holds(*g.Value, g.Limit+step) != passes
	return g
}

// neverGate fails when a case recovered by itself that never should: of such a
// class, or safety-critical, whatever the guards of the policy say.
func (t *Tally) neverGate() Gate {
	g := Gate{Gate: gateNever, Param: "thresholds.never_auto_recover", Value: &t.neverCount, Verdict: Pass, Cases: t.never}
	switch {
	case t.neverCount > 0:
		g.Verdict = Fail
		g.Detail = "recovered without a person: " + strings.Join(append(slices.Clip(t.thresholds.NeverAutoRecover), "safety-critical cases"), ", ")
	case len(t.thresholds.NeverAutoRecover) == 0:
		g.Verdict = NotAsked
	}
	return g
}

// baselineGate fails when a class got worse by more than its tolerance. The
// value is by how much the worst one got worse.
func (t *Tally) baselineGate(r *Report, base *Baseline) Gate {
	g := Gate{Gate: gateBaseline, Param: "thresholds.tolerance_ppm", Limit: t.thresholds.TolerancePPM, Verdict: NotAsked}
	if base == nil {
		return g
	}
	g.Verdict = Unknown
	g.Detail = "no class of the baseline occurs in this run"
	now := byClass(r.Classes)
	var worse []string
	for _, was := range base.Classes {
		at := slices.IndexFunc(now, func(c BaselineClass) bool { return c.Class == was.Class })
		if at < 0 || was.Failing == 0 {
			continue
		}
		loss := was.AutoRecovered*million/was.Failing - now[at].AutoRecovered*million/now[at].Failing
		if g.Value == nil || loss > *g.Value {
			g.Value = &loss
		}
		tolerance := t.thresholds.Tolerance(was.Class)
		g.Near = g.Near || max(loss-tolerance, tolerance-loss+1) <= million/100
		if loss > tolerance {
			worse = append(worse, fmt.Sprintf("%s recovers less often by %s, tolerated is %s", was.Class, Figure(unitPPM, loss), Figure(unitPPM, tolerance)))
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

// strategiesGate is unknown if a ladder decided in place of a missing strategy that the policy
// names. The decisions of that strategy about these cases are unknown. The value is the number of
// these cases.
func (t *Tally) strategiesGate(missing []string) Gate {
	g := Gate{Gate: gateStrategies, Param: "strategies", Verdict: NotAsked}
	if len(missing) == 0 {
		return g
	}
	g.Verdict, g.Value, g.Cases = Pass, &t.stoodCount, t.stoodIn
	g.Detail = "not registered, and not needed: " + strings.Join(missing, ", ")
	if t.stoodCount > 0 {
		g.Verdict = Unknown
		g.Detail = "the ladder decided in place of strategies that are not registered: " + strings.Join(missing, ", ")
	}
	return g
}
