package engine

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestMain leaves make race the batches and the runs that have several workers.
func TestMain(m *testing.M) {
	os.Exit(budget.Raced(m, "TestWorkersChangeNothing", "TestBatchEndsEarly", "TestRuntimeError", "TestSimulated", "TestInterruptAndResume", "TestExternalRunReplays"))
}

// fixturePath is the scenario that was written for this project.
const fixturePath = "../../../testdata/tool_chain_failures.ndjson"

func fixture(tb testing.TB) []byte {
	tb.Helper()
	text, err := os.ReadFile(fixturePath)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// recovered is a scenario taken through a policy.
type recovered struct {
	report Report
	traces []Trace
	lines  []byte // as in traces.ndjson
}

func (r *recovered) counts() [4]int64 {
	return [4]int64{r.report.AutoRecovered, r.report.Failing, r.report.FallbackModelRecoveries, r.report.Escalated}
}

// recoverAll takes a scenario through a policy and checks what holds for every
// trace: it is canonical, decodes to itself, and each failing case ended as
// exactly one of two.
func recoverAll(tb testing.TB, b *Batch, scenario []byte) *recovered {
	tb.Helper()
	tally, err := NewTally(b.Policy)
	if err != nil {
		tb.Fatal(err)
	}
	all := new(recovered)
	for done, err := range b.Run(tb.Context(), "scenario.ndjson", bytes.NewReader(scenario)) {
		if err != nil {
			tb.Fatal(err)
		}
		checkTrace(tb, &done.Trace, done.Encoded)
		if err := tally.Add(&done.Trace, done.Leaf); err != nil {
			tb.Fatal(err)
		}
		all.traces = append(all.traces, done.Trace)
		all.lines = append(append(all.lines, done.Encoded...), '\n')
	}
	if all.report, err = tally.Report(Subject{Policy: b.Policy, Runtime: ModeRecorded}); err != nil {
		tb.Fatal(err)
	}
	r := &all.report
	if r.Failing != r.AutoRecovered+r.Escalated || r.Total != r.Failing+r.NoFailure || r.FallbackModelRecoveries > r.AutoRecovered {
		tb.Fatalf("counts do not add up: %+v", r.Cases)
	}
	return all
}

func checkTrace(tb testing.TB, t *Trace, line []byte) {
	tb.Helper()
	canonical, err := jcs.Transform(line)
	if err != nil || !bytes.Equal(canonical, line) {
		tb.Fatalf("trace is not RFC 8785: %v\n%s\n%s", err, line, canonical)
	}
	if _, err := DecodeTrace(line); err != nil {
		tb.Fatal(err)
	}
	failed := t.Steps.Failed > 0
	if failed != (t.Status != NoFailure) || (t.Status == Escalated) != (t.Reason != "") || t.Fallback && t.Status != AutoRecovered {
		tb.Fatalf("trace contradicts itself: %s", line)
	}
	for _, r := range t.Rungs {
		if r.Reason == "" || r.Rule == "" || r.Result == "" {
			tb.Fatalf("rung without a reason, a rule or a result: %s", line)
		}
	}
}

func defaultBatch() *Batch {
	p := recovery.Default()
	return &Batch{Config: Config{Policy: p}, Workers: 2, Neighbours: Neighbours(p)}
}

// The numbers that arl recover prints.
func TestFixtureCounts(t *testing.T) {
	all := recoverAll(t, defaultBatch(), fixture(t))
	if got, want := all.counts(), [4]int64{71, 94, 22, 23}; got != want {
		t.Errorf("recovered, failing, by fallback, escalated %d, want %d", got, want)
	}
	if all.report.NoFailure == 0 || all.report.Recommendation != Promote {
		t.Errorf("%d cases without failure, recommendation %s", all.report.NoFailure, all.report.Recommendation)
	}
}

// Every class and code of the taxonomy fails in the fixture, and every strategy,
// variant and scope of the default policy is taken, every reason given.
func TestFixtureCoversTheTaxonomy(t *testing.T) {
	all := recoverAll(t, defaultBatch(), fixture(t))
	failures, taken, reasons := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, trace := range all.traces {
		reasons[trace.Reason] = true
		for _, r := range trace.Rungs {
			failures[r.Class+"."+r.Code] = true
			taken[r.Strategy] = true
			taken[r.Strategy+" "+r.Variant] = true
		}
	}
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			if !failures[class+"."+code] {
				t.Errorf("no case fails with %s.%s", class, code)
			}
		}
	}
	for _, s := range recovery.Strategies() {
		if !taken[string(s)] {
			t.Errorf("no case takes %s", s)
		}
	}
	for _, v := range recovery.Variants() {
		if v != recovery.LowerVariance && !taken["retry_altered "+string(v)] { // no ladder of the default policy has it
			t.Errorf("no case takes retry_altered %s", v)
		}
	}
	for _, s := range recovery.Scopes() {
		if !taken["state_reset "+string(s)] {
			t.Errorf("no case takes state_reset %s", s)
		}
	}
	for _, r := range []recovery.Reason{
		recovery.ReasonEffectsUnknown, recovery.ReasonEffectsComplete, recovery.ReasonGuard, recovery.ReasonRule,
		recovery.ReasonLadderExhausted, recovery.ReasonAttemptsExhausted, recovery.ReasonCostExhausted, recovery.ReasonTokensExhausted,
		recovery.ReasonDeadlineExceeded, recovery.ReasonNotObserved, recovery.ReasonAfterQuarantine, recovery.ReasonAfterAbort,
		recovery.ReasonAfterRollback, recovery.ReasonUnverified,
	} {
		if !reasons[string(r)] {
			t.Errorf("no case escalates with %s", r)
		}
	}
}

// The counts follow from the policy: with another one they are others.
func TestCountsFollowThePolicy(t *testing.T) {
	p, err := recovery.Default().With("limits.attempts", 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{Config: Config{Policy: p}, Workers: 2}
	strict := recoverAll(t, b, fixture(t))
	if got := strict.counts(); got[0] >= 71 || got[2] >= 22 || got[3] != 94-got[0] {
		t.Errorf("with one attempt: %d", got)
	}
	document := strings.Replace(string(recovery.DefaultDocument()), "{ strategy: fallback_model, enabled: false }", "{ strategy: fallback_model, enabled: true }", 1)
	if b.Policy, err = recovery.Load("policy.yaml", []byte(document)); err != nil {
		t.Fatal(err)
	}
	if got, want := recoverAll(t, b, fixture(t)).counts(), [4]int64{72, 94, 23, 22}; got != want {
		t.Errorf("with a fallback for refusals: %d, want %d", got, want)
	}
}

// The counts follow from the recorded results: with others they are others.
func TestCountsFollowTheRecord(t *testing.T) {
	change := func(id string, change func(*scenario.Case)) []byte {
		var out bytes.Buffer
		for line := range bytes.Lines(fixture(t)) {
			c, err := scenario.Decode(line)
			if err != nil {
				t.Fatal(err)
			}
			if c.ID == id {
				change(&c)
			}
			line, err := scenario.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
		return out.Bytes()
	}
	for _, test := range []struct {
		name, id string
		change   func(*scenario.Case)
		want     [4]int64
	}{
		{"nothing changes", "", nil, [4]int64{71, 94, 22, 23}},
		{"a retry fails too", "rebook-search-503", func(c *scenario.Case) {
			a := &c.Steps[1].Attempts[0]
			a.Outcome, a.Failure = scenario.Failed, c.Steps[1].Failure
		}, [4]int64{70, 94, 22, 24}},
		{"an attempt was not recorded", "patch-quota-other-account", func(c *scenario.Case) { c.Steps[1].Attempts = nil }, [4]int64{70, 94, 21, 24}},
		{"a probe finds out", "refund-timeout-nobody-knows", func(c *scenario.Case) {
			a := &c.Steps[2].Attempts[0]
			a.Effects, a.OutputDigest = entry.EffectsComplete, entry.DigestOf("refund")
			c.Steps[3].Outcome = scenario.OK
		}, [4]int64{72, 94, 22, 22}},
		{"a probe finds out, and nobody saw what came after", "refund-timeout-nobody-knows", func(c *scenario.Case) {
			a := &c.Steps[2].Attempts[0]
			a.Effects, a.OutputDigest = entry.EffectsComplete, entry.DigestOf("refund")
		}, [4]int64{71, 94, 22, 23}},
		{"a step did not fail", "triage-unknown-once", func(c *scenario.Case) {
			c.Steps[0].Attempt, c.Steps[0].Attempts = scenario.Attempt{Outcome: scenario.OK}, nil
		}, [4]int64{70, 93, 22, 23}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := recoverAll(t, defaultBatch(), change(test.id, test.change)).counts(); got != test.want {
				t.Errorf("recovered, failing, by fallback, escalated %d, want %d", got, test.want)
			}
		})
	}
}

// Traces and report are the same bytes with one worker and with eight.
func TestWorkersChangeNothing(t *testing.T) {
	one, eight := defaultBatch(), defaultBatch()
	one.Workers, eight.Workers = 1, 8
	a, b := recoverAll(t, one, fixture(t)), recoverAll(t, eight, fixture(t))
	if !bytes.Equal(a.lines, b.lines) {
		t.Error("traces differ")
	}
	if a.report.RunRoot != b.report.RunRoot || a.report.Summary() != b.report.Summary() {
		t.Error("reports differ")
	}
}

// A batch that is not read to its end leaves no goroutine behind, and one whose
// context ends says so.
func TestBatchEndsEarly(t *testing.T) {
	b := defaultBatch()
	for done, err := range b.Run(t.Context(), "scenario.ndjson", bytes.NewReader(fixture(t))) {
		if err != nil || done.Line != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	var last error
	endless := io.MultiReader(bytes.NewReader(fixture(t)), endlessCases{})
	for _, err := range b.Run(ctx, "scenario.ndjson", endless) {
		if count++; count == 50 {
			cancel()
		}
		last = err
	}
	if last == nil || ctx.Err() == nil || !strings.Contains(last.Error(), context.Canceled.Error()) {
		t.Errorf("ended with %v after %d cases", last, count)
	}
}

// endlessCases is a scenario that never ends.
type endlessCases struct{}

// Read implements [io.Reader].
func (endlessCases) Read(p []byte) (int, error) { return copy(p, "{\"v\":1}\n"), nil }

// The order of members in a line changes nothing.
func TestMemberOrderChangesNothing(t *testing.T) {
	var shuffled bytes.Buffer
	for line := range bytes.Lines(fixture(t)) {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(members))
		slices.Reverse(names)
		for i, name := range names {
			shuffled.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + `"` + name + `":` + string(members[name]))
		}
		shuffled.WriteString("}\n")
	}
	a, b := recoverAll(t, defaultBatch(), fixture(t)), recoverAll(t, defaultBatch(), shuffled.Bytes())
	if !bytes.Equal(a.lines, b.lines) {
		t.Error("traces differ")
	}
}
