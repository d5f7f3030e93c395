package engine

import (
	"strconv"
	"strings"

	"recoveryledger/coord/recovery/figure"
)

// Text returns the finding of a gate for people: verdict, value and limit. The report has the exact
// numbers.
func (g *Gate) Text() string {
	text := string(g.Verdict) + ": " + g.found() + ", " + g.wanted()
	if g.Verdict == NotAsked {
		text = string(g.Verdict)
	}
	if g.Detail != "" {
		text += " (" + g.Detail + ")"
	}
	return text
}

// found is the value. A rate has one decimal, rounded down as everywhere, unless it
// is so near to the limit that the two could not be told apart.
func (g *Gate) found() string {
	if g.Value == nil {
		return "nothing observed"
	}
	n := *g.Value
	switch g.Gate {
	case gateBaseline:
		return figure.Percent(n) + " less often at worst"
	case gateBaselineCost, gateBaselineLatency:
		return figure.Percent(n) + " more at worst"
	case gateNever, gateStrategies:
		return counted(n, "case")
	case gateSlices:
		return counted(n, "slice")
	case gateMissing:
		return strconv.FormatInt(n, 10) + " missing"
	case gateCases:
		return counted(n, "failing case")
	}
	if strings.HasSuffix(g.Param, figure.UnitPPM) && max(n-g.Limit, g.Limit-n) >= million/1000 {
		return percent(n)
	}
	return figure.Short(g.Param, n)
}

// wanted is the limit.
func (g *Gate) wanted() string {
	switch g.Gate {
	case gateNever, gateStrategies, gateSlices, gateMissing:
		return "none wanted"
	case gateCases, gateRate:
		return "at least " + figure.Short(g.Param, g.Limit) + " wanted"
	}
	return "at most " + figure.Short(g.Param, g.Limit) + " wanted"
}
