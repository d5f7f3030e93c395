package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
)

// minimalCase is the least that a case needs.
const minimalCase = `{"v":1,"id":"a","agent":"x","steps":[{"id":"s"}]}`

// caseWith is the minimal case with members in its step.
func caseWith(members string) string {
	return strings.Replace(minimalCase, `"id":"s"`, `"id":"s",`+members, 1)
}

// roundTrip checks that a case is the same after writing and reading.
func roundTrip(tb testing.TB, c scenario.Case) []byte {
	tb.Helper()
	line, err := scenario.Encode(c)
	if err != nil {
		tb.Fatal(err)
	}
	again, err := scenario.Decode(line)
	if err != nil {
		tb.Fatalf("written case cannot be read: %v\n%s", err, line)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		tb.Fatalf("case after writing (-was +is):\n%s", diff)
	}
	return line
}

// lineError checks what is promised of an error about a line.
func lineError(tb testing.TB, err error) *scenario.Error {
	tb.Helper()
	wrong, ok := errors.AsType[*scenario.Error](err)
	if !ok {
		tb.Fatalf("error %v is no *Error", err)
	}
	if wrong.Problem == "" || wrong.Detail == "" || wrong.Remedy == "" || wrong.Field != "" && wrong.Field[0] != '/' {
		tb.Fatalf("error %+v is incomplete", wrong)
	}
	return wrong
}
