package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// chosen is an external strategy that is a function.
type chosen func(q recovery.Case) (recovery.Action, error)

// About implements [recovery.RecoveryStrategy].
func (chosen) About() recovery.About {
	return recovery.About{Name: "chosen", Version: "1", Capabilities: recovery.Strategies()}
}

// Recover implements [recovery.RecoveryStrategy].
func (c chosen) Recover(_ context.Context, q recovery.Case) (recovery.Action, error) { return c(q) }

// always chooses one strategy.
func always(a recovery.Action) recovery.RecoveryStrategy {
	return chosen(func(recovery.Case) (recovery.Action, error) { return a, nil })
}

// An external strategy chooses where a ladder would, and the policy binds it; what
// it chose is recorded, and decides again without asking.
func TestExternalStrategy(t *testing.T) {
	p := recovery.Default()
	for _, test := range []struct {
		name, id string
		external recovery.RecoveryStrategy
		status   entry.CaseStatus
		reason   string
		rule     string // of the first rung
	}{
		{"it retries", "rebook-search-503", always(recovery.Action{Strategy: recovery.Retry}), AutoRecovered, "", recovery.RuleExternal},
		{"it gives up", "rebook-search-503", always(recovery.Action{Strategy: recovery.Escalate, Reason: "too_risky"}), Escalated, "too_risky", recovery.RuleExternal},
		{"it tries what nobody did", "rebook-search-503", always(recovery.Action{Strategy: recovery.FailReassign}), Escalated, "not_observed", recovery.RuleExternal},
		{"effects in doubt are not its business", "refund-timeout-nobody-knows", always(recovery.Action{Strategy: recovery.Retry}), Escalated, "effects_unknown", recovery.RuleGate},
		{"a guard raises it", "deploy-safety-critical-valve", always(recovery.Action{Strategy: recovery.Retry}), Escalated, "guard", "safety_critical"},
		{"a fence ends the case", "rebook-search-503", always(recovery.Action{Strategy: recovery.Quarantine}), Escalated, "after_quarantine", recovery.RuleExternal},
		{"it never ends", "rebook-search-503", always(recovery.Action{Strategy: recovery.Wait}), Escalated, "strategy_failed", recovery.RuleExternal},
		{"its deadline does", "rebook-search-503", always(recovery.Action{Strategy: recovery.Wait, WaitMS: 60_000}), Escalated, "deadline_exceeded", recovery.RuleExternal},
		{
			"it fails", "rebook-search-503", chosen(func(recovery.Case) (recovery.Action, error) { return recovery.Action{}, errors.New("no idea") }),
			Escalated, "strategy_failed", recovery.RuleExternal,
		},
		{"it answers nonsense", "rebook-search-503", always(recovery.Action{Strategy: "pray"}), Escalated, "strategy_failed", recovery.RuleExternal},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := bytes.Index(fixture(t), []byte(`{"v":1,"id":"`+test.id+`"`))
			line, _, _ := bytes.Cut(fixture(t)[at:], []byte("\n"))
			c, err := scenario.Decode(line)
			if err != nil {
				t.Fatal(err)
			}
			asked := Config{Policy: p, External: test.external}
			first, err := asked.Recover(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if first.Trace.Status != test.status || first.Trace.Reason != test.reason || first.Trace.Rungs[0].Rule != test.rule {
				t.Errorf("%s with %q, first by %s; want %s with %q, by %s", first.Trace.Status, first.Trace.Reason, first.Trace.Rungs[0].Rule,
					test.status, test.reason, test.rule)
			}
			recorded := roundTrip(t, first.Case)
			if c, err = scenario.Decode(recorded); err != nil {
				t.Fatal(err)
			}
			again, err := (&Config{Policy: p}).Recover(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.Trace, again.Trace); diff != "" {
				t.Errorf("decided again from its record (-asked +recorded):\n%s", diff)
			}
		})
	}
}

// A run with an external strategy keeps what was chosen, and is replayed from it.
func TestExternalRunReplays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := newTestRun(t, string(fixture(t)), dir)
	r.Strategy = []string{"a", "function"}
	asked := 0
	r.Workers = 1
	r.External = chosen(func(q recovery.Case) (recovery.Action, error) {
		asked++
		if q.History.Failure.Class == "output" {
			return recovery.Action{Strategy: recovery.FallbackModel}, nil
		}
		return recovery.Action{Strategy: recovery.Retry}, nil
	})
	report, err := r.Do(t.Context())
	if err != nil || asked == 0 || report.AutoRecovered == 0 {
		t.Fatalf("%d questions, %d recovered: %v", asked, report.AutoRecovered, err)
	}
	before := asked
	c, err := Replay(t.Context(), dir, ReplayOptions{Workers: 2})
	if err != nil || c.Match != Matches || c.Cases != 100 || asked != before {
		t.Errorf("replay %+v after %d more questions: %v", c, asked-before, err)
	}

	// The record is what was answered: an edited one is another.
	path := filepath.Join(dir, RecordFile)
	text, err := os.ReadFile(path)
	if err != nil || report.RecordDigest != entry.DigestOf(text) {
		t.Fatalf("record digest %s, %v", report.RecordDigest, err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"task_type":"`), []byte(`"task_type":"x`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = Replay(t.Context(), dir, ReplayOptions{})
	if err != nil || c.Match != NotComparable || !strings.Contains(c.Reason, "recorded.ndjson changed: the run used sha256:") {
		t.Errorf("replay of an edited record: %+v, %v", c, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c, err = Replay(t.Context(), dir, ReplayOptions{})
	if err != nil || c.Match != NotComparable || !strings.HasSuffix(c.Reason, "recorded.ndjson is missing") {
		t.Errorf("replay without a record: %+v, %v", c, err)
	}
}

// FuzzDecodeAnswer: an answer is an action or refused.
func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"strategy":"retry_altered","variant":"reflect","reason":"told","severity":"error","wait_ms":5}`))
	f.Add([]byte(`{"strategy":"wait","wait_ms":1.5}`))
	schema := schemaOf(f, "action")
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := program.DecodeAnswer(text)
		if err == nil && scenario.CheckAction(&a) != nil {
			t.Fatalf("%+v", a)
		}
		if err == nil && !schemaTakes(schema, text) {
			t.Fatalf("%s is an action, and the schema refuses it", text)
		}
	})
}

// A crash may leave the record a case ahead of the traces, or behind: what stands
// in both counts, and the run ends as one that was not cut off.
func TestRecordAndTracesAreResumedTogether(t *testing.T) {
	start := func(dir string) *Run {
		r := newTestRun(t, string(fixture(t)), dir)
		r.Strategy, r.External = []string{"retries"}, always(recovery.Action{Strategy: recovery.Retry})
		return r
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := start(whole).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := func(name string, n int) []byte {
		text, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Join(bytes.SplitAfterN(text, []byte("\n"), n+1)[:n], nil)
	}
	for _, cut := range [][2]int{{10, 11}, {11, 10}, {0, 3}, {3, 0}} {
		dir := filepath.Join(t.TempDir(), "run")
		r := start(dir)
		for i, name := range []string{TracesFile, RecordFile} {
			if err := os.WriteFile(filepath.Join(dir, name), append(lines(name, cut[i]), "{\"torn"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(content(t, whole), content(t, dir)); diff != "" {
			t.Errorf("cut at %v (-whole +resumed):\n%s", cut, diff)
		}
		if got, err := os.ReadFile(filepath.Join(dir, RecordFile)); err != nil || !bytes.Equal(got, lines(RecordFile, 100)) {
			t.Errorf("cut at %v: the record is another one (%v)", cut, err)
		}
	}
}
