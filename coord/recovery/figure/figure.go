// Package figure writes numbers for people, in the units that their names end with.
package figure

import (
	"fmt"
	"strconv"
	"strings"
)

// UnitPPM ends the names of numbers in parts per million. The unit of each number is the end of its
// name, in policies and in reports.
const UnitPPM = "_ppm"

const (
	unitMicroUSD = "_micro_usd"
	unitMS       = "_ms"
)

// Exact writes a number for people, in the unit that its name ends with. Parts per million become
// percent and micro-USD become dollars, with the exact number beside them. Milliseconds get their
// unit. Other numbers do not change.
func Exact(name string, n int64) string {
	switch {
	case strings.Contains(name, UnitPPM): // with the name of a class behind it, in one case
		return fmt.Sprintf("%s (%d ppm)", Percent(n), n)
	case strings.HasSuffix(name, unitMicroUSD):
		return fmt.Sprintf("%s (%d micro-USD)", USD(n), n)
	}
	return Short(name, n)
}

// Short is [Exact] without the exact number beside.
func Short(name string, n int64) string {
	switch {
	case strings.Contains(name, UnitPPM):
		return Percent(n)
	case strings.HasSuffix(name, unitMicroUSD):
		return USD(n)
	case strings.HasSuffix(name, unitMS):
		return strconv.FormatInt(n, 10) + " ms"
	}
	return strconv.FormatInt(n, 10)
}

// Change writes by how much a number has changed: rates in percentage points,
// rounded to the nearest tenth, and money in dollars, with the exact number beside them.
func Change(name string, n int64) string {
	sign, size := "+", n
	if n < 0 {
		sign, size = "-", -n
	}
	if strings.HasSuffix(name, unitMicroUSD) {
		return fmt.Sprintf("%s%s (%+d micro-USD)", sign, USD(size), n)
	}
	const tenthOfAPoint = million / 1000
	tenths := (size + tenthOfAPoint/2) / tenthOfAPoint
	return fmt.Sprintf("%s%d.%d points (%+d ppm)", sign, tenths/10, tenths%10, n)
}

// Percent writes parts per million as percent, exactly.
func Percent(ppm int64) string {
	if ppm < 0 {
		return "-" + Percent(-ppm)
	}
	return decimals(ppm, 10_000, 0) + " %"
}

// USD writes micro-USD as dollars, exactly, with at least two decimals.
func USD(micro int64) string {
	if micro < 0 {
		return "-" + USD(-micro)
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

const million = 1_000_000
