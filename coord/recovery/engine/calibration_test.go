package engine

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// TestCalibrationGate judges attempts that are surer than they are right, attempts that are not,
// and too few attempts.
func TestCalibrationGate(t *testing.T) {
	traces := recoverAll(t, defaultBatch(), fixture(t)).traces
	const asked, asks = "    tolerance_ppm: 50000", "    tolerance_ppm: 50000\n    calibration_error_max_ppm: 200000"
	sure := func(ok, not int64) []Trace {
		all := slices.Clone(traces)
		for i := range all {
			all[i].Rungs = slices.Clone(all[i].Rungs)
			for k := range all[i].Rungs {
				r := &all[i].Rungs[k]
				if r.ConfidencePPM = nil; r.Result == "ok" && all[i].Outcome != scenario.Failed {
					r.ConfidencePPM = &ok
				} else if r.Result == "failed" || r.Result == "ok" {
					r.ConfidencePPM = &not
				}
			}
		}
		return all
	}
	r := judged(t, sure(950_000, 50_000), nil)
	wants(t, &r, gateCalibration, finding{NotAsked, "", Promote})
	if c := r.Calibration; c == nil || c.ErrorPPM > 60_000 || c.BrierPPM > 60_000 || len(c.Table) != 2 || !strings.Contains(r.Summary(), "## Confidence: Brier score 0.25 %, calibration error 5 %") {
		t.Errorf("%+v %s", c, r.Summary())
	}
	r = judged(t, sure(950_000, 50_000), nil, asked, asks)
	wants(t, &r, gateCalibration, finding{Pass, "at most 20 % wanted", Promote})
	r = judged(t, sure(950_000, 950_000), nil, asked, asks)
	wants(t, &r, gateCalibration, finding{Fail, "at most 20 % wanted", Reject})
	r = judged(t, traces, nil, asked, asks)
	wants(t, &r, gateCalibration, finding{Unknown, "a verdict needs", Inconclusive})
}
