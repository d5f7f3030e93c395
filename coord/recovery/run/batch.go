package run

import (
	"context"
	"io"
	"iter"

	"recoveryledger/merkle"
)

// Batch recovers the cases of a scenario.
type Batch struct {
	Config
	// Workers is how many cases are at work at a time, at least 1. The order of
	// what comes out does not depend on it.
	Workers int
	// Neighbours are the policies one step away, see [Neighbours].
	Neighbours []Neighbour
	// Known reports whether a case was done with before: it is read, checked
	// and not recovered again. nil: none was. It is called from all workers.
	Known func(id string) bool
}

// Done is a case of a scenario that was dealt with.
type Done struct {
	// Line is where the case stands in the scenario, from 1.
	Line int
	// Known is set for a case that was done with before; then nothing but ID
	// and Line is.
	Known bool
	ID    string
	Recovery
	// Encoded is the trace in canonical form.
	Encoded []byte
	// Leaf is the leaf hash of Encoded.
	Leaf merkle.Hash
}

// Run recovers the cases of a scenario and yields them in its order.
//
// The sequence can be ranged over once. A pair is either a case or an error: an
// [*Error] for a line that cannot be used, after which the sequence goes on;
// another for what the reader, the runtime or the context answers, which ends
// it, as does one about the file as a whole. A caller that stops ends what is
// at work.
func (b *Batch) Run(ctx context.Context, name string, r io.Reader) iter.Seq2[*Done, error] {
	s := stream[Done]{workers: b.Workers, most: jobLines, check: b.check, do: b.one}
	if b.Instance != "" {
		s.most = 1 // attempts that take time are not to wait for one another
	}
	return func(yield func(*Done, error) bool) {
		for r, err := range s.run(ctx, name, r) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			r.value.Line = r.line
			if !yield(&r.value, nil) {
				return
			}
		}
	}
}

// one recovers a case.
func (b *Batch) one(ctx context.Context, c *Case) (Done, error) {
	done := Done{ID: c.ID}
	if done.Known = b.Known != nil && b.Known(c.ID); done.Known {
		return done, nil
	}
	var err error
	if done.Recovery, err = b.Recover(ctx, c); err != nil {
		return done, err
	}
	if done.Trace.Near, err = b.near(ctx, c, &done.Recovery); err != nil {
		return done, err
	}
	done.Encoded, err = done.Trace.Encode()
	done.Leaf = leafOf(done.Encoded)
	return done, err
}
