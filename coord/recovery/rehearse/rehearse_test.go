package rehearse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/faults"
)

// changed is the default policy with other texts.
func changed(tb testing.TB, pairs ...string) *recovery.Policy {
	tb.Helper()
	text := string(recovery.DefaultDocument())
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			tb.Fatalf("the default policy has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	p, err := recovery.Load("policy.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// ends are cases that ran for real, by class: how many failed, and how many recovered.
type ends struct {
	recovered int64
	classes   map[string]int64
}

// really runs cases under a policy, and writes what was tried to a file.
func really(tb testing.TB, p *recovery.Policy, seed int64, cases []scenario.Case) (path string, e ends) {
	tb.Helper()
	config := engine.Config{Policy: p, Runtime: faults.Seeded{Seed: seed}}
	var lines strings.Builder
	e.classes = map[string]int64{}
	for i := range cases {
		r, err := config.Recover(tb.Context(), &cases[i])
		if err != nil {
			tb.Fatal(err)
		}
		line, err := scenario.Encode(r.Case)
		if err != nil {
			tb.Fatal(err)
		}
		lines.Write(append(line, '\n'))
		if r.Trace.Status == engine.AutoRecovered {
			e.recovered++
			e.classes[r.Trace.Class]++
		}
	}
	path = filepath.Join(tb.TempDir(), "past.ndjson")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path, e
}

// TestBoundsHoldTheTruthChaos records cases under one policy, and rehearses another on the record.
// The bounds hold what the other policy does to the same faults for real, in each class. Each seed
// has six pairs of unlike policies.
func TestBoundsHoldTheTruthChaos(t *testing.T) {
	policies := []*recovery.Policy{recovery.Default(), changed(t, "attempts: 6", "attempts: 2"), changed(t, "strategy: fallback_model, enabled: false", "strategy: fallback_model, enabled: true")}
	cases := faults.Cases(budget.Budget{Short: 60, Usual: 100, Chaos: 1000}.Now())
	open := 0
	for seed := range int64(budget.Budget{Short: 1, Usual: 4, Chaos: 10}.Now()) {
		for i, a := range policies {
			path, was := really(t, a, seed, cases)
			for j, b := range policies {
				r, _, err := Rehearse(t.Context(), path, a, b, 2)
				if err != nil {
					t.Fatal(err)
				}
				_, truth := really(t, b, seed, cases)
				if n := truth.recovered; n < r.Candidate.Recovered.Least || n > r.Candidate.Recovered.Most {
					t.Errorf("seed %d, %d to %d: %d recover, the bounds are %+v", seed, i, j, n, r.Candidate.Recovered)
				}
				if n := truth.recovered - was.recovered; n < r.Change.Least || n > r.Change.Most {
					t.Errorf("seed %d, %d to %d: %d more recover, the bounds are %+v", seed, i, j, n, r.Change)
				}
				for _, c := range r.Classes {
					if n := truth.classes[c.Class]; n < c.Candidate.Least || n > c.Candidate.Most {
						t.Errorf("seed %d, %d to %d, %s: %d recover, the bounds are %+v", seed, i, j, c.Class, n, c.Candidate)
					}
				}
				if i == j && (r.Change != Bounds{} || len(r.NotObserved) > 0 || r.Settled != r.Failing) {
					t.Errorf("seed %d: policy %d differs from itself: %+v", seed, i, r)
				}
				if r.Candidate.NotObserved > 0 {
					open++
				}
			}
		}
	}
	if open == 0 {
		t.Error("nothing was ever unobserved: the test says nothing")
	}
}

// past writes lines of a scenario to a file.
func past(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "past.ndjson")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// failed is a case of one step that failed, and of what was tried then.
func failed(id, class, code, tried string) string {
	return `{"v":1,"id":"` + id + `","agent":"a","steps":[{"id":"s","effect":"none","idempotent":true,"outcome":"failed","failure":{"class":"` + class + `","code":"` + code +
		`","effects":"none","replay_safety":"safe"},"attempts":[` + tried + `]}]}`
}

// TestRecommendation has a candidate that is surely like the baseline, one that is surely worse,
// and one about which the record does not say enough.
func TestRecommendation(t *testing.T) {
	const retried = `{"strategy":"retry","outcome":"ok","verified":true,"cost_micro_usd":5,"latency_ms":7}`
	var lines []string
	for i := range 40 {
		lines = append(lines, failed("case-"+string(rune('a'+i/10))+string(rune('0'+i%10)), "transient", "timeout", retried))
	}
	path := past(t, lines...)
	for _, test := range []struct {
		name      string
		candidate *recovery.Policy
		want      engine.Recommendation
		change    Bounds
	}{
		{"itself", recovery.Default(), engine.Promote, Bounds{}},
		{"escalates at once", onlyRule(t, ""), engine.Reject, Bounds{-40, -40}},
		{"does what nobody did", onlyRule(t, "{strategy: retry_altered, variant: reflect, max: 1}, "), engine.Inconclusive, Bounds{-40, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _, err := Rehearse(t.Context(), path, recovery.Default(), test.candidate, 1)
			if err != nil {
				t.Fatal(err)
			}
			if r.Recommendation != test.want || r.Change != test.change || r.Failing != 40 {
				t.Errorf("%+v", r)
			}
			if test.want != engine.Inconclusive {
				return
			}
			want := []Unobserved{{Policy: "candidate", Label: scenario.Label{Class: "transient", Code: "timeout"}, Strategy: "retry_altered", Variant: "reflect", Cases: 40,
				First: []string{"case-a0", "case-a1", "case-a2", "case-a3", "case-a4"}}}
			if diff := cmp.Diff(want, r.NotObserved); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// onlyRule is a policy with the thresholds of the default policy and one rule, which has these
// rungs.
func onlyRule(t *testing.T, rungs string) *recovery.Policy {
	t.Helper()
	text := string(recovery.DefaultDocument())
	from, to := strings.Index(text, "\n  rules:"), strings.Index(text, "\n  thresholds:")
	if from < 0 || to < from {
		t.Fatal("the default policy has other members")
	}
	p, err := recovery.Load("policy.yaml", []byte(text[:from]+"\n  rules:\n    - {id: all, when: 'true', ladder: ["+rungs+"{strategy: escalate}]}"+text[to:]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSameAttemptOtherEnds has two policies that want the same attempt, which nobody made. They are
// not alike for that: after it fails, the one tries something else, and the other gives up. The
// bounds of the change hold both truths.
func TestSameAttemptOtherEnds(t *testing.T) {
	const altered = "{strategy: retry_altered, variant: reflect, max: 1}, "
	long, short := onlyRule(t, altered+"{strategy: retry, max: 1}, "), onlyRule(t, altered)
	rehearse := func(tried string, before, now *recovery.Policy) *Rehearsal {
		t.Helper()
		r, _, err := Rehearse(t.Context(), past(t, failed("c", "transient", "timeout", tried)), before, now, 1)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const tried = `{"strategy":"retry_altered","variant":"reflect","outcome":"failed","failure":{"class":"transient","code":"timeout","effects":"none","replay_safety":"safe"}},` +
		`{"strategy":"retry","outcome":"ok","verified":true}`
	for _, test := range []struct {
		before, now *recovery.Policy
		truth       int64
	}{{long, short, -1}, {short, long, 1}} {
		if truth := rehearse(tried, test.before, test.now).Change; truth != (Bounds{test.truth, test.truth}) {
			t.Errorf("the truth is %+v, want %d", truth, test.truth)
		}
		if r := rehearse("", test.before, test.now); r.Change.Least > test.truth || r.Change.Most < test.truth || len(r.NotObserved) != 2 {
			t.Errorf("the bounds are %+v, and the truth is %d: %+v", r.Change, test.truth, r.NotObserved)
		}
	}
}

// TestWorstIsWhatARunSays runs the candidate over the same file against the baseline of the
// rehearsal: the run recommends what the rehearsal calls the worst.
func TestWorstIsWhatARunSays(t *testing.T) {
	path, _ := really(t, recovery.Default(), 3, faults.Cases(60))
	for _, candidate := range []*recovery.Policy{recovery.Default(), changed(t, "attempts: 6", "attempts: 2"),
		onlyRule(t, "{strategy: retry, max: 2, backoff: {base_ms: 1, factor: 2, max_ms: 9, jitter_ppm: 0}}, ")} {
		r, baseline, err := Rehearse(t.Context(), path, recovery.Default(), candidate, 2)
		if err != nil {
			t.Fatal(err)
		}
		run := engine.NewSetup(candidate, 0).NewRun(2)
		run.Scenario, run.Baseline = path, baseline
		report, err := run.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if report.Recommendation != r.Worst {
			t.Errorf("the run says %s, the rehearsal %s", report.Recommendation, r.Worst)
		}
		if diff := cmp.Diff(report.Gates, r.Gates); diff != "" {
			t.Error(diff)
		}
	}
}
