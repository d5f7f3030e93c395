package lab

import (
	"fmt"
	"strconv"
	"strings"

	"recoveryledger/api/words/runs"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
)

// The sizes of the picture of a sweep, in the units of SVG. A mark is wide enough to be clicked:
// WCAG 2.2, success criterion 2.5.8, wants 24 units.
const (
	chartWidth, chartHeight = 760, 280
	chartLeft, chartRight   = 56, 16
	chartTop, chartBottom   = 44, 44
	markWidth               = 40
	plotWidth, plotHeight   = chartWidth - chartLeft - chartRight, chartHeight - chartTop - chartBottom
	dotsMax, labelWidth     = 60, 90
	valuesY, titleY         = chartHeight - 22, chartHeight - 6
)

// chart is the picture of a sweep: cases over values.
type chart struct {
	Width, Height        int
	Recovered, Escalated string // points of polylines
	Dots                 []dot
	Bands                []band
	Pinned               int // where the value of the policy stands; 0: outside of the range
	Top, Bottom, Left    int
	ValuesY, TitleY      int
	Right                int
	Plot                 int   // height between the edges
	Most                 int64 // cases that the upper edge stands for
	Values               []tick
	Param                string
}

// dot is a point of a line.
type dot struct {
	X, Y  int
	Class string
	Title string
}

// tick is a value below the picture.
type tick struct {
	X    int
	Text string
}

// band is a flip: between two values.
type band struct {
	X, Width int
	Title    string
	// Mark is where the number of cases stands, if there is room.
	Mark     int
	Count    int64
	Link     string // path of the page with the cases; empty: no case flips
	HasMark  bool
	HasGates bool
}

// drawSweep draws the sweep whose page has a path. Values stand at equal distances, as they have
// equal steps.
func drawSweep(r *engine.SweepReport, path string) *chart {
	c := &chart{Width: chartWidth, Height: chartHeight, Top: chartTop, Bottom: chartHeight - chartBottom, Left: chartLeft, Right: chartWidth - chartRight,
		ValuesY: valuesY, TitleY: titleY, Plot: plotHeight, Most: 1, Param: r.Param}
	for i := range r.Points {
		c.Most = max(c.Most, r.Points[i].Failing)
	}
	x := func(i int) int {
		if len(r.Points) == 1 {
			return chartLeft + plotWidth/2
		}
		return chartLeft + i*plotWidth/(len(r.Points)-1)
	}
	y := func(n int64) int { return c.Bottom - int(n*plotHeight/c.Most) }
	place := map[int64]int{}
	var recovered, escalated []string
	for i := range r.Points {
		p := &r.Points[i]
		place[p.Value] = x(i)
		if p.Value == r.Pinned {
			c.Pinned = x(i)
		}
		recovered = append(recovered, at(x(i), y(p.AutoRecovered)))
		escalated = append(escalated, at(x(i), y(p.Escalated)))
		if len(r.Points) <= dotsMax {
			value := figure.Exact(r.Param, p.Value)
			c.Dots = append(c.Dots, dot{x(i), y(p.AutoRecovered), "recovered", fmt.Sprintf("%s: %d of %d recovered", value, p.AutoRecovered, p.Failing)},
				dot{x(i), y(p.Escalated), "escalated", fmt.Sprintf("%s: %d of %d escalated", value, p.Escalated, p.Failing)})
		}
	}
	c.Recovered, c.Escalated = strings.Join(recovered, " "), strings.Join(escalated, " ")
	c.ticks(r, x)
	c.bands(r, place, path)
	return c
}

func at(x, y int) string { return strconv.Itoa(x) + "," + strconv.Itoa(y) }

// ticks writes as many values below the picture as fit.
func (c *chart) ticks(r *engine.SweepReport, x func(int) int) {
	most := plotWidth / labelWidth
	step := max(1, (len(r.Points)+most-1)/most)
	for i := 0; i < len(r.Points); i += step {
		text := figure.Exact(r.Param, r.Points[i].Value)
		if short, _, cut := strings.Cut(text, " ("); cut { // the exact number stands in the table
			text = short
		}
		c.Values = append(c.Values, tick{x(i), text})
	}
}

// bands draws the flips. A mark that would cover the mark before it is left out: the list below the
// picture has every flip.
func (c *chart) bands(r *engine.SweepReport, place map[int64]int, path string) {
	end := 0
	for n := range r.Flips {
		f := &r.Flips[n]
		from, to := place[f.From], place[f.To]
		b := band{X: from, Width: max(1, to-from), Count: f.Count, Title: runs.FlipTitle(r.Param, f), HasGates: len(f.Gates) > 0}
		for _, g := range f.Gates {
			b.Title += "; " + runs.FlipGate(&g)
		}
		if f.Count > 0 {
			b.Link = flipLink(path, n)
		}
		if b.Mark = (from+to)/2 - markWidth/2; b.Mark >= end {
			b.HasMark, end = true, b.Mark+markWidth+4
		}
		c.Bands = append(c.Bands, b)
	}
}
