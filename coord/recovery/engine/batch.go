package engine

import (
	"context"
	"io"
	"iter"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Batch recovers the cases of a scenario.
type Batch struct {
	Config
	// Workers is the number of cases in work at a time, at least 1. The order of the results does
	// not depend on it.
	Workers int
	// Neighbours are the policies one step away, see [Neighbours].
	Neighbours []Neighbour
	// Known reports whether a case was finished by an earlier run. Such a case is read and checked,
	// and not recovered again. nil: no case was. All workers call Known.
	Known func(id string) bool

	// attempt makes the entry of a case; nil: none is needed. All workers call it.
	attempt func(of *Recovery, line []byte) (*entry.Attempt, error)
}

// Result is a case of a scenario that was dealt with.
type Result struct {
	// Line is where the case stands in the scenario, from 1.
	Line int
	// Known is set for a case that an earlier run finished. Only ID and Line are set then.
	Known bool
	ID    string
	Recovery
	// Encoded is the trace in canonical form.
	Encoded []byte
	// Leaf is the leaf hash of Encoded.
	Leaf merkle.Hash

	attempt *entry.Attempt // made by the worker; nil: not yet
}

// Run recovers the cases of a scenario and yields them in its order.
//
// A caller can range over the sequence once. A pair is either a case or an error. An [*Error] about
// a line that cannot be used does not end the sequence. Every other error ends the sequence: an
// error of the reader, the runtime or the context, and an error about the file as a whole. When the
// caller stops, the work in progress ends.
func (b *Batch) Run(ctx context.Context, name string, r io.Reader) iter.Seq2[*Result, error] {
	// Attempts that take time run side by side.
	s := scenario.Pipeline[Result]{Workers: b.Workers, OneByOne: b.Instance != "", Check: b.check, Do: b.one}
	return func(yield func(*Result, error) bool) {
		for r, err := range s.Run(ctx, name, r) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			r.Value.Line = r.Line
			if !yield(&r.Value, nil) {
				return
			}
		}
	}
}

// one recovers a case.
func (b *Batch) one(ctx context.Context, c *scenario.Case) (Result, error) {
	done := Result{ID: c.ID}
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
	if done.Encoded, err = done.Trace.Encode(); err != nil {
		return done, err
	}
	done.Leaf = leafOf(done.Encoded)
	if b.attempt != nil {
		done.attempt, err = b.attempt(&done.Recovery, done.Encoded)
	}
	return done, err
}

// Line recovers the case on one line of a scenario, as [Batch.Run] does. An error
// about the line is an [*Error] without file and line.
func (b *Batch) Line(ctx context.Context, line []byte) (*Result, error) {
	c, err := scenario.Decode(line)
	if err != nil {
		return nil, err
	}
	if wrong := b.check(&c); wrong != nil {
		return nil, wrong
	}
	done, err := b.one(ctx, &c)
	return &done, err
}
