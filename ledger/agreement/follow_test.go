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
