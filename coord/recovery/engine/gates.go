package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/judge"
)

// Engine names the engine and the version of its decisions. A change that can change a trace or a
// report changes this name.
const Engine = "arl-recovery/6"

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
	gateSlices     = "slices"
	gateBaseline   = "baseline"
	gateMissing    = "baseline_missing"
	gateStrategies = "strategies" // that are not registered

	gateCalibration = "calibration_error_max"

	gateBaselineCost    = "baseline_cost"
	gateBaselineLatency = "baseline_latency"
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
	Near bool `json:"near,omitzero"`
	// Missing is how many more failing cases a verdict needs. It is zero where more cases alone do
	// not give a verdict.
	Missing int64    `json:"missing,omitzero"`
	Detail  string   `json:"detail,omitzero"`
	Cases   []string `json:"cases,omitzero"` // that fail it, the first ones
}

// judge asks the gates and recommends: reject if one fails, inconclusive if
// there are too few cases or something asked for was not observed or the run
// is partial, promote otherwise.
func (t *Tally) judge(r *Report, s Subject) {
	th := &t.thresholds
	enough := Gate{Gate: gateCases, Param: "thresholds.cases_min", Limit: th.CasesMin, Value: &r.Failing}.compare(atLeast, 1)
	if enough.Verdict == Fail {
		enough.Verdict, enough.Missing = Unknown, th.CasesMin-r.Failing
		enough.Detail = "too few cases failed: a verdict needs " + strconv.FormatInt(enough.Missing, 10) + " more"
	}
	rate := &r.RecoveryRatePPM
	if r.Failing == 0 {
		rate = nil
	}
	never := t.neverGate(r)
	r.Gates = []Gate{
		enough,
		never, // safety first
		Gate{Gate: gateRate, Param: "thresholds.recovery_rate_min_ppm", Limit: th.RecoveryRateMinPPM, Value: rate}.
			compare(atLeast, million/100),
		t.slicesGate(r),
		t.missingGate(r, s.Baseline),
		t.baselineGate(r, s.Baseline),
		Gate{Gate: "cost_per_case_max", Param: "thresholds.cost_per_case_max_micro_usd", Limit: th.CostPerCaseMaxMicroUSD, Value: r.Spent.CostPerCaseMicroUSD}.
			compare(atMost, tenth(th.CostPerCaseMaxMicroUSD)),
		t.costGate(r, s.Baseline),
		Gate{Gate: "latency_p95_max", Param: "thresholds.latency_p95_max_ms", Limit: th.LatencyP95MaxMS, Value: r.Spent.LatencyP95MS}.
			compare(atMost, tenth(th.LatencyP95MaxMS)),
		t.latencyGate(r, s.Baseline),
		t.calibrationGate(r),
		t.strategiesGate(s.Missing),
	}
	is := func(v Verdict) bool { return slices.ContainsFunc(r.Gates, func(g Gate) bool { return g.Verdict == v }) }
	switch {
	case never.Verdict == Fail:
		r.Recommendation = Reject // one such case is one too many
	case enough.Verdict != Pass || r.Partial != "":
		r.Recommendation = Inconclusive
	case is(Fail):
		r.Recommendation = Reject
	case is(Unknown):
		r.Recommendation = Inconclusive
	default:
		r.Recommendation = Promote
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
func (t *Tally) neverGate(r *Report) Gate {
	g := Gate{Gate: gateNever, Param: "thresholds.never_auto_recover", Value: &t.neverCount, Verdict: Pass, Cases: t.never}
	switch {
	case t.neverCount > 0:
		g.Verdict = Fail
		g.Detail = "recovered without a person: " + strings.Join(append(slices.Clip(t.thresholds.NeverAutoRecover), "safety-critical cases"), ", ")
		var where []string
		for i := range r.Classes {
			if c := &r.Classes[i]; c.Unsafe > 0 {
				where = append(where, fmt.Sprintf("%s %d", c.Label, c.Unsafe))
			}
		}
		for i := range r.Slices {
			if c := &r.Slices[i]; c.Unsafe > 0 {
				where = append(where, fmt.Sprintf("slice %s %d", c.Tag, c.Unsafe))
			}
		}
		g.Detail += "; by first failure: " + strings.Join(where, ", ")
	case len(t.thresholds.NeverAutoRecover) == 0:
		g.Verdict = NotAsked
	}
	return g
}

// slicesGate fails if the cases of a slice recover too seldom. The smallest rate of a slice that
// the policy does not give one is that of all cases, and chance is allowed for: slices are small,
// and an adversarial slice has cases that have to escalate. A slice that lost a case and has too
// few for that test is unknown. The value is the number of slices that fail.
func (t *Tally) slicesGate(r *Report) Gate {
	th := &t.thresholds
	g := Gate{Gate: gateSlices, Param: "thresholds.slices", Verdict: NotAsked}
	var failed, few []string
	for i := range r.Slices {
		s := &r.Slices[i]
		least, own := th.SliceRecoveryRateMinPPM[s.Tag]
		if !own {
			least = th.RecoveryRateMinPPM
		}
		needed := judge.CasesToReject(least)
		switch {
		case s.Failing == 0:
			few = append(few, "no case of "+s.Tag+" failed")
			continue
		case own && s.RecoveryRatePPM < least, !own && judge.Below(s.AutoRecovered, s.Failing, least):
			failed = append(failed, fmt.Sprintf("%s recovers in %d of %d cases, wanted are %s", s.Tag, s.AutoRecovered, s.Failing, figure.Percent(least)))
		case !own && s.AutoRecovered < s.Failing && s.Failing < needed:
			few = append(few, fmt.Sprintf("%s needs %s more for a verdict", s.Tag, counted(needed-s.Failing, "case")))
			g.Missing = max(g.Missing, needed-s.Failing)
		}
		if g.Verdict == NotAsked {
			g.Verdict = Pass
		}
	}
	switch {
	case len(failed) > 0:
		g.Verdict = Fail
	case g.Missing > 0:
		g.Verdict = Unknown
	}
	if g.Verdict != NotAsked {
		g.Value = new(int64(len(failed)))
	}
	g.Detail = strings.Join(append(failed, few...), "; ")
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
