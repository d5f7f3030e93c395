package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/testdata/budget"
)

// pin gives the default policy with other numbers.
func pin(tb testing.TB, p *recovery.Policy, path string, value int64) *recovery.Policy {
	tb.Helper()
	p, err := p.With(path, value)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Recorded attempts answer by how they went, whatever stood around them.
func TestRecordedAnswersByTheWay(t *testing.T) {
	way := func(strategy, variant, model string) scenario.Variation {
		return scenario.Variation{Strategy: strategy, Variant: variant, Model: model}
	}
	attempt := func(strategy, variant, model string, confidence int64) scenario.Attempt {
		return scenario.Attempt{Variation: way(strategy, variant, model), Outcome: scenario.OK, ConfidencePPM: &confidence}
	}
	step := scenario.Step{Attempts: []scenario.Attempt{
		attempt("fallback_model", "", "large", 1), attempt("retry", "", "", 2), attempt("retry_altered", "reflect", "", 3),
		attempt("retry", "", "small", 4), attempt("retry_altered", "", "", 5),
	}}
	retry := way("retry", "", "small")
	for _, test := range []struct {
		way  scenario.Variation
		past []scenario.Variation
		want int64 // 0: not observed
	}{
		{retry, nil, 2},
		{retry, []scenario.Variation{retry}, 4},
		{retry, []scenario.Variation{retry, retry}, 0},
		{way("retry", "", "large"), []scenario.Variation{retry}, 0},
		{way("retry", "", ""), []scenario.Variation{retry}, 4},
		{way("fallback_model", "", "large"), nil, 1},
		{way("fallback_model", "", "other"), nil, 0},
		{way("retry_altered", "reflect", ""), nil, 3},
		{way("retry_altered", "decompose", ""), nil, 5},
		{way("retry_altered", "reflect", ""), []scenario.Variation{way("retry_altered", "decompose", "")}, 3},
		{way("retry_altered", "repair_args", ""), []scenario.Variation{way("retry_altered", "decompose", "")}, 0}, // the record has answered
		{way("state_reset", "context", ""), nil, 0},
	} {
		a, err := Recorded{}.Attempt(t.Context(), scenario.Request{Step: &step, Variation: test.way, Past: test.past})
		got := int64(0)
		if a.ConfidencePPM != nil {
			got = *a.ConfidencePPM
		}
		if err != nil || got != test.want || (got == 0) != (a.Outcome == scenario.NotObserved) {
			t.Errorf("%+v after %v: attempt %d, want %d (%v)", test.way, test.past, got, test.want, err)
		}
	}
}

// One recorded attempt shows one attempt: a second one that it would fit, too,
// was not observed, and is not paid twice.
func TestRecordAnswersOnce(t *testing.T) {
	all := recoverAll(t, &Batch{Config: Config{Policy: recovery.Default()}, Workers: 1}, []byte(`{"v":1,"id":"a","agent":"x","steps":[{"id":"s",`+
		`"model":"primary","effect":"none","outcome":"failed","failure":{"class":"output","code":"malformed","effects":"none"},"cost_micro_usd":1,`+
		`"attempts":[{"strategy":"retry_altered","outcome":"failed","failure":{"class":"output","code":"bad_arguments","effects":"none"},"cost_micro_usd":1000}]}]}`))
	if trace := all.traces[0]; trace.CostMicroUSD != 1001 || trace.Attempts != 1 || trace.Reason != string(recovery.ReasonNotObserved) {
		t.Errorf("trace %+v", trace)
	}
}

// A variant that no ladder of the default policy has is taken where a policy has
// it, and answered by the record.
func TestLowerVarianceIsTaken(t *testing.T) {
	document := strings.Replace(string(recovery.DefaultDocument()), "variant: stricter_schema, max: 2", "variant: lower_variance, max: 2", 1)
	p, err := recovery.Load("policy.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{Config: Config{Policy: p}, Workers: 1}
	all := recoverAll(t, b, []byte(`{"v":1,"id":"a","agent":"x","steps":[{"id":"s","model":"primary","effect":"none","outcome":"failed",`+
		`"failure":{"class":"output","code":"malformed","effects":"none"},"attempts":[{"strategy":"retry_altered","variant":"lower_variance","outcome":"ok"}]}]}`))
	if r := all.traces[0].Rungs; len(r) != 1 || r[0].Variant != "lower_variance" || all.traces[0].Status != AutoRecovered {
		t.Errorf("trace %+v", all.traces[0])
	}
}

// Behind an escalation nothing is done any more, and the case that was made says
// so; a recorded run of it gives the same trace.
func TestMadeCaseReplays(t *testing.T) {
	config := Config{Policy: recovery.Default()}
	for line := range bytes.Lines(fixture(t)) {
		c, err := scenario.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		first, err := config.Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, first.Case)
		again, err := config.Recover(t.Context(), &first.Case)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.Trace, again.Trace); diff != "" {
			t.Fatalf("trace of what was made (-first +again):\n%s", diff)
		}
		if first.Trace.Status == Escalated && first.Case.Steps[len(c.Steps)-1].Outcome == scenario.OK {
			t.Errorf("%s went on behind its escalation", c.ID)
		}
	}
}

// What a runtime answers badly ends the run; it is not a result.
func TestRuntimeError(t *testing.T) {
	broken := errors.New("broken")
	b := &Batch{Config: Config{Policy: recovery.Default(), Runtime: brokenRuntime{broken}}, Workers: 2}
	var got error
	cases := 0
	for _, err := range b.Run(t.Context(), "scenario.ndjson", bytes.NewReader(fixture(t))) {
		if got = err; err == nil {
			cases++
		}
	}
	if !errors.Is(got, broken) || cases != 0 || !strings.Contains(got.Error(), "case rebook-search-503: step booking") {
		t.Errorf("%d cases, then %v", cases, got)
	}
}

type brokenRuntime struct{ err error }

// Attempt implements [Runtime].
func (r brokenRuntime) Attempt(context.Context, scenario.Request) (scenario.Attempt, error) {
	return scenario.Attempt{}, r.err
}

// A limit one step from a flip is named with the cases that flip, and they do.
func TestNearLimits(t *testing.T) {
	p := pin(t, recovery.Default(), "limits.attempts", 3)
	b := &Batch{Config: Config{Policy: p}, Workers: 2, Neighbours: Neighbours(p)}
	at3 := recoverAll(t, b, fixture(t))
	want := map[int64]NearLimit{}
	for _, other := range []int64{2, 4} {
		beside := recoverAll(t, &Batch{Config: Config{Policy: pin(t, p, "limits.attempts", other)}, Workers: 2}, fixture(t))
		n := NearLimit{Param: "limits.attempts", Value: other}
		for i := range at3.traces {
			if at3.traces[i].Status == beside.traces[i].Status {
				continue
			}
			n.Cases = append(n.Cases, at3.traces[i].Case)
			if beside.traces[i].Status == AutoRecovered {
				n.ToAutoRecovered++
			} else {
				n.ToEscalated++
			}
		}
		n.Cases = n.Cases[:min(len(n.Cases), idsMax)]
		want[other] = n
	}
	for _, n := range at3.report.Near {
		if n.Param != "limits.attempts" {
			continue
		}
		if diff := cmp.Diff(want[n.Value], n); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", n.Value, diff)
		}
		delete(want, n.Value)
	}
	if len(want) > 0 {
		t.Errorf("not named: %v", want)
	}
	if !slices.ContainsFunc(at3.report.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "limits.attempts is 3: at 2, ")
	}) {
		t.Errorf("warnings %q", at3.report.Warnings)
	}
}

// The max of a rung is pinned like a limit: each is named exactly where a policy
// with one more or one less ends a case otherwise, as far as that is known.
func TestNearRungs(t *testing.T) {
	p := recovery.Default()
	all := recoverAll(t, &Batch{Config: Config{Policy: p}, Workers: 2, Neighbours: Neighbours(p)}, fixture(t))
	warned := 0
	every := budget.Budget{Short: 3, Usual: 1}.Now()
	for n, b := range p.Bounds()[4:] {
		if n%every != 0 {
			continue
		}
		for _, value := range []int64{b.Value - 1, b.Value + 1} {
			other, err := p.With(b.Path, value)
			if err != nil {
				t.Fatal(err)
			}
			beside := recoverAll(t, &Batch{Config: Config{Policy: other}, Workers: 2}, fixture(t))
			for i := range all.traces {
				want := all.traces[i].Status != beside.traces[i].Status && all.traces[i].Reason != "not_observed" && beside.traces[i].Reason != "not_observed"
				got := slices.Contains(all.traces[i].Near, Near{Param: b.Path, Status: beside.traces[i].Status, Value: value})
				if got != want {
					t.Errorf("%s=%d: %s is named: %t, want %t", b.Path, value, all.traces[i].Case, got, want)
				}
				if got {
					warned++
				}
			}
		}
	}
	if warned == 0 {
		t.Error("no max of a rung is one step from a flip")
	}
}

// Money, tokens and time are limits like the number of attempts: a case that
// stops at one of them, or comes close to it, is named.
func TestNearBudgets(t *testing.T) {
	for param, step := range map[string]string{
		"limits.cost_micro_usd": `"cost_micro_usd":1000`, "limits.tokens": `"tokens_in":1000`, "limits.deadline_ms": `"latency_ms":1000`,
	} {
		line := `{"v":1,"id":"a","agent":"x","steps":[{"id":"s","model":"primary","effect":"none","outcome":"failed",` + step +
			`,"failure":{"class":"output","code":"malformed","effects":"none"},"attempts":[{"strategy":"retry_altered","variant":"stricter_schema","outcome":"ok"}]}]}`
		for value, want := range map[int64]Near{
			1000: {Param: param, Value: 1100, Status: AutoRecovered}, 1010: {Param: param, Value: 909, Status: Escalated},
		} {
			p := pin(t, recovery.Default(), param, value)
			all := recoverAll(t, &Batch{Config: Config{Policy: p}, Workers: 1, Neighbours: Neighbours(p)}, []byte(line))
			if diff := cmp.Diff([]Near{want}, all.traces[0].Near); diff != "" {
				t.Errorf("%s at %d (-want +got):\n%s", param, value, diff)
			}
		}
	}
}

// An outcome model draws what was not recorded, and only that; the draw depends
// on the seed and nothing else; everything drawn is labelled.
func TestSimulated(t *testing.T) {
	model, err := ParseOutcomeModel("model.yaml", []byte("outcomes:\n- {class: capacity, strategy: fallback_model, success_ppm: 500000, latency_ms: 700}\n"))
	if err != nil {
		t.Fatal(err)
	}
	line := func(i string) string {
		return `{"v":1,"id":"c` + i + `","agent":"x","steps":[{"id":"s","model":"primary","effect":"none","outcome":"failed","failure":{"raw":{"http_status":529},"effects":"none"}}]}` + "\n"
	}
	var scenario strings.Builder
	for i := range 200 {
		scenario.WriteString(line(strconv.Itoa(i)))
	}
	run := func(seed int64, workers int) *recovered {
		return recoverAll(t, &Batch{Config: Config{Policy: recovery.Default(), Seed: seed, Runtime: newSimulated(model, seed)}, Workers: workers}, []byte(scenario.String()))
	}
	one := run(1, 1)
	if !bytes.Equal(one.lines, run(1, 8).lines) || bytes.Equal(one.lines, run(2, 1).lines) {
		t.Error("the draw does not follow from the seed alone")
	}
	if n := one.report.AutoRecovered; n < 70 || n > 130 {
		t.Errorf("%d of 200 with a chance of one half", n)
	}
	if !one.report.Simulated || one.report.Observed.AttemptsSimulated != 200 {
		t.Errorf("report %+v", one.report.Observed)
	}
	for _, trace := range one.traces {
		if !trace.Simulated || !slices.ContainsFunc(trace.Rungs, func(r Rung) bool { return r.Simulated }) {
			t.Errorf("trace without a label: %+v", trace)
		}
	}
	recorded := recoverAll(t, &Batch{Config: Config{Policy: recovery.Default(), Runtime: newSimulated(model, 1)}, Workers: 2}, fixture(t))
	if got, want := recorded.counts(), [4]int64{72, 94, 23, 22}; got != want && got != [4]int64{71, 94, 22, 23} {
		t.Errorf("fixture under a model: %v", got) // one attempt was not recorded
	}
	if n := recorded.report.Observed.AttemptsSimulated; n != 1 {
		t.Errorf("%d attempts of the fixture are simulated, want 1", n)
	}
}

// An outcome model that is wrong is named with its field.
func TestOutcomeModelMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":             "holds 0 outcomes",
		"outcomes: []": "line 1: field /outcomes: holds 0 outcomes",
		"outcomes:\n- {class: unknown}\n- success: 1":           "line 3: field /outcomes/1/success: is not a member of an outcome model",
		"outcomes:\n-\n  class: tool\n  success_ppm: 0.5":       "line 4: field /outcomes/0/success_ppm: holds 0.5 and not an integer",
		"outcomes: [{success_ppm: -1}]":                         "line 1: field /outcomes/0/success_ppm: is -1",
		"outcomes: [{success_ppm: 1000001}]":                    "is 1000001",
		"a: &a [1]\noutcomes: *a":                               "line 1: has \"&\", an anchor, alias or tag",
		"outcomes: [{cost_micro_usd: -5}]":                      "is -5",
		"outcomes:\n- class: capacty":                           `line 2: field /outcomes/0/class: is "capacty" (malformed); write transient, capacity, request, `,
		"outcomes:\n- class: tool\n- strategy: retri":           `line 3: field /outcomes/1/strategy: is "retri" (malformed); write retry, retry_altered, fallback_model, `,
		"outcomes: [{strategy: reconcile}]":                     `is "reconcile"`,
		"outcomes: [{strategy: retry_altered, variant: start}]": `field /outcomes/0/variant: is "start" (malformed); write reflect, repair_args, `,
		"outcomes: [{strategy: state_reset, variant: reflect}]": `is "reflect" (malformed); write context, start, progress, verified`,
		"outcomes: [{code: a b}]":                               "field /outcomes/0/code",
		"outcomes:\n  - {class: tool\n":                         "model.yaml: line 2: is not an outcome model in YAML: ",
		strings.Repeat("#", modelBytesMax+1):                    "has more than",
	} {
		_, err := ParseOutcomeModel("model.yaml", []byte(text))
		var wrong *scenario.Error
		if !errors.As(err, &wrong) || wrong.File != "model.yaml" || wrong.Remedy == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
