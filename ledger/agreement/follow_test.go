package agreement_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"recoveryledger/ledger/agreement"
)

// forgetful is an order that has forgotten what stands before first.
type forgetful struct {
	agreement.Sequencer
	first uint64
	batch []byte
	asked func(seq uint64)
}

func (f *forgetful) Batches(ctx context.Context, seq uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f.asked(seq)
		if seq < f.first {
			yield(nil, fmt.Errorf("%w: batch %d", agreement.ErrTrimmed, seq))
			return
		}
		if yield(f.batch, nil) {
			<-ctx.Done()
		}
	}
}

// TestFollowBehindWhatIsKept: a node that keeps what the order has forgotten reads on behind it,
// although it has not read that far; a node that lacks some of it is told.
func TestFollowBehindWhatIsKept(t *testing.T) {
	want := sample(t, 1) // number 4
	for _, keeps := range []uint64{3, 2} {
		var kept atomic.Uint64
		order := &forgetful{first: 4, batch: want.Encode(secret), asked: func(seq uint64) {
			if seq == 1 {
				kept.Store(keeps) // it orders meanwhile
			}
		}}
		m := agreement.Member{Sequencer: order, Secret: secret, Incarnation: want.Incarnation}
		ctx, cancel := context.WithCancel(t.Context())
		to, ended := make(chan agreement.Standing), make(chan struct{})
		go func() {
			defer close(ended)
			m.Follow(ctx, kept.Load, to, func(next uint64, err error) { t.Errorf("from %d: %v", next, err) })
		}()
		got := <-to
		if keeps == 3 && (got.Err != nil || got.Seq != 4) || keeps == 2 && got.Err == nil {
			t.Errorf("a node that keeps %d batches gets %+v", keeps, got)
		}
		cancel()
		<-ended
	}
}

// TestFollowWhatWasOffered: the entries of a number that this node has offered are not decoded
// ahead, and are there for a node whose own batch does not stand.
func TestFollowWhatWasOffered(t *testing.T) {
	want := sample(t, 2) // number 4
	order := &forgetful{first: 4, batch: want.Encode(secret), asked: func(uint64) {}}
	for _, offers := range []bool{false, true} {
		m := &agreement.Member{Sequencer: offered{order}, Secret: secret, Incarnation: want.Incarnation}
		if offers {
			if err := m.Settle(t.Context(), agreement.Term{ID: 1}, want); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		to := make(chan agreement.Standing, 1)
		go m.Follow(ctx, func() uint64 { return 3 }, to, func(next uint64, err error) { t.Errorf("from %d: %v", next, err) })
		got := <-to
		cancel()
		if got.Err != nil || got.Head != want.Head || (got.Entries == nil) != offers {
			t.Errorf("offered %v: %+v", offers, got)
		}
		if err := got.Decode(); err != nil || len(got.Entries) != 2 || !got.Entries[1].SignatureChecked {
			t.Errorf("offered %v: %d entries, %v", offers, len(got.Entries), err)
		}
	}
}

// offered is an order in which every batch stands that is offered.
type offered struct{ *forgetful }

func (offered) Propose(context.Context, agreement.Term, uint64, []byte) error { return nil }
