package bundle_test

import (
	"errors"
	"flag"
	"os"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// TestMain leaves make race what checks signatures at once.
func TestMain(m *testing.M) { os.Exit(budget.Raced(m, "TestBundleMutations")) }

var update = flag.Bool("update", false, "write the vectors anew")

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func encoded[T interface{ Encode() ([]byte, error) }](tb testing.TB, v T) string {
	tb.Helper()
	data, err := v.Encode()
	must(tb, err)
	return string(data)
}

func wantFormat(tb testing.TB, err error) {
	tb.Helper()
	if _, ok := errors.AsType[*verify.FormatError](err); !ok {
		tb.Fatalf("error %v, want one of format", err)
	}
}
