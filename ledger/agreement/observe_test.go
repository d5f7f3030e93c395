package agreement_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"recoveryledger/ledger/agreement"
)

// fated answers proposals with errors in turn.
type fated struct {
	agreement.Sequencer
	fates []error
}

func (f *fated) Propose(context.Context, agreement.Term, uint64, []byte) error {
	fate := f.fates[0]
	f.fates = f.fates[1:]
	return fate
}

// TestObserve: the fate of a batch is told once, with the time since the batch was first offered.
func TestObserve(t *testing.T) {
	cut := errors.New("cut off")
	var told []error
	var took time.Duration
	s := agreement.Observe(&fated{fates: []error{cut, cut, nil, agreement.ErrOvertaken}}, func(d time.Duration, err error) {
		told, took = append(told, err), d
	})
	began := time.Now()
	if err := agreement.Settle(t.Context(), s, agreement.Term{ID: 1}, 1, nil); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != nil || took <= 0 || took > time.Since(began) || took < 50*time.Millisecond {
		t.Errorf("after two offers that were cut off: %v in %v", told, took)
	}
	if err := agreement.Settle(t.Context(), s, agreement.Term{ID: 1}, 2, nil); !errors.Is(err, agreement.ErrOvertaken) {
		t.Fatal(err)
	}
	if len(told) != 2 || !errors.Is(told[1], agreement.ErrOvertaken) {
		t.Errorf("an overtaken batch: %v in %v", told, took)
	}
}
