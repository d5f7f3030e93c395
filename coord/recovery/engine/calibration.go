package engine

import (
	"fmt"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/coord/recovery/scenario"
)

// Calibration compares the confidences of attempts at recovery with what came of them. An attempt
// succeeded if its result is ok and the source does not call the whole case failed.
type Calibration struct {
	Attempts int64       `json:"attempts"`  // with a confidence
	BrierPPM int64       `json:"brier_ppm"` // mean square error, in parts per million
	ErrorPPM int64       `json:"error_ppm"` // expected calibration error, in parts per million
	Table    []judge.Row `json:"table"`     // rows with an attempt
}

// calibrate takes the attempts of a trace that have a confidence.
func (t *Tally) calibrate(trace *Trace) {
	for i := range trace.Rungs {
		r := &trace.Rungs[i]
		if r.ConfidencePPM != nil && recovery.Result(r.Result) != recovery.ResultNotObserved {
			t.confidences.Add(*r.ConfidencePPM, recovery.Result(r.Result) == recovery.ResultOK && trace.Outcome != scenario.Failed)
		}
	}
}

// calibration returns the calibration; nil if no attempt had a confidence.
func (t *Tally) calibration() *Calibration {
	c := &t.confidences
	if c.Attempts() == 0 {
		return nil
	}
	return &Calibration{Attempts: c.Attempts(), BrierPPM: c.BrierPPM(), ErrorPPM: c.ErrorPPM(), Table: c.Table()}
}

// calibrationGate fails if confidences differ from outcomes by more than the policy allows. With
// fewer attempts than a run needs cases it is unknown: the error of few attempts is mostly chance.
func (t *Tally) calibrationGate(r *Report) Gate {
	g := Gate{Gate: gateCalibration, Param: "thresholds.calibration_error_max_ppm", Limit: t.thresholds.CalibrationErrorMaxPPM, Verdict: NotAsked}
	c := r.Calibration
	switch {
	case g.Limit == 0:
		return g
	case c == nil || c.Attempts < t.thresholds.CasesMin:
		have := t.confidences.Attempts()
		g.Verdict, g.Detail = Unknown, fmt.Sprintf("%s had a confidence: a verdict needs %d more", counted(have, "attempt"), max(1, t.thresholds.CasesMin-have))
		return g
	}
	g.Value = &c.ErrorPPM
	return g.compare(atMost, million/100)
}

func (r *Report) calibrationSection() Section {
	c := r.Calibration
	s := Section{Title: fmt.Sprintf("Confidence: Brier score %s, calibration error %s", figure.Percent(c.BrierPPM), figure.Percent(c.ErrorPPM)),
		Headers: []string{"confidence", "attempts", "mean confidence", "succeeded"}}
	for i := range c.Table {
		b := &c.Table[i]
		s.add(fmt.Sprintf("%s to %s", figure.Percent(b.FromPPM), figure.Percent(b.ToPPM)), b.Attempts, percent(b.ConfidencePPM), percent(b.Succeeded*million/b.Attempts))
	}
	return s
}
