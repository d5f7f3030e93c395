package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

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
	tb.Cleanup(func() { _ = d.Close() }) // it may be closed
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
		log := &memoryRecorder{attempts: map[string]entry.Digest{}}
		ctx, cancel := context.WithCancel(t.Context())
		r.Recorder, log.cancel, log.after = log, cancel, after
		report, err := r.Do(ctx)
		if !errors.Is(err, context.Canceled) || report.Partial != "interrupted" || report.Recommendation != Inconclusive || report.Total == 100 {
			t.Fatalf("after %d: %v, partial %q with %d cases", after, err, report.Partial, report.Total)
		}
		if log.ends != 0 || len(log.attempts) != int(report.Total) {
			t.Errorf("after %d: closed %d times, %d attempts of %d cases", after, log.ends, len(log.attempts), report.Total)
		}
		if _, err := resumeDir(dir); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "another process runs in") {
			t.Errorf("a run that goes on beside it: %v", err)
		}
		if err := r.Dir.Close(); err != nil {
			t.Fatal(err)
		}
		if r.Dir, err = resumeDir(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := CreateDir(dir); !errors.Is(err, ErrUsed) {
			t.Errorf("a new run beside it: %v", err)
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
	attempts map[string]entry.Digest
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
	long := scenario.Case{ID: trace.Case, Agent: "a", Steps: []scenario.Step{{ID: "s"}}}
	for range 500 {
		long.Steps[0].Attempts = append(long.Steps[0].Attempts, scenario.Attempt{Variation: scenario.Variation{Strategy: "retry"}})
	}
	a, err := AttemptOf(strings.Repeat("r", 128), entry.DigestOf(""), &Recovery{Trace: trace, Case: long}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, complete, err := scenario.FromFacts(a.Facts); err != nil || complete {
		t.Errorf("facts of 500 attempts: %v, %v", complete, err)
	}
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

// TestAsks wants people to be asked by every run that is no comparison.
func TestAsks(t *testing.T) {
	baseline := new(Baseline)
	for _, test := range []struct {
		mode     string
		baseline *Baseline
		asks     bool
	}{
		{ModeRecorded, nil, true}, {ModeRecorded, baseline, false},
		{ModeLive, nil, true}, {ModeLive, baseline, true},
		{ModeSimulated, nil, false}, {ModeSimulated, baseline, false},
	} {
		run := Run{Mode: test.mode, Baseline: test.baseline}
		if asks := run.Asks(); asks != test.asks {
			t.Errorf("%s, baseline %t: asks %t", test.mode, test.baseline != nil, asks)
		}
	}
}
