// Package agreement is what the nodes of a cluster agree on before one of them signs a tree head:
// which batch of entries stands at which number, once and for ever.
//
// A [Sequencer] is the order that the nodes share. The node that holds the newest [Term] offers
// batches, and every node follows them. A term is advice. The fence is [Sequencer.Propose], which
// decides where the batch is stored, and neither a clock nor a lock decides.
//
// A [Batch] binds the tree heads before and behind it. A node takes a batch only if its own
// computation gives the same head, so all nodes that took batch n have one head. No batch is empty,
// so one size has one batch. Nothing signed is in a batch: a MAC shows the nodes that one of them
// made it, and shows nothing to others.
package agreement

import (
	"context"
	"errors"
	"iter"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

var (
	// ErrOvertaken says that an offered batch does not stand at its number, and never will; or
	// that a term is not the newest one.
	ErrOvertaken = errors.New("agreement: overtaken by another node")
	// ErrTrimmed says that batches are not kept any more. A node that lacks them joins anew.
	ErrTrimmed = errors.New("agreement: the order does not keep these batches any more, and this node lacks them: remove this node at another one, and let it join anew")
	// ErrDiverged reports a batch that the nodes agreed on, and that this node cannot take: its
	// log, its rules or its secret are not those of the other nodes. It also reports an order that
	// lost batches, see [LostBatches].
	ErrDiverged = errors.New("agreement: this node is not like the others")
	// ErrNotLeading says that another node orders the log, or none does.
	ErrNotLeading = errors.New("agreement: this node does not order the log")
	// ErrLeading reports that this node orders the log, where another one was looked for.
	ErrLeading = errors.New("agreement: this node orders the log")
)

// DoubtAfter is the time without agreement until new submissions are turned away, and clients that
// wait are told.
const DoubtAfter = 2 * time.Second

var (
	// Elsewhere refuses entries on a node that does not order the log.
	Elsewhere = entry.Refuse(entry.NotReady, "", "this node does not order the log").
			WithRemedy("send the same entry again: to the node that orders the log, or to this node later")
	// NoneAgree refuses entries while the nodes do not agree.
	NoneAgree = entry.Refuse(entry.NotReady, "", "the nodes of the cluster have not agreed for %v", DoubtAfter).
			WithRemedy("the entry may be registered when a majority of the nodes runs: send the same entry again later, or look whether it is there")
)

// Leadership says which node is to order.
type Leadership interface {
	// Terms yields a term when this node is to order, and the zero Term when it is not any
	// more. A term that was not received is replaced by the next one. The channel is closed
	// when ctx ends.
	Terms(ctx context.Context) <-chan Term
	// Confirm returns nil if t was the newest term after the call began. It asks by a write.
	// [ErrOvertaken]: a newer term has begun. Any other error: not known.
	Confirm(ctx context.Context, t Term) error
}

// Sequencer is the order that the nodes of a cluster share. It is safe for concurrent use.
type Sequencer interface {
	Leadership
	// Propose offers batch as number seq. Nil: it stands there, on stable storage of a
	// majority. [ErrOvertaken]: it does not, and never will. Any other error: not known;
	// the same bytes may be offered again.
	Propose(ctx context.Context, t Term, seq uint64, batch []byte) error
	// Batches yields what stands from number seq on, without a gap, until ctx ends. It waits
	// for what does not stand yet. [ErrTrimmed]: seq is not kept any more.
	Batches(ctx context.Context, seq uint64) iter.Seq2[[]byte, error]
	// Kept says that everything up to number seq is on this node's disk, under head. What all
	// nodes have may be forgotten. [ErrDiverged]: another node has another head of that number.
	Kept(ctx context.Context, seq uint64, head merkle.Head) error
}

// Term is the right of one node to offer batches, until a newer term begins.
type Term struct {
	ID    int64  // fencing token, which grows from term to term; 0: no term
	After uint64 // number of the last batch when the term began
}

// retryPause is the time between two offers of a batch whose fate is not known.
const retryPause = 50 * time.Millisecond

// Settle offers batch as number seq until its fate is known. The error is [ErrOvertaken], or that
// of ctx: then the fate is not known.
func Settle(ctx context.Context, s Sequencer, t Term, seq uint64, batch []byte) error {
	for {
		err := s.Propose(ctx, t, seq, batch)
		if err == nil || errors.Is(err, ErrOvertaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}
