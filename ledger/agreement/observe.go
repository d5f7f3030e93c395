package agreement

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Observe returns the sequencer s, which tells what becomes of each batch that this node offers. A
// nil error: it stands, so long after it was first offered. [ErrOvertaken]: it never will. An offer
// whose fate is not known tells nothing. tell must not block.
func Observe(s Sequencer, tell func(took time.Duration, err error)) Sequencer {
	return &observed{Sequencer: s, tell: tell}
}

type observed struct {
	Sequencer
	tell func(took time.Duration, err error)

	// mu guards what was offered last, and when first.
	mu    sync.Mutex
	term  int64
	seq   uint64
	began time.Time
}

// Propose implements [Sequencer].
func (o *observed) Propose(ctx context.Context, t Term, seq uint64, batch []byte) error {
	o.mu.Lock()
	if o.term != t.ID || o.seq != seq {
		o.term, o.seq, o.began = t.ID, seq, time.Now()
	}
	began := o.began
	o.mu.Unlock()
	err := o.Sequencer.Propose(ctx, t, seq, batch)
	if err == nil || errors.Is(err, ErrOvertaken) {
		o.tell(time.Since(began), err)
	}
	return err
}
