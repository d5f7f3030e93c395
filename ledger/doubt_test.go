package ledger_test

import (
	"testing"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// TestClusterInDoubt: nothing is agreed on. Who waits and can ask again hears what stands of the
// entries, and that the rest is in doubt. The rest is registered when the majority is back.
func TestClusterInDoubt(t *testing.T) {
	s, a, b, c := three(t)
	known := batchOf(t, 1)
	a.registered(known, 0, false)
	back := make(chan struct{})
	s.fail(func(string, uint64) error {
		select {
		case <-back:
			return nil
		default:
			return errCutOff
		}
	}, nil)
	left := newUnsigned(t)
	answer, err := a.SubmitOrDoubt(t.Context(), resent(t, known)[0], left)
	if err != nil || len(answer.Registered) != 1 || !answer.Registered[0].Duplicate || answer.Refused != agreement.NoneAgree {
		t.Errorf("who waits and can ask again hears %+v, %v", answer, err)
	}
	close(back)
	must(t, a.Wait(t.Context(), 2))
	a.registered(resent(t, []*entry.Entry{left}), 1, true)
	equal(t, a, b, c)
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}
