package judge

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCalibration compares the exact numbers with those in floating point, of forecasts that are
// right as often as they say, and of forecasts that claim too much.
func TestCalibration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name     string
		succeeds func(confidence int64) bool
		from, to int64 // of the calibration error, in parts per million
	}{
		{"calibrated", func(c int64) bool { return r.Int64N(million) < c }, 0, 20_000},
		{"sure of what fails every other time", func(int64) bool { return r.Int64N(2) == 0 }, 200_000, 300_000},
	} {
		var c Calibration
		squares, n := 0.0, 20_000
		var sums [binCount]float64
		for range n {
			confidence := r.Int64N(million + 1)
			ok := test.succeeds(confidence)
			c.Add(confidence, ok)
			off := float64(confidence) / million
			if ok {
				off--
			}
			squares += off * off
			sums[min(confidence/100_000, 9)] += off
		}
		ece := 0.0
		for _, s := range sums {
			ece += math.Abs(s)
		}
		if brier := c.BrierPPM(); math.Abs(float64(brier)-squares/float64(n)*million) > 2 {
			t.Errorf("%s: Brier score %d, want %f", test.name, brier, squares/float64(n)*million)
		}
		if got := c.ErrorPPM(); math.Abs(float64(got)-ece/float64(n)*million) > 2 || got < test.from || got > test.to {
			t.Errorf("%s: error %d, want %f", test.name, got, ece/float64(n)*million)
		}
		if c.Attempts() != int64(n) {
			t.Errorf("%d attempts", c.Attempts())
		}
	}
	var none, worst Calibration
	worst.Add(million, false)
	if none.BrierPPM() != 0 || none.ErrorPPM() != 0 || worst.BrierPPM() != million || worst.ErrorPPM() != million || worst.Bins[9].Attempts != 1 {
		t.Errorf("%+v %+v", &none, &worst)
	}
}
