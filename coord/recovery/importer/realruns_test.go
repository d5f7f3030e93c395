package importer

import (
	"bytes"
	"os"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
)

// scenarioOf writes the cases of a data set as a scenario.
func scenarioOf(t *testing.T, format Format, files []string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, c := range importFiles(t, format, files) {
		line, err := scenario.Encode(MergeRetries(c))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// reportOf takes a scenario through a policy.
func reportOf(t *testing.T, p *recovery.Policy, cases []byte) engine.Report {
	t.Helper()
	tally, err := engine.NewTally(p)
	if err != nil {
		t.Fatal(err)
	}
	batch := &engine.Batch{Config: engine.Config{Policy: p}, Workers: 2}
	for done, err := range batch.Run(t.Context(), "scenario.ndjson", bytes.NewReader(cases)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := tally.Add(&done.Trace, done.Leaf); err != nil {
			t.Fatal(err)
		}
	}
	report, err := tally.Report(engine.Subject{Policy: p, Runtime: engine.ModeRecorded})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Real runs go through the engine to the end, and the report says what was
// observed of them. The default policy wants what nobody tried there; the rules
// of a harness find what it did.
func TestRealRunsThroughTheEngine(t *testing.T) {
	harness, err := os.ReadFile("../../../testdata/coding_harness.yaml")
	if err != nil {
		t.Fatal(err)
	}
	harnessPolicy, err := recovery.Load("coding_harness.yaml", harness)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []struct {
		desc      string
		format    Format
		name, ext string
		policy    *recovery.Policy
		want      [4]int64 // recovered, of failing, by fallback, escalated
		total     int64
	}{
		{"transcripts", OpenAIChat, "tau_bench_airline", ".json", recovery.Default(), [4]int64{5, 125, 0, 120}, 200},
		{"attempts", Attempts, "aider_swe_bench", ".ndjson", recovery.Default(), [4]int64{0, 148, 0, 148}, 300},
		{"attempts, as their harness", Attempts, "aider_swe_bench", ".ndjson", harnessPolicy, [4]int64{39, 148, 32, 109}, 300},
		{"trees", ToolBench, "toolbench", ".json", recovery.Default(), [4]int64{0, 10, 0, 10}, 15},
		{"graphs", Galaxy, "galaxy_iwc", ".ga", recovery.Default(), [4]int64{}, 94},
	} {
		t.Run(set.desc, func(t *testing.T) {
			r := reportOf(t, set.policy, scenarioOf(t, set.format, dataFiles(t, set.name, set.ext)))
			got := [4]int64{r.AutoRecovered, r.Failing, r.FallbackModelRecoveries, r.Escalated}
			if got != set.want || r.Total != set.total {
				t.Errorf("%v of %d cases, want %v of %d", got, r.Total, set.want, set.total)
			}
			if set.want[3] > 0 && r.Observed.AttemptsNotObserved == 0 {
				t.Errorf("the report says nothing of what was not observed: %+v", r.Observed)
			}
		})
	}
}
