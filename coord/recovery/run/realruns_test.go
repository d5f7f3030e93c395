package run

import (
	"bytes"
	"os"
	"testing"

	"recoveryledger/coord/recovery"
)

// scenarioOf writes the cases of a data set as a scenario.
func scenarioOf(t *testing.T, format Format, files []string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, c := range importFiles(t, format, files) {
		line, err := EncodeCase(Fold(c))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
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
			scenario := scenarioOf(t, set.format, dataFiles(t, set.name, set.ext))
			all := recoverAll(t, &Batch{Config: Config{Policy: set.policy}, Workers: 2}, scenario)
			if got := all.counts(); got != set.want || all.report.Total != set.total {
				t.Errorf("%v of %d cases, want %v of %d", got, all.report.Total, set.want, set.total)
			}
			observed := all.report.Observed
			if set.want[3] > 0 && observed.AttemptsNotObserved == 0 {
				t.Errorf("the report says nothing of what was not observed: %+v", observed)
			}
		})
	}
}
