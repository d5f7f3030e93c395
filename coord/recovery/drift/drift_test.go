package drift

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/judge"
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
// capacity was named. The reports have reported cases.
func found(rounds, reported, cases int, before, window mix) (drifted, named int) {
	r := rand.New(rand.NewPCG(3, 5))
	for range rounds {
		got := Compare(before.report(r, reported), window.report(r, cases))
		if got.Drifted {
			drifted++
		}
		if slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Drifted && f.Class == "capacity" }) {
			named++
		}
	}
	return drifted, named
}

// TestFalseAlarmsChaos compares windows of the same mix.
func TestFalseAlarmsChaos(t *testing.T) {
	rounds := budget.Budget{Short: 500, Usual: 2000, Chaos: 20_000}.Now()
	for _, cases := range []int{60, 500, 5000} {
		drifted, _ := found(rounds, 2000, cases, usual(5), usual(5))
		t.Logf("windows of %d cases: of %d, %d have a drift", cases, rounds, drifted)
		if 10*drifted*million > 13*alarmPPM*rounds {
			t.Errorf("windows of %d cases: of %d, %d have a drift", cases, rounds, drifted)
		}
	}
}

// means draws the mean cost of n cases, whose standard deviation is their mean, and the calibration
// of n confidences that are right as often as they say.
func means(r *rand.Rand, n int) *engine.Report {
	rep := &engine.Report{Cases: engine.Cases{Failing: int64(n)}}
	sum, spread := 0.0, math.Sqrt(math.Ln2) // of the logarithm
	var c judge.Calibration
	for range n {
		sum += 1000 * math.Exp(spread*r.NormFloat64())
		confidence := r.Int64N(million + 1)
		c.Add(confidence, r.Int64N(million) < confidence)
	}
	rep.Spent.CostPerCaseMicroUSD = new(int64(sum / float64(n)))
	rep.Calibration = &engine.Calibration{Attempts: int64(n), ErrorPPM: c.ErrorPPM()}
	return rep
}

// TestFalseAlarmsOfMeansChaos compares costs and confidences of windows like the report.
func TestFalseAlarmsOfMeansChaos(t *testing.T) {
	rounds := budget.Budget{Short: 100, Usual: 400, Chaos: 10_000}.Now()
	r := rand.New(rand.NewPCG(11, 13))
	for _, cases := range []int{meansMin, 500} {
		alarms := map[string]int{}
		for range rounds {
			var got Result
			got.means(means(r, 2000), means(r, cases))
			for _, f := range got.Findings {
				if f.Drifted {
					alarms[f.Test]++
				}
			}
		}
		t.Logf("windows of %d cases: false alarms of %d: %v", cases, rounds, alarms)
		for test, n := range alarms {
			if 100*n > rounds {
				t.Errorf("windows of %d cases: %s: %d false alarms of %d", cases, test, n, rounds)
			}
		}
	}
}

// TestFindsADoubledClassChaos doubles the share of a class. Within 500 cases the class is named.
func TestFindsADoubledClassChaos(t *testing.T) {
	rounds := budget.Budget{Short: 300, Usual: 1000, Chaos: 3000}.Now()
	for _, test := range []struct{ share, reported, least int }{{10, 2000, 97}, {5, 2000, 87}, {5, 10_000, 95}} { // shares in percent
		_, named := found(rounds, test.reported, 500, usual(test.share), usual(2*test.share))
		t.Logf("from %d to %d %%, report of %d: of %d windows of 500 cases, %d name the class", test.share, 2*test.share, test.reported, rounds, named)
		if 100*named < test.least*rounds {
			t.Errorf("from %d to %d %%, report of %d: of %d windows, %d name the class", test.share, 2*test.share, test.reported, rounds, named)
		}
	}
	worse := usual(5)
	worse.recovers = 600
	if drifted, _ := found(rounds, 2000, 500, usual(5), worse); 100*drifted < 99*rounds {
		t.Errorf("a recovery rate of 60 %% and not 75 %%: %d of %d", drifted, rounds)
	}
}

// TestBound computes how often the best test of all finds a class that grew from 5 to 10 % within
// 500 cases, if the test spends the whole probability of a false alarm on this class: the test of
// Neyman and Pearson (1933), between two known pairs of shares. The docs state the bounds.
func TestBound(t *testing.T) {
	for _, test := range []struct {
		reported int
		percent  float64
	}{{1000, 88.6}, {2000, 94.0}, {5000, 96.5}, {10_000, 97.2}} {
		got := 100 * bound(test.reported, 500, 0.05, 0.10)
		t.Logf("report of %d: at most %.2f %%", test.reported, got)
		if math.Abs(got-test.percent) > 0.1 {
			t.Errorf("report of %d: at most %.2f %%, and the docs say %.1f", test.reported, got, test.percent)
		}
	}
}

// bound returns the power of the most powerful test of one share on both sides, the common share,
// against was in the report and is in the window. The test may draw lots.
func bound(reported, cases int, was, is float64) (power float64) {
	type point struct{ same, other float64 }
	var all []point
	common := (was*float64(reported) + is*float64(cases)) / float64(reported+cases)
	report, window := binomial(reported, common), binomial(cases, common)
	reportOther, windowOther := binomial(reported, was), binomial(cases, is)
	for i := range report {
		for j := range window {
			if p := (point{report[i] * window[j], reportOther[i] * windowOther[j]}); p.other > 1e-12 {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Compare(b.other*a.same, a.other*b.same) })
	left := float64(alarmPPM) / million
	for _, p := range all {
		if p.same > left {
			return power + p.other*left/p.same
		}
		left, power = left-p.same, power+p.other
	}
	return power
}

func binomial(n int, share float64) (p []float64) {
	for k := range n + 1 {
		p = append(p, math.Exp(choose(int64(n), int64(k))+float64(k)*math.Log(share)+float64(n-k)*math.Log1p(-share)))
	}
	return p
}

func choose(n, k int64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// TestSplit compares a small split with its fractions, unchanged and of a class of 1/4 that doubled
// to 1/2, whose odds grow by 3.
func TestSplit(t *testing.T) {
	s := splitOf(4, 8, 4) // 1, 32, 168, 224 and 70 of 495 for 4, 3, 2, 1 and 0 cases of the window
	for x, want := range []float64{495, 425, 201, 33, 1, 0} {
		if got := 495 * s.chance(int64(x)); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d or more: %f of 495, want %f", x, got, want)
		}
	}
	if got := 495 * s.down[1]; math.Abs(got-294) > 1e-6 {
		t.Errorf("1 or fewer: %f of 495, want 294", got)
	}
	all := 70.0 + 3*224 + 9*168 + 27*32 + 81
	for x, want := range []float64{all, all - 70, 9*168 + 27*32 + 81, 27*32 + 81, 81} {
		if got := all * s.doubled[x]; math.Abs(got-want) > 1e-6 {
			t.Errorf("doubled, %d or more: %f of %f, want %f", x, got, all, want)
		}
	}
	for _, n := range []int64{1, 9, 1_000_000, 1_199_999, 1_200_000} { // the ends, and large numbers
		s := splitOf(n, 1_000_000, 200_000)
		if all, doubled := s.down[len(s.down)-1], s.doubled[0]; math.Abs(all-1) > 1e-6 || n < 1_200_000 && math.Abs(doubled-1) > 1e-6 {
			t.Errorf("%d: the probabilities sum up to %f, and %f", n, all, doubled)
		}
	}
}

// TestLimits divides a probability: nothing is overspent, and rarer classes have more of it.
func TestLimits(t *testing.T) {
	for _, shares := range [][]int64{{5}, {5, 5}, {5, 8, 30}, {4, 10, 20, 60}, {}} {
		var classes []*split
		for _, share := range shares {
			classes = append(classes, splitOf(25*share, 2000, 500))
		}
		got, sum := limits(classes, 0.009), 0.0
		for i, p := range got {
			if sum += p; p < 0.0009/float64(len(shares)) || i > 0 && p > 1.001*got[i-1] {
				t.Errorf("%v: %v", shares, got)
			}
		}
		if sum > 0.009 || len(shares) > 0 && sum < 0.005 {
			t.Errorf("%v: %v sums up to %f", shares, got, sum)
		}
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
	before.Calibration, window.Calibration = &engine.Calibration{Attempts: 290, ErrorPPM: 50_000}, &engine.Calibration{Attempts: 290, ErrorPPM: 160_000}
	var drifted []string
	for _, f := range Compare(before, window).Findings {
		if f.Drifted {
			drifted = append(drifted, f.Test)
		}
	}
	if !slices.Equal(drifted, []string{"cost", "calibration"}) {
		t.Errorf("%v", drifted)
	}
	window.Calibration.Attempts = meansMin - 1
	if got := Compare(before, window); slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Test == "calibration" }) {
		t.Errorf("a calibration of few attempts: %+v", got)
	}
	window.Classes = append(window.Classes, engine.Class{Label: scenario.Label{Class: "state", Code: "corrupt"}, Cases: engine.Cases{Failing: 80}})
	window.Failing, window.Escalated = window.Failing+80, window.Escalated+80
	if got := Compare(before, window); !slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Class == "state" && f.Was == 0 && f.Drifted }) {
		t.Errorf("%+v", got)
	}
}
