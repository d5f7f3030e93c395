package engine

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// What never counts as recovered: a run that nobody saw get past its recovery,
// and one that its source calls failed.
func TestNeverRecoveredUnseen(t *testing.T) {
	const (
		ok        = `"effect":"none","outcome":"ok"`
		recovered = `"model":"primary","effect":"none","outcome":"failed","failure":{"class":"output","code":"malformed","effects":"none"},` +
			`"attempts":[{"strategy":"retry_altered","variant":"stricter_schema","outcome":"ok"}]`
		untried = `"effect":"none"`
	)
	step := func(id, rest string) string { return `{"id":"` + id + `",` + rest + `}` }
	for _, test := range []struct {
		desc, outcome string
		steps         []string
		want          entry.CaseStatus
		failed        int64
	}{
		{"got past", "", []string{step("s", recovered), step("t", ok)}, AutoRecovered, 1},
		{"nobody saw it get past", "", []string{step("s", recovered), step("t", untried), step("u", ok)}, Escalated, 1},
		{"what may be skipped", "", []string{step("s", recovered), step("t", `"conditional":true,`+untried), step("u", ok)}, AutoRecovered, 1},
		{"not tried before it failed", "", []string{step("t", untried), step("s", recovered)}, AutoRecovered, 1},
		{"planned only", "", []string{step("t", untried), step("u", untried)}, NoFailure, 0},
		{"failed all the same", "failed", []string{step("s", recovered), step("t", ok)}, Escalated, 2},
		{"failed and nobody knows where", "failed", []string{step("s", ok)}, Escalated, 1},
		{"failed, and not seen to the end", "failed", []string{step("s", recovered), step("t", untried)}, Escalated, 1},
		{"a step called verdict", "failed", []string{step("verdict", ok)}, Escalated, 1},
		{"went well", "ok", []string{step("s", recovered)}, AutoRecovered, 1},
	} {
		t.Run(test.desc, func(t *testing.T) {
			line := `{"v":1,"id":"a","agent":"x","outcome":"` + test.outcome + `","steps":[` + strings.Join(test.steps, ",") + `]}`
			c, err := scenario.Decode([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			config := Config{Policy: recovery.Default()}
			first, err := config.Recover(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if got := first.Trace; got.Status != test.want || got.Steps.Failed != test.failed {
				t.Errorf("trace %+v, want %s after %d failures", got, test.want, test.failed)
			}
			roundTrip(t, first.Case)
			again, err := config.Recover(t.Context(), &first.Case)
			a, _ := first.Trace.Encode()
			b, _ := again.Trace.Encode()
			if err != nil || string(a) != string(b) {
				t.Errorf("again %v:\n%s\n%s", err, a, b)
			}
			all := recoverAll(t, &Batch{Config: config, Workers: 1}, []byte(line))
			if test.want == Escalated && len(all.traces[0].Rungs) == 0 {
				t.Error("nothing says why")
			}
		})
	}
}

// A safety-critical case that a policy without the guard lets recover rejects
// the report.
func TestSafetyCriticalRejects(t *testing.T) {
	document := string(recovery.DefaultDocument())
	start := strings.Index(document, "  guards:\n")
	end := strings.Index(document, "  rules:\n")
	if start < 0 || end < start {
		t.Fatal("the default policy has no guards")
	}
	p, err := recovery.Load("policy.yaml", []byte(document[:start]+document[end:]))
	if err != nil {
		t.Fatal(err)
	}
	all := recoverAll(t, &Batch{Config: Config{Policy: p}, Workers: 1}, []byte(`{"v":1,"id":"a","agent":"x","risk":{"safety_critical":true},"steps":[{"id":"s",`+
		`"model":"primary","effect":"none","outcome":"failed","failure":{"class":"output","code":"malformed","effects":"none"},`+
		`"attempts":[{"strategy":"retry_altered","variant":"stricter_schema","outcome":"ok"}]}]}`))
	if r := all.report; r.AutoRecovered != 1 || verdicts(&r)["never_auto_recover"] != Fail || r.Recommendation != Reject {
		t.Errorf("%d recovered, %s, gates %v", r.AutoRecovered, r.Recommendation, verdicts(&r))
	}
}

// What nobody carried out is called decided, not ok.
func TestDecisionsAreNotResults(t *testing.T) {
	all := recoverAll(t, defaultBatch(), fixture(t))
	for _, trace := range all.traces {
		for _, r := range trace.Rungs {
			s := recovery.Strategy(r.Strategy)
			carriedOut := s.Attempts() || s == recovery.Reconcile || s == recovery.Wait
			if carriedOut == (r.Result == string(recovery.ResultDecided)) {
				t.Errorf("%s: %s is %s", trace.Case, r.Strategy, r.Result)
			}
		}
	}
	if !strings.Contains(all.report.Summary(), "| strategy | times | ok | only decided | not observed |") {
		t.Error("the summary does not tell decisions from results")
	}
}

// The baseline gate is near a flip within a percent of the tolerance, on both
// sides.
func TestBaselineNear(t *testing.T) {
	for failing, near := range map[int64]bool{99: false, 104: true, 105: true, 106: false} {
		tally, err := NewTally(recovery.Default()) // tolerates 50000 ppm
		if err != nil {
			t.Fatal(err)
		}
		r := Report{Classes: []Class{{Label: scenario.Label{Class: "tool", Code: "error"}, Cases: Cases{Failing: failing, AutoRecovered: 99}}}}
		g := tally.baselineGate(&r, &Baseline{Classes: []BaselineClass{{Class: "tool", Failing: 10, AutoRecovered: 10}}})
		if g.Near != near || (g.Verdict == Fail) != (*g.Value > 50_000) {
			t.Errorf("lost %d: near %v, %s", *g.Value, g.Near, g.Verdict)
		}
	}
}

// A cost that nobody knows is not none.
func TestUnknownCostIsNotZero(t *testing.T) {
	line := func(cost string) []byte {
		return []byte(`{"v":1,"id":"a","agent":"x","steps":[{"id":"s","model":"primary","effect":"none","outcome":"failed"` + cost +
			`,"failure":{"class":"output","code":"malformed","effects":"none"}}]}`)
	}
	b := &Batch{Config: Config{Policy: recovery.Default()}, Workers: 1}
	unknown, known := recoverAll(t, b, line("")).report, recoverAll(t, b, line(`,"cost_micro_usd":0`)).report
	if unknown.Spent.CostMicroUSD != nil || unknown.Spent.CostPerCaseMicroUSD != nil || !strings.Contains(unknown.Summary(), "| unknown, unknown each |") {
		t.Errorf("unknown: %+v", unknown.Spent)
	}
	if known.Spent.CostMicroUSD == nil || *known.Spent.CostMicroUSD != 0 {
		t.Errorf("known: %+v", known.Spent)
	}
	if d := Diff(&unknown, &known); d.Classes[0].CostPerCaseChange != nil || d.Classes[0].ChangePPM == nil {
		t.Errorf("difference: %+v", d.Classes[0])
	}
}

// A case that is given up in doubt about an effect which its step leaves out names the
// step, in its trace and in the report; any other case does not.
func TestUndeclaredEffectIsNamed(t *testing.T) {
	for _, c := range []struct{ desc, step, want string }{
		{"a minimalCase case", `"outcome":"failed","failure":{"raw":{"http_status":503}},"attempts":[{"strategy":"retry","outcome":"ok"}]`, "s"},
		{"asked, and not told", `"outcome":"failed","failure":{"raw":{"http_status":503}},"attempts":[{"strategy":"reconcile","outcome":"ok","effects":"unknown"}]`, "s"},
		{"asked, and told", `"outcome":"failed","failure":{"raw":{"http_status":503}},"attempts":[{"strategy":"reconcile","outcome":"ok","effects":"none"},{"strategy":"retry","outcome":"ok"}]`, ""},
		{"no effect", `"effect":"none","outcome":"failed","failure":{"raw":{"http_status":503}},"attempts":[{"strategy":"retry","outcome":"ok"}]`, ""},
		{"an effect", `"effect":"irrevocable","outcome":"failed","failure":{"raw":{"http_status":503}}`, ""},
		{"given up for another reason", `"outcome":"failed","failure":{"class":"access","code":"denied","effects":"none"}`, ""},
	} {
		got := recoverAll(t, defaultBatch(), []byte(`{"v":1,"id":"a","agent":"x","steps":[{"id":"s",`+c.step+`}]}`))
		trace := got.traces[0]
		if trace.Undeclared != c.want || (trace.Hint() != "") != (c.want != "") {
			t.Errorf("%s: %q, %s %s", c.desc, trace.Undeclared, trace.Status, trace.Reason)
		}
		if warned := strings.Contains(strings.Join(got.report.Warnings, "\n"), `write "effect":"none"`); warned != (c.want != "") {
			t.Errorf("%s: warnings %v", c.desc, got.report.Warnings)
		}
	}
}
