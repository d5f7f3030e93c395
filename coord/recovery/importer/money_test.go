package importer

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// Amounts are rounded half up from their decimal text, at and beside every
// edge; what a float would get wrong is right.
func TestMicros(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "0.0": "0", "0e9": "0", "0.00e-5": "0", "1": "1000000",
		"0.0000005": "1", "0.00000049999999999999999999": "0", "5e-7": "1", "4.9999e-7": "0", "0.5e-6": "1",
		"0.20686500000000002": "206865", "1.0000005": "1000001", "1.0000015": "1000002", "2.0000025": "2000003",
		"1E+2": "100000000", "123e-2": "1230000", "0.0001e4": "1000000",
		"9007199254.740991": "9007199254740991", "9007199254.7409914": "9007199254740991",
		"9007199254.7409915": "is too large", "9007199254.740992": "is too large", "1e10": "is too large",
		"999999999999.999999": "is too large", "9999999999999.999999": "is too large",
		"1e99999999999999999999": "is too large", "1e-99999999999999999999": "0", "0e99999999999999999999": "0",
		"-1": "is negative", "-0": "is negative", `"1"`: "holds a string and not a number", "true": "holds a boolean and not a number",
	} {
		amount, wrong := micros("/cost", jsontext.Value(text))
		var got string
		if wrong != nil {
			got = wrong.Detail
		} else {
			got = strconv.FormatInt(*amount, 10)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, absent := range []jsontext.Value{nil, jsontext.Value("null")} {
		if amount, wrong := micros("/cost", absent); amount != nil || wrong != nil {
			t.Errorf("absent amount: %v, %v", amount, wrong)
		}
	}
}

// slowMicros is the same by rational arithmetic.
func slowMicros(text string) (int64, bool) {
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	amount.Mul(amount, big.NewRat(1_000_000, 1)).Add(amount, big.NewRat(1, 2))
	floor := new(big.Int).Div(amount.Num(), amount.Denom())
	return floor.Int64(), floor.IsInt64() && floor.Int64() <= entry.MaxInteger
}

// The arithmetic on digits agrees with rational arithmetic.
func TestMicrosAgreesWithRationals(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		text := strconv.FormatUint(rapid.Uint64().Draw(t, "whole")>>rapid.IntRange(0, 63).Draw(t, "shift"), 10)
		if rapid.Bool().Draw(t, "has fraction") {
			text += "." + rapid.StringMatching(`[0459]{1,12}`).Draw(t, "fraction")
		}
		if rapid.Bool().Draw(t, "has exponent") {
			text += rapid.StringMatching(`[eE][+-]?[0-9]{1,2}`).Draw(t, "exponent")
		}
		return text
	})
	rapid.Check(t, func(t *rapid.T) {
		text := number.Draw(t, "number")
		want, fits := slowMicros(text)
		got, wrong := micros("", jsontext.Value(text))
		if fits != (wrong == nil) || fits && *got != want {
			t.Fatalf("%s: %v, %v; want %d, %t", text, got, wrong, want, fits)
		}
	})
}

// Amounts agree with rational arithmetic on every number that this can do.
func FuzzMicros(f *testing.F) {
	for _, seed := range []string{"0", "0.0000005", "9007199254.7409915", "1e-7", "12.5E+3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := jsontext.Value(text)
		if !value.IsValid() || value.Kind() != '0' || strings.TrimSpace(text) != text || len(text) > 40 {
			return // no number of JSON
		}
		if at := strings.IndexAny(text, "eE"); at >= 0 && len(text)-at > 5 {
			return // rationals of such a size take too long
		}
		got, wrong := micros("", value)
		want, fits := slowMicros(text)
		if strings.HasPrefix(text, "-") {
			fits = false
		}
		if fits != (wrong == nil) || fits && *got != want {
			t.Fatalf("%s: %v, %v; want %d, %t", text, got, wrong, want, fits)
		}
	})
}
