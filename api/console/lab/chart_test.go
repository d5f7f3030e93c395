package lab

import (
	"testing"

	"recoveryledger/coord/recovery/engine"
)

// TestChart draws sweeps of one value, of many, and of flips that stand close together.
func TestChart(t *testing.T) {
	r := engine.SweepReport{Param: "limits.deadline_ms", Pinned: 7}
	for n := range int64(1000) {
		r.Points = append(r.Points, engine.SweepPoint{Value: n, Cases: engine.Cases{Failing: 10, AutoRecovered: n % 10}})
		if n > 0 {
			r.Flips = append(r.Flips, engine.Flip{From: n - 1, To: n, Count: n % 2, Gates: []engine.FlipGates{{Gate: "g"}}})
		}
	}
	c := drawSweep(&r, "/x")
	end := 0
	for _, b := range c.Bands {
		if b.X < chartLeft || b.X+b.Width > chartWidth-chartRight+1 {
			t.Errorf("a band stands at %d to %d", b.X, b.X+b.Width)
		}
		if b.HasMark && b.Mark < end {
			t.Errorf("a mark at %d covers the one before", b.Mark)
		} else if b.HasMark {
			end = b.Mark + markWidth
		}
		if (b.Link != "") != (b.Count > 0) {
			t.Errorf("a band of %d cases links %q", b.Count, b.Link)
		}
	}
	if len(c.Values) > plotWidth/labelWidth || len(c.Dots) > 0 {
		t.Errorf("%d values and %d dots are drawn", len(c.Values), len(c.Dots))
	}
	r.Points, r.Flips = r.Points[:1], nil
	if c := drawSweep(&r, "/x"); len(c.Dots) != 2 || c.Pinned != 0 {
		t.Errorf("one value: %+v", c)
	}
}
