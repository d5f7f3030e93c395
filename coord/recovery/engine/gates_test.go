package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// verdicts gives what the gates of a report say.
func verdicts(r *Report) map[string]Verdict {
	all := map[string]Verdict{}
	for _, g := range r.Gates {
		all[g.Gate] = g.Verdict
	}
	return all
}

// Each gate fails by itself, and the recommendation follows.
func TestGates(t *testing.T) {
	base := recoverAll(t, defaultBatch(), fixture(t))
	better := NewBaseline(&base.report, entry.DigestOf("baseline"))
	better.Classes[slices.IndexFunc(better.Classes, func(c BaselineClass) bool { return c.Class == "output" })].AutoRecovered += 3
	for _, test := range []struct {
		name     string
		path     string
		value    int64
		document [2]string
		baseline *Baseline
		partial  string
		gate     string
		verdict  Verdict
		want     Recommendation
	}{
		{name: "all pass", gate: "recovery_rate_min", verdict: Pass, want: Promote},
		{name: "too few cases", path: "thresholds.cases_min", value: 95, gate: "cases_min", verdict: Unknown, want: Inconclusive},
		{name: "just enough cases", path: "thresholds.cases_min", value: 94, gate: "cases_min", verdict: Pass, want: Promote},
		{name: "rate", path: "thresholds.recovery_rate_min_ppm", value: 755320, gate: "recovery_rate_min", verdict: Fail, want: Reject},
		{name: "rate just enough", document: [2]string{"slices: [adversarial, holdout]", "slices: [holdout]"},
			path: "thresholds.recovery_rate_min_ppm", value: 755319, gate: "recovery_rate_min", verdict: Pass, want: Promote},
		{name: "cost", path: "thresholds.cost_per_case_max_micro_usd", value: 42000, gate: "cost_per_case_max", verdict: Fail, want: Reject},
		{name: "latency", path: "thresholds.latency_p95_max_ms", value: 30000, gate: "latency_p95_max", verdict: Fail, want: Reject},
		{
			name: "never", document: [2]string{"never_auto_recover: [safety.violation, access.denied]", "never_auto_recover: [safety]"},
			gate: "never_auto_recover", verdict: Fail, want: Reject,
		},
		{
			name: "never asked", document: [2]string{"never_auto_recover: [safety.violation, access.denied]", "never_auto_recover: []"},
			gate: "never_auto_recover", verdict: NotAsked, want: Promote,
		},
		{name: "baseline", baseline: NewBaseline(&base.report, entry.DigestOf("baseline")), gate: "baseline", verdict: Pass, want: Promote},
		{name: "better baseline", baseline: better, gate: "baseline", verdict: Fail, want: Reject},
		{
			name: "tolerated", document: [2]string{"tolerance_ppm: 50000", "tolerance_ppm: 50000\n    class_tolerance_ppm: {output: 430000}"},
			baseline: better, gate: "baseline", verdict: Pass, want: Promote,
		},
		{name: "other classes", baseline: &Baseline{Classes: []BaselineClass{{Class: "weather", Failing: 1, AutoRecovered: 1}}}, gate: "baseline", verdict: Unknown, want: Reject},
		{name: "partial", partial: "interrupted", gate: "recovery_rate_min", verdict: Pass, want: Inconclusive},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := recovery.Default()
			if test.document[0] != "" {
				text := string(recovery.DefaultDocument())
				if !strings.Contains(text, test.document[0]) {
					t.Fatalf("no %q in the default policy", test.document[0])
				}
				var err error
				if p, err = recovery.Load("p.yaml", []byte(strings.Replace(text, test.document[0], test.document[1], 1))); err != nil {
					t.Fatal(err)
				}
			}
			if test.path != "" {
				p = pin(t, p, test.path, test.value)
			}
			tally, err := NewTally(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range base.traces {
				if err := tally.Add(&base.traces[i], leafOf([]byte{byte(i)})); err != nil {
					t.Fatal(err)
				}
			}
			r, err := tally.Report(Subject{Policy: p, Baseline: test.baseline, Partial: test.partial})
			if err != nil {
				t.Fatal(err)
			}
			if got := verdicts(&r)[test.gate]; got != test.verdict || r.Recommendation != test.want {
				t.Errorf("gate %s: %s, %s; want %s, %s\n%+v", test.gate, got, r.Recommendation, test.verdict, test.want, r.Gates)
			}
		})
	}
}

// Quantiles are exact below 256 ms, and less than 0.8 % too large above.
func TestQuantiles(t *testing.T) {
	l := latencies{}
	if l.quantile(million/2) != nil {
		t.Error("a quantile of nothing")
	}
	for ms := range int64(100_001) {
		l.add(ms)
	}
	for _, test := range []struct{ ppm, exact int64 }{{1, 0}, {1000, 100}, {2000, 200}, {500_000, 50_000}, {950_000, 95_000}, {1_000_000, 100_000}} {
		got := *l.quantile(test.ppm)
		if got < test.exact || got > test.exact+test.exact*8/1000+1 {
			t.Errorf("%d ppm: %d, exactly %d", test.ppm, got, test.exact)
		}
	}
	if len(l) > 2000 {
		t.Errorf("%d buckets", len(l))
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string][]int64{
		"limits.attempts=1..3":                 {1, 2, 3},
		"limits.attempts=2..2":                 {2},
		"a.b=0..10/5":                          {0, 5, 10},
		"a.b=0..9/5":                           {0, 5},
		"limits.attempts":                      nil,
		"=1..2":                                nil,
		"a=1":                                  nil,
		"a=1..":                                nil,
		"a=-1..2":                              nil,
		"a=3..2":                               nil,
		"a=1..2/0":                             nil,
		"a=0..1000":                            nil, // one past the limit
		"a=1..99999999999999999":               nil,
		"a=9007199254740991..9007199254740992": nil, // one past the largest number
		"a=9223372036854775800..9223372036854775807/5": nil,
	} {
		_, values, err := ParseRange(text)
		if diff := cmp.Diff(want, values); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v", text, values, err)
		}
	}
	if _, values, err := ParseRange("a=9007199254740989..9007199254740991/5"); err != nil || len(values) != 1 {
		t.Errorf("at the largest number: %v, %v", values, err)
	}
	if _, values, err := ParseRange("a=1..1000"); err != nil || len(values) != sweepMax {
		t.Errorf("at the limit: %d values, %v", len(values), err)
	}
}
