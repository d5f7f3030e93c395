package drift

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/testdata/budget"
)

// mix has the weight of each code, and how many of a thousand of its cases recover.
type mix struct {
	labels   []scenario.Label
	weights  []int
	recovers int
}

// usual has twelve codes of eight classes. The codes of the class capacity make up share parts of a
// hundred.
func usual(share int) mix {
	m := mix{recovers: 750}
	add := func(class, code string, weight int) {
		m.labels, m.weights = append(m.labels, scenario.Label{Class: class, Code: code}), append(m.weights, weight)
	}
	add("capacity", "rate_limited", 95*share)
	rest := 100 - share
	for i, of := range []scenario.Label{{Class: "transient", Code: "timeout"}, {Class: "transient", Code: "unavailable"}, {Class: "output", Code: "malformed"},
		{Class: "output", Code: "refused"}, {Class: "output", Code: "bad_arguments"}, {Class: "tool", Code: "error"}, {Class: "verify", Code: "gate_failed"},
		{Class: "progress", Code: "no_progress"}, {Class: "progress", Code: "step_limit"}, {Class: "crash", Code: "oom"}, {Class: "access", Code: "denied"}} {
		add(of.Class, of.Code, rest*[]int{20, 12, 15, 5, 10, 12, 8, 6, 3, 2, 2}[i])
	}
	return m
}

// report draws a report of n failing cases.
func (m mix) report(r *rand.Rand, n int) *engine.Report {
	total := 0
	for _, w := range m.weights {
		total += w
	}
	of := make([]int64, len(m.labels))
	rep := &engine.Report{}
	for range n {
		at, i := r.IntN(total), 0
		for at >= m.weights[i] {
			at, i = at-m.weights[i], i+1
		}
		of[i]++
		if rep.Failing++; r.IntN(1000) < m.recovers {
			rep.AutoRecovered++
		} else {
			rep.Escalated++
		}
	}
	rep.RecoveryRatePPM = rep.AutoRecovered * million / rep.Failing
	for i, count := range of {
		if count > 0 {
			rep.Classes = append(rep.Classes, engine.Class{Label: m.labels[i], Cases: engine.Cases{Failing: count}})
		}
	}
	return rep
}

// found returns in how many of so many comparisons a drift was found, and in how many the class
// capacity was named.
func found(rounds, cases int, before, window mix) (drifted, named int) {
	r := rand.New(rand.NewPCG(3, 5))
	for range rounds {
		got := Compare(before.report(r, 2000), window.report(r, cases))
		if got.Drifted {
			drifted++
		}
		if slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Drifted && f.Class == "capacity" }) {
			named++
		}
	}
	return drifted, named
}

// TestFalseAlarms compares windows of the same mix.
func TestFalseAlarms(t *testing.T) {
	rounds := budget.Budget{Short: 500, Usual: 2000, Chaos: 20_000}.Now()
	for _, cases := range []int{60, 500, 5000} {
		drifted, _ := found(rounds, cases, usual(5), usual(5))
		t.Logf("windows of %d cases: of %d, %d have a drift", cases, rounds, drifted)
		if drifted*million > 2*AlarmPPM*rounds {
			t.Errorf("windows of %d cases: of %d, %d have a drift", cases, rounds, drifted)
		}
	}
}

// TestFindsADoubledClass doubles the share of a class. Within 500 cases the class is named.
func TestFindsADoubledClass(t *testing.T) {
	rounds := budget.Budget{Short: 300, Usual: 300, Chaos: 3000}.Now()
	for _, test := range []struct{ share, least int }{{10, 95}, {5, 60}} { // both in percent
		_, named := found(rounds, 500, usual(test.share), usual(2*test.share))
		t.Logf("from %d to %d %%: of %d windows of 500 cases, %d name the class", test.share, 2*test.share, rounds, named)
		if 100*named < test.least*rounds {
			t.Errorf("from %d to %d %%: of %d windows, %d name the class", test.share, 2*test.share, rounds, named)
		}
	}
	worse := usual(5)
	worse.recovers = 600
	if drifted, _ := found(rounds, 500, usual(5), worse); 100*drifted < 99*rounds {
		t.Errorf("a recovery rate of 60 %% and not 75 %%: %d of %d", drifted, rounds)
	}
}

// TestTail compares the approximation with quantiles of χ² from tables.
func TestTail(t *testing.T) {
	for _, q := range []struct {
		g    float64
		df   int
		want float64
	}{{3.841, 1, 0.05}, {6.635, 1, 0.01}, {5.991, 2, 0.05}, {18.307, 10, 0.05}, {23.209, 10, 0.01}, {37.566, 20, 0.01}, {0, 5, 1}, {1, 0, 1}} {
		if got := tail(q.g, q.df); math.Abs(got-q.want) > 0.002 {
			t.Errorf("χ² %g, %d: %f, want %f", q.g, q.df, got, q.want)
		}
	}
}

// TestCompare has cost and calibration drift, too few cases, and classes that one side alone has.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	before, window := usual(5).report(r, 400), usual(5).report(r, 400)
	if got := Compare(before, usual(5).report(r, CasesMin-1)); got.Enough || got.Drifted || len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
	before.Spent.CostPerCaseMicroUSD, window.Spent.CostPerCaseMicroUSD = new(int64(100)), new(int64(130))
	before.Calibration, window.Calibration = &engine.Calibration{Attempts: 90, ErrorPPM: 50_000}, &engine.Calibration{Attempts: 90, ErrorPPM: 160_000}
	var drifted []string
	for _, f := range Compare(before, window).Findings {
		if f.Drifted {
			drifted = append(drifted, f.Test)
		}
	}
	if !slices.Equal(drifted, []string{"cost", "calibration"}) {
		t.Errorf("%v", drifted)
	}
	window.Classes = append(window.Classes, engine.Class{Label: scenario.Label{Class: "state", Code: "corrupt"}, Cases: engine.Cases{Failing: 80}})
	window.Failing, window.Escalated = window.Failing+80, window.Escalated+80
	if got := Compare(before, window); !slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Class == "state" && f.Was == 0 && f.Drifted }) {
		t.Errorf("%+v", got)
	}
}
