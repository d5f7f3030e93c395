package engine

import (
	"fmt"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// A gate says what it found and what is wanted, and never shows a value on the wrong
// side of its limit.
func TestGateText(t *testing.T) {
	value := func(n int64) *int64 { return &n }
	rate := func(verdict Verdict, n, limit int64) Gate {
		return Gate{Gate: gateRate, Param: "thresholds.recovery_rate_min_ppm", Verdict: verdict, Limit: limit, Value: value(n)}
	}
	for want, g := range map[string]Gate{
		"fail: 4.0 %, at least 70 % wanted":                             rate(Fail, 40_000, 700_000),
		"pass: 75.5 %, at least 70 % wanted":                            rate(Pass, 755_319, 700_000),
		"fail: 75.5319 %, at least 75.532 % wanted":                     rate(Fail, 755_319, 755_320),
		"pass: 75.5319 %, at least 75.5319 % wanted":                    rate(Pass, 755_319, 755_319),
		"fail: 69.9 %, at least 70 % wanted":                            rate(Fail, 699_000, 700_000),
		"unknown: nothing observed, at least 70 % wanted (none failed)": {Gate: gateRate, Param: "x_ppm", Verdict: Unknown, Limit: 700_000, Detail: "none failed"},
		"unknown: 1 failing case, at least 30 wanted":                   {Gate: gateCases, Param: "thresholds.cases_min", Verdict: Unknown, Limit: 30, Value: value(1)},
		"fail: $0.30, at most $0.25 wanted":                             {Gate: "cost_per_case_max", Param: "x_micro_usd", Verdict: Fail, Limit: 250_000, Value: value(300_000)},
		"fail: 31000 ms, at most 30000 ms wanted":                       {Gate: "latency_p95_max", Param: "x_ms", Verdict: Fail, Limit: 30_000, Value: value(31_000)},
		"fail: 2 cases, none wanted (why)":                              {Gate: gateNever, Verdict: Fail, Value: value(2), Detail: "why"},
		"fail: 5.3 % less often at worst, at most 5 % wanted":           {Gate: gateBaseline, Param: "x_ppm", Verdict: Fail, Limit: 50_000, Value: value(53_000)},
		"unknown: 3 cases, none wanted":                                 {Gate: gateStrategies, Verdict: Unknown, Value: value(3)},
		"not_asked":                                                     {Gate: gateBaseline, Verdict: NotAsked},
	} {
		if got := g.Text(); got != want {
			t.Errorf("%+v: %s, want %s", g, got, want)
		}
	}
}

// Only classes in which something differs are left, however it differs.
func TestDiffChanged(t *testing.T) {
	cost := func(n int64) *int64 { return &n }
	class := func(code string, recovered, failing, each int64) Class {
		return Class{Label: scenario.Label{Class: "tool", Code: code}, Cases: Cases{Total: failing, Failing: failing, AutoRecovered: recovered, Escalated: failing - recovered},
			Spent: Spent{CostPerCaseMicroUSD: cost(each)}}
	}
	before := Report{Classes: []Class{class("same", 1, 2, 5), class("better", 1, 2, 5), class("dearer", 1, 2, 5), class("gone", 1, 2, 5)}}
	after := Report{Classes: []Class{class("same", 1, 2, 5), class("better", 2, 2, 5), class("dearer", 1, 2, 6), class("new", 1, 2, 5)}}
	d := Diff(&before, &after)
	if d.Changed(); len(d.Classes) != 4 {
		t.Fatalf("%d classes: %+v", len(d.Classes), d.Classes)
	}
	for i, want := range []string{"better", "dearer", "gone", "new"} { // not all, in which nothing differs
		if d.Classes[i].Code != want {
			t.Errorf("class %s, want %s", fmt.Sprint(d.Classes[i].Label), want)
		}
	}
	same := Diff(&before, &before)
	if same.Changed(); len(same.Classes) != 0 {
		t.Errorf("nothing differs: %+v", same.Classes)
	}
}
