package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// The units of a number are the end of its name, in policies and in reports.
const (
	unitPPM      = "_ppm"
	unitMicroUSD = "_micro_usd"
	unitMS       = "_ms"
)

// Figure writes a number for people, in the unit that its name ends with. Parts per million become
// percent and micro-USD become dollars, with the exact number beside them. Milliseconds get their
// unit. Other numbers do not change.
func Figure(name string, n int64) string {
	switch {
	case strings.Contains(name, unitPPM): // with the name of a class behind it, in one case
		return fmt.Sprintf("%s (%d ppm)", percentOf(n), n)
	case strings.HasSuffix(name, unitMicroUSD):
		return fmt.Sprintf("%s (%d micro-USD)", usd(n), n)
	}
	return figure(name, n)
}

// figure is Figure without the exact number beside.
func figure(name string, n int64) string {
	switch {
	case strings.Contains(name, unitPPM):
		return percentOf(n)
	case strings.HasSuffix(name, unitMicroUSD):
		return usd(n)
	case strings.HasSuffix(name, unitMS):
		return strconv.FormatInt(n, 10) + " ms"
	}
	return strconv.FormatInt(n, 10)
}

// FigureChange writes by how much a number has changed: rates in percentage points,
// rounded to the nearest tenth, and money in dollars, with the exact number beside them.
func FigureChange(name string, n int64) string {
	sign, size := "+", n
	if n < 0 {
		sign, size = "-", -n
	}
	if strings.HasSuffix(name, unitMicroUSD) {
		return fmt.Sprintf("%s%s (%+d micro-USD)", sign, usd(size), n)
	}
	const tenthOfAPoint = million / 1000
	tenths := (size + tenthOfAPoint/2) / tenthOfAPoint
	return fmt.Sprintf("%s%d.%d points (%+d ppm)", sign, tenths/10, tenths%10, n)
}

// percentOf writes parts per million as percent, exactly.
func percentOf(ppm int64) string {
	if ppm < 0 {
		return "-" + percentOf(-ppm)
	}
	return decimals(ppm, 10_000, 0) + " %"
}

// usd writes micro-USD as dollars, exactly, with at least two decimals.
func usd(micro int64) string {
	if micro < 0 {
		return "-" + usd(-micro)
	}
	return "$" + decimals(micro, million, 2)
}

// decimals writes n/unit, where unit is a power of ten, exactly: with as many
// decimals as that needs, and at least so many.
func decimals(n, unit int64, least int) string {
	text := strconv.FormatInt(n/unit, 10) + "." + strconv.FormatInt(unit+n%unit, 10)[1:]
	whole := strings.IndexByte(text, '.')
	for text[len(text)-1] == '0' && len(text) > whole+1+least {
		text = text[:len(text)-1]
	}
	return strings.TrimSuffix(text, ".")
}

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
		return percentOf(n) + " less often at worst"
	case gateBaselineCost, gateBaselineLatency:
		return percentOf(n) + " more at worst"
	case gateNever, gateStrategies:
		return counted(n, "case")
	case gateSlices:
		return counted(n, "slice")
	case gateMissing:
		return strconv.FormatInt(n, 10) + " missing"
	case gateCases:
		return counted(n, "failing case")
	}
	if strings.HasSuffix(g.Param, unitPPM) && max(n-g.Limit, g.Limit-n) >= million/1000 {
		return percent(n)
	}
	return figure(g.Param, n)
}

// wanted is the limit.
func (g *Gate) wanted() string {
	switch g.Gate {
	case gateNever, gateStrategies, gateSlices, gateMissing:
		return "none wanted"
	case gateCases, gateRate:
		return "at least " + figure(g.Param, g.Limit) + " wanted"
	}
	return "at most " + figure(g.Param, g.Limit) + " wanted"
}
