// Package drift compares the failures of a window of time with those of a report: whether classes
// and codes are as frequent, and whether as many cases recover, cost as much, and are as sure as
// they are right.
//
// The cases of a class are compared by Fisher's exact test. Most of the probability of a false
// alarm goes to common classes that grew, divided so that most of those that doubled are found. The
// mix of all codes and the recovery rate are compared by G-tests, likelihood-ratio tests of
// homogeneity (Sokal and Rohlf, Biometry, 1981) with the correction of Williams (Biometrika 63,
// 1976). The tests of one comparison together find a drift where there is none with a probability
// of at most [alarmPPM] (Bonferroni). A package that only reports may compute in floating point.
package drift

import (
	"cmp"
	"math"
	"slices"

	"recoveryledger/coord/recovery/engine"
)

// alarmPPM is the share of comparisons that may find a drift of counts where there is none, in
// parts per million.
const alarmPPM = 10_000

// CasesMin is the number of failing cases of each side below which nothing is compared.
const CasesMin = 50

const (
	million = 1_000_000
	// expectedMin is the least expected count of a cell; rarer codes are counted together (Cochran,
	// The χ² test of goodness of fit, 1952).
	expectedMin = 5
	// costRisePPM is by how much a case may cost more or less, and calibrationPPM by how much the
	// calibration error may rise. Reports have no spread of costs, so these are no tests. Both
	// sides need meansMin cases, or attempts with a confidence: the mean of fewer, and more so
	// their calibration error, differs by as much by chance.
	costRisePPM    = 250_000
	calibrationPPM = 100_000
	meansMin       = 200
	// commonPPM is the share of all cases, of report and window, from which on a class is common. A
	// doubling of rarer classes does not show within some hundred cases.
	commonPPM = 40_000
)

// Shares of [alarmPPM]. Each of the rarer classes has an equal part of rarePPM for its growth, and
// each of all classes of shrunkPPM.
const (
	rarePPM     = 250
	shrunkPPM   = 250
	codesPPM    = 250
	recoveryPPM = 250
	grewPPM     = alarmPPM - rarePPM - shrunkPPM - codesPPM - recoveryPPM // common classes
)

// Finding is a comparison.
type Finding struct {
	Test   string `json:"test"`           // class, codes, recovery, cost or calibration
	Class  string `json:"class,omitzero"` // of the test class
	Was    int64  `json:"was"`            // share of cases in parts per million; micro-USD a case; or calibration error
	Is     int64  `json:"is"`             // the same in the window
	GMilli int64  `json:"g_milli"`        // thousandths of the statistic G; 0 of no test
	PPPM   *int64 `json:"p_ppm,omitzero"` // probability of such a difference by chance, in parts per million; absent: no test
	// LimitPPM is the probability below which a difference is no chance, in parts per million;
	// absent: no test. The probabilities of a class are those of a change in the direction seen.
	LimitPPM *int64 `json:"limit_ppm,omitzero"`
	Drifted  bool   `json:"drifted"`
}

// Result is what a comparison found.
type Result struct {
	Before   int64     `json:"before"` // failing cases of the report
	Window   int64     `json:"window"` // failing cases of the window
	Enough   bool      `json:"enough"` // whether both have [CasesMin]
	Drifted  bool      `json:"drifted"`
	Findings []Finding `json:"findings"`
}

// Compare compares a window with a report.
func Compare(before, window *engine.Report) Result {
	r := Result{Before: before.Failing, Window: window.Failing, Enough: before.Failing >= CasesMin && window.Failing >= CasesMin, Findings: []Finding{}}
	if !r.Enough {
		return r
	}
	classes, codes := counts(before, window, false), counts(before, window, true)
	r.classes(classes)
	r.Findings = append(r.Findings, tested("codes", gathered(codes, r.Before, r.Window), codesPPM))
	f := tested("recovery", [][2]int64{{before.AutoRecovered, window.AutoRecovered}, {before.Escalated, window.Escalated}}, recoveryPPM)
	f.Was, f.Is = before.RecoveryRatePPM, window.RecoveryRatePPM
	r.Findings = append(r.Findings, f)
	r.means(before, window)
	r.Drifted = slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Drifted })
	return r
}

// means compares what cases cost, and how sure the attempts are.
func (r *Result) means(before, window *engine.Report) {
	if was, is := before.Spent.CostPerCaseMicroUSD, window.Spent.CostPerCaseMicroUSD; was != nil && is != nil && min(before.Failing, window.Failing) >= meansMin {
		off := math.Abs(float64(*is-*was)) * million
		r.Findings = append(r.Findings, Finding{Test: "cost", Was: *was, Is: *is, Drifted: off > costRisePPM*float64(*was)})
	}
	if was, is := before.Calibration, window.Calibration; was != nil && is != nil && min(was.Attempts, is.Attempts) >= meansMin {
		r.Findings = append(r.Findings, Finding{Test: "calibration", Was: was.ErrorPPM, Is: is.ErrorPPM, Drifted: is.ErrorPPM > was.ErrorPPM+calibrationPPM})
	}
}

// classes adds a finding for each class.
func (r *Result) classes(classes []count) {
	splits, rare := make([]*split, len(classes)), 0
	var common []*split
	for i, c := range classes {
		n := c.n[0] + c.n[1]
		splits[i] = splitOf(n, r.Before, r.Window)
		if isCommon(n, r) {
			common = append(common, splits[i])
		} else {
			rare++
		}
	}
	shared := limits(common, float64(grewPPM)/million)
	for i, c := range classes {
		rows := [][2]int64{c.n, {r.Before - c.n[0], r.Window - c.n[1]}}
		g, _ := statistic(rows)
		chance, limit := splits[i].down[c.n[1]-splits[i].least], float64(shrunkPPM)/million/float64(len(classes))
		grew := c.n[1]*r.Before > c.n[0]*r.Window
		if grew {
			chance, limit = splits[i].chance(c.n[1]), float64(rarePPM)/million/float64(max(rare, 1))
		}
		if isCommon(c.n[0]+c.n[1], r) {
			if grew {
				limit = shared[0]
			}
			shared = shared[1:]
		}
		f := finding("class", g, chance, limit)
		f.Class, f.Was, f.Is = c.name, c.n[0]*million/r.Before, c.n[1]*million/r.Window
		r.Findings = append(r.Findings, f)
	}
}

// isCommon reports whether a class with so many cases is common.
func isCommon(n int64, r *Result) bool { return n*million >= commonPPM*(r.Before+r.Window) }

// count is how many cases of a name there were in the report, and in the window.
type count struct {
	name string
	n    [2]int64
}

func counts(before, window *engine.Report, codes bool) (all []count) {
	for side, r := range []*engine.Report{before, window} {
		for i := range r.Classes {
			name := r.Classes[i].Class
			if codes {
				name = r.Classes[i].String()
			}
			at := slices.IndexFunc(all, func(c count) bool { return c.name == name })
			if at < 0 {
				at, all = len(all), append(all, count{name: name})
			}
			all[at].n[side] += r.Classes[i].Failing
		}
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Compare(a.name, b.name) })
	return all
}

// gathered returns a row for each code, and one for all codes that are too rare for a row.
func gathered(codes []count, before, window int64) (rows [][2]int64) {
	var rest [2]int64
	for _, c := range codes {
		if least := float64(c.n[0]+c.n[1]) * float64(min(before, window)) / float64(before+window); least >= expectedMin {
			rows = append(rows, c.n)
			continue
		}
		rest[0], rest[1] = rest[0]+c.n[0], rest[1]+c.n[1]
	}
	if rest[0]+rest[1] > 0 {
		rows = append(rows, rest)
	}
	return rows
}

func tested(name string, rows [][2]int64, alphaPPM float64) Finding {
	g, df := statistic(rows)
	return finding(name, g, tail(g, df), alphaPPM/million)
}

func finding(name string, g, chance, limit float64) Finding {
	ppm := func(p float64) *int64 { return new(int64(math.Round(p * million))) }
	return Finding{Test: name, GMilli: int64(math.Round(g * 1000)), PPPM: ppm(chance), LimitPPM: ppm(limit), Drifted: chance <= limit}
}

// statistic returns G of a table of counts, corrected, and its degrees of freedom.
func statistic(rows [][2]int64) (g float64, df int) {
	var sides [2]float64
	for _, r := range rows {
		sides[0], sides[1] = sides[0]+float64(r[0]), sides[1]+float64(r[1])
	}
	all, inverse := sides[0]+sides[1], 0.0
	for _, r := range rows {
		total := float64(r[0] + r[1])
		if total == 0 {
			continue
		}
		df, inverse = df+1, inverse+1/total
		for side, n := range r {
			if n > 0 {
				g += 2 * float64(n) * math.Log(float64(n)*all/(total*sides[side]))
			}
		}
	}
	if df < 2 {
		return 0, 0
	}
	df--
	q := 1 + (all*inverse-1)*(all/sides[0]+all/sides[1]-1)/(6*all*float64(df))
	return max(0, g/q), df
}

// tail returns the probability that χ² with so many degrees of freedom is at least g, by the
// approximation of Wilson and Hilferty (1931); exact for one degree.
func tail(g float64, df int) float64 {
	switch df {
	case 0:
		return 1
	case 1:
		return math.Erfc(math.Sqrt(g / 2))
	}
	v := 2 / (9 * float64(df))
	return math.Erfc((math.Cbrt(g/float64(df))-(1-v))/math.Sqrt(2*v)) / 2
}
