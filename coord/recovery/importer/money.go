package importer

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// micros reads an amount in USD from the decimal text of a JSON number and
// gives it in micro-USD, rounded half up. It works on the digits: a float
// would round twice, and 0.0000005 and its neighbours differently.
func micros(field string, value jsontext.Value) (*int64, *scenario.Error) {
	switch value.Kind() {
	case 'n', 0:
		return nil, nil
	case '0':
	default:
		return nil, scenario.Malformed(field, "holds "+scenario.KindName(value.Kind())+" and not a number", "write the amount in USD as a number")
	}
	text := string(value)
	if strings.HasPrefix(text, "-") {
		return nil, scenario.Malformed(field, "is negative", "write an amount of at least 0, or leave it out")
	}
	amount, fits := shiftDecimal(text, 6)
	if !fits {
		return nil, scenario.Malformed(field, "is too large", "write an amount below 9 billion USD")
	}
	return &amount, nil
}

// shiftDecimal is the JSON number text, without sign, times 10 to the power
// of places, rounded half up, if that is an integer that an entry may hold.
func shiftDecimal(text string, places int) (amount int64, fits bool) {
	mantissa, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], smallExponent(text[at+1:])
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction) + exponent + places // digits before the point
	if digits == "" || point < 0 {
		return 0, true
	}
	const int64Digits = 18 // any so many digits are an int64
	if point > int64Digits {
		return 0, false
	}
	whole = digits + strings.Repeat("0", max(0, point-len(digits)))
	amount, err := strconv.ParseInt("0"+whole[:point], 10, 64)
	if point < len(digits) && digits[point] >= '5' {
		amount++
	}
	return amount, err == nil && amount <= entry.MaxInteger
}

// smallExponent reads an exponent. It cuts an exponent to the range that the digits of a record can
// balance, so that the exponent cannot overflow.
func smallExponent(text string) int {
	const beyond = 1 << 30
	exponent, err := strconv.Atoi(strings.TrimPrefix(text, "+"))
	if err == nil && -beyond < exponent && exponent < beyond {
		return exponent
	}
	if strings.HasPrefix(text, "-") {
		return -beyond
	}
	return beyond
}
