package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
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
	attempt := func(strategy, variant, model string, confidence int64) Attempt {
		return Attempt{Way: Way{strategy, variant, model}, Outcome: OK, ConfidencePPM: &confidence}
	}
	step := Step{Attempts: []Attempt{
		attempt("fallback_model", "", "large", 1), attempt("retry", "", "", 2), attempt("retry_altered", "reflect", "", 3),
		attempt("retry", "", "small", 4), attempt("retry_altered", "", "", 5),
	}}
	for _, test := range []struct {
		way  Way
		same int
		want int64 // 0: not observed
	}{
		{Way{"retry", "", "small"}, 0, 2},
		{Way{"retry", "", "small"}, 1, 4},
		{Way{"retry", "", "small"}, 2, 0},
		{Way{"retry", "", "large"}, 1, 0},
		{Way{"retry", "", ""}, 1, 4},
		{Way{"fallback_model", "", "large"}, 0, 1},
		{Way{"fallback_model", "", "other"}, 0, 0},
		{Way{"retry_altered", "reflect", ""}, 0, 3},
		{Way{"retry_altered", "decompose", ""}, 0, 5},
		{Way{"state_reset", "context", ""}, 0, 0},
	} {
		a, err := Recorded{}.Attempt(t.Context(), Request{Step: &step, Way: test.way, Same: test.same})
		got := int64(0)
		if a.ConfidencePPM != nil {
			got = *a.ConfidencePPM
		}
		if err != nil || got != test.want || (got == 0) != (a.Outcome == NotObserved) {
			t.Errorf("%+v, time %d: attempt %d, want %d (%v)", test.way, test.same, got, test.want, err)
		}
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
		c, err := DecodeCase(line)
		if err != nil {
			t.Fatal(err)
		}
		first, err := config.Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		checkRoundTrip(t, first.Case)
		again, err := config.Recover(t.Context(), &first.Case)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.Trace, again.Trace); diff != "" {
			t.Fatalf("trace of what was made (-first +again):\n%s", diff)
		}
		if first.Trace.Status == Escalated && first.Case.Steps[len(c.Steps)-1].Outcome == OK {
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
func (r brokenRuntime) Attempt(context.Context, Request) (Attempt, error) { return Attempt{}, r.err }

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
		return strings.HasPrefix(w, "limits.attempts is pinned at 3, one step from a flip: at 2")
	}) {
		t.Errorf("warnings %q", at3.report.Warnings)
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
		return recoverAll(t, &Batch{Config: Config{Policy: recovery.Default(), Seed: seed, Runtime: NewSimulated(model, seed)}, Workers: workers}, []byte(scenario.String()))
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
	recorded := recoverAll(t, &Batch{Config: Config{Policy: recovery.Default(), Runtime: NewSimulated(model, 1)}, Workers: 2}, fixture(t))
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
		"":                                   "holds 0 lines",
		"outcomes: []":                       "holds 0 lines",
		"outcomes: [{sucess_ppm: 1}]":        "is no member",
		"outcomes: [{success_ppm: 0.5}]":     "not an integer",
		"outcomes: [{success_ppm: -1}]":      "is -1",
		"outcomes: [{success_ppm: 1000001}]": "is 1000001",
		"a: &a [1]\noutcomes: *a":            "an anchor, alias or tag",
		"outcomes: [{cost_micro_usd: -5}]":   "is -5",
		strings.Repeat("#", modelBytesMax+1): "has more than",
	} {
		_, err := ParseOutcomeModel("model.yaml", []byte(text))
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.File != "model.yaml" || wrong.Remedy == "" || !strings.Contains(wrong.Detail, want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

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
	better := NewBaseline(&base.report, digest("baseline"))
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
		{name: "rate just enough", path: "thresholds.recovery_rate_min_ppm", value: 755319, gate: "recovery_rate_min", verdict: Pass, want: Promote},
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
		{name: "baseline", baseline: NewBaseline(&base.report, digest("baseline")), gate: "baseline", verdict: Pass, want: Promote},
		{name: "better baseline", baseline: better, gate: "baseline", verdict: Fail, want: Reject},
		{
			name: "tolerated", document: [2]string{"tolerance_ppm: 50000", "tolerance_ppm: 50000\n    class_tolerance_ppm: {output: 430000}"},
			baseline: better, gate: "baseline", verdict: Pass, want: Promote,
		},
		{name: "other classes", baseline: &Baseline{Classes: []BaselineClass{{"weather", 1, 1}}}, gate: "baseline", verdict: Unknown, want: Inconclusive},
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
		"limits.attempts=1..3":   {1, 2, 3},
		"limits.attempts=2..2":   {2},
		"a.b=0..10/5":            {0, 5, 10},
		"a.b=0..9/5":             {0, 5},
		"limits.attempts":        nil,
		"=1..2":                  nil,
		"a=1":                    nil,
		"a=1..":                  nil,
		"a=-1..2":                nil,
		"a=3..2":                 nil,
		"a=1..2/0":               nil,
		"a=0..1000":              nil, // one past the limit
		"a=1..99999999999999999": nil,
	} {
		_, values, err := ParseRange(text)
		if diff := cmp.Diff(want, values); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v", text, values, err)
		}
	}
	if _, values, err := ParseRange("a=1..1000"); err != nil || len(values) != sweepMax {
		t.Errorf("at the limit: %d values, %v", len(values), err)
	}
}

// newTestRun is a run of the fixture into a directory.
func newTestRun(tb testing.TB, scenario, dir string) *Run {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "scenario.ndjson")
	if err := os.WriteFile(path, []byte(scenario), 0o600); err != nil {
		tb.Fatal(err)
	}
	d, err := CreateDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return &Run{Batch: *defaultBatch(), Scenario: path, Mode: ModeRecorded, Dir: d, ID: "test"}
}

// content reads the files of a run that do not depend on when it ran.
func content(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for _, name := range []string{TracesFile, ReportFile, ConfigFile, SummaryFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// A run that is interrupted anywhere leaves a report that says so, and goes on to
// what it would have been; what was recorded is not recorded twice.
func TestInterruptAndResume(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := newTestRun(t, string(fixture(t)), whole).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{1, 17, 50, 99} {
		dir := filepath.Join(t.TempDir(), "run")
		r := newTestRun(t, string(fixture(t)), dir)
		r.Workers = 3
		log := &memoryRecorder{attempts: map[string]string{}}
		ctx, cancel := context.WithCancel(t.Context())
		r.Recorder, log.cancel, log.after = log, cancel, after
		report, err := r.Do(ctx)
		if !errors.Is(err, context.Canceled) || report.Partial != "interrupted" || report.Recommendation != Inconclusive || report.Total == 100 {
			t.Fatalf("after %d: %v, partial %q with %d cases", after, err, report.Partial, report.Total)
		}
		if log.ends != 0 || len(log.attempts) != int(report.Total) {
			t.Errorf("after %d: closed %d times, %d attempts of %d cases", after, log.ends, len(log.attempts), report.Total)
		}
		if r.Dir, err = ResumeDir(dir); err != nil {
			t.Fatal(err)
		}
		log.cancel = func() {}
		if _, err = r.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(content(t, whole), content(t, dir)); diff != "" {
			t.Errorf("resumed after %d (-whole +resumed):\n%s", after, diff)
		}
		if log.ends != 1 || len(log.attempts) != 100 {
			t.Errorf("after %d: closed %d times, %d attempts", after, log.ends, len(log.attempts))
		}
	}
}

// memoryRecorder is a ledger that takes the same entry twice, but not another
// one in its place; it ends the run after some attempts.
type memoryRecorder struct {
	attempts map[string]string
	ends     int
	after    int
	cancel   func()
}

// Begin implements [Recorder].
func (*memoryRecorder) Begin(context.Context, *entry.Run) error { return nil }

// Attempt implements [Recorder].
func (m *memoryRecorder) Attempt(_ context.Context, a *entry.Attempt) error {
	if was, ok := m.attempts[a.Case]; ok && was != a.TraceDigest {
		return errors.New("another trace of " + a.Case)
	}
	if m.attempts[a.Case] = a.TraceDigest; len(m.attempts) == m.after {
		m.cancel()
	}
	return nil
}

// Flush implements [Recorder].
func (*memoryRecorder) Flush(context.Context) error { return nil }

// End implements [Recorder].
func (m *memoryRecorder) End(context.Context, *entry.Run) error {
	m.ends++
	return nil
}

// The entry of a case with more rungs than an entry holds has the last ones, and
// is an entry.
func TestAttemptFitsAnEntry(t *testing.T) {
	big := int64(entry.MaxInteger)
	trace := Trace{Case: strings.Repeat("c", 128), Status: Escalated}
	for i := range 300 {
		trace.Rungs = append(trace.Rungs, Rung{
			Attempt: int64(i), Class: strings.Repeat("c", 64), Code: strings.Repeat("c", 64), Rule: strings.Repeat("r", 64),
			Strategy: "retry_altered", Model: strings.Repeat("m", 128), Result: "not_observed", CostMicroUSD: &big, LatencyMS: &big, Reason: strings.Repeat("r", 64),
		})
	}
	a := AttemptOf(strings.Repeat("r", 128), &trace, []byte("{}"))
	a.Header = entry.Header{V: 1, JTI: "00000000-0000-8000-8000-000000000000", Iss: entry.Principal(strings.Repeat("i", 128)), Aud: strings.Repeat("o", 128), Iat: 1,
		Wid: entry.WorkflowID(strings.Repeat("w", 128))}
	e, err := entry.New(a)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(e.Body.(*entry.Attempt).Rungs); got != rungsMax || e.Body.(*entry.Attempt).Rungs[rungsMax-1].Attempt != 299 {
		t.Errorf("%d rungs", got)
	}
	e.Seal("SHA256:"+strings.Repeat("A", 43), make([]byte, 72))
	if size := len(e.AppendEnvelope(nil)); size > entry.MaxEnvelope {
		t.Errorf("envelope of %d bytes", size)
	}
}
