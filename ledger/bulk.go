package ledger

import (
	"context"
	"iter"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/entry"
)

// chunk holds consecutive entries, up to the first entry that cannot be read.
type chunk struct {
	entries []*entry.Registered
	err     error
}

// bulkEntries reads entries as readEntries does, for a caller that reads a log from end to end.
// It decodes the entries and hashes their leaves ahead of the consumer, on all processors.
func bulkEntries(ctx context.Context, r pebble.Reader, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var group sync.WaitGroup
		defer group.Wait() // the store must not be closed under a reader
		defer cancel()
		chunks := make(chan (<-chan chunk), bulkAhead) // in the order of the log
		group.Go(func() {
			defer close(chunks)
			for ; from < to && ctx.Err() == nil; from += bulkChunk {
				first, end, read := from, min(from+bulkChunk, to), make(chan chunk, 1)
				group.Go(func() { read <- readChunk(ctx, r, first, end) })
				select {
				case chunks <- read:
				case <-ctx.Done():
				}
			}
		})
		for read := range chunks {
			c := <-read
			for _, e := range c.entries {
				if !yield(e, nil) {
					return
				}
			}
			if c.err != nil {
				yield(nil, c.err)
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func readChunk(ctx context.Context, r pebble.Reader, from, to uint64) (c chunk) {
	for e, err := range readEntries(ctx, r, from, to) {
		if err != nil {
			c.err = err
			break
		}
		e.LeafHash() // the entry keeps the hash
		c.entries = append(c.entries, e)
	}
	return c
}
