package entry_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// TestAdopt makes entries of drawn attempts, some with one mistake: Adopt makes and refuses exactly
// what New does, and keeps the body.
func TestAdopt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawBody(t, entry.KindAttempt).(*entry.Attempt)
		switch rapid.IntRange(0, 8).Draw(t, "mistake") {
		case 0:
			a.Case = ""
		case 1:
			a.Status = "done"
		case 2:
			a.Also = append(a.Also, a.AttemptCase)
		case 3:
			a.JTI = "x"
		case 4:
			a.Facts = []byte(`{"n":1.5}`)
		case 5:
			a.Facts = []byte(`{"a":1,"a":2}`)
		case 6:
			a.Rungs = append(a.Rungs, entry.Rung{Attempt: -1})
		}
		want, wantErr := entry.New(a)
		got, err := entry.Adopt(a)
		switch {
		case wantErr != nil || err != nil:
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%v, want %v", err, wantErr)
			}
		case !bytes.Equal(got.Payload(), want.Payload()) || !bytes.Equal(got.PAE(), want.PAE()) || got.Kind != want.Kind ||
			got.Body != entry.Body(a) || got.Header.JTI != want.Header.JTI:
			t.Fatalf("%s, want %s", got.Payload(), want.Payload())
		}
	})
}
