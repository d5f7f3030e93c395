package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"recoveryledger/ledger/entry"
)

// grow fills one ledger up to the given size and measures at every power of ten
// what may depend on the size. Entries on the way are not signed one by one:
// signatures cost the same at any size.
func grow(ctx context.Context, b *bench, most int) error {
	dir := filepath.Join(b.dir, "growth")
	t, err := openLedger(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, "entries\tregister one, p50\tregister, entries/s in batches\tproof, p50\topen\tdisk an entry")
	size := 0
	for next := 10_000; next <= most; next *= 10 {
		start := time.Now()
		before := size
		for size < next {
			if err := t.submitUnsigned(ctx, size, min(1000, next-size)); err != nil {
				return err
			}
			size += min(1000, next-size)
		}
		rate := float64(size-before) / time.Since(start).Seconds()
		one, err := latency(b.time, func() (bool, error) {
			size++
			return true, t.submitUnsigned(ctx, size-1, 1)
		})
		if err != nil {
			return err
		}
		proof, err := latency(b.time, func() (bool, error) {
			_, err := t.Receipt(rand.Uint64N(t.Head().Size))
			return true, err
		})
		if err != nil {
			return err
		}
		if err := t.stop(); err != nil {
			return err
		}
		start = time.Now()
		if t, err = reopen(ctx, dir, t); err != nil {
			return err
		}
		open := time.Since(start)
		bytes, err := allocated(filepath.Join(dir, "db"))
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%d\t%.0f µs\t%.0f\t%.0f µs\t%v\t%d bytes\n", next, one, rate, proof, open.Round(time.Millisecond), bytes/int64(size))
		if err := b.out.Flush(); err != nil {
			return err
		}
	}
	if err := t.stop(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// reopen opens and runs a closed ledger again, with the agents it had.
func reopen(ctx context.Context, dir string, closed *ledgerUnderTest) (*ledgerUnderTest, error) {
	t, err := open(dir, closed.keys)
	if err != nil {
		return nil, err
	}
	t.agents = closed.agents
	t.run(ctx)
	return t, nil
}

// submitUnsigned registers n new entries whose signatures count as checked.
func (t *ledgerUnderTest) submitUnsigned(ctx context.Context, first, n int) error {
	batch := make([]*entry.Entry, n)
	for i := range batch {
		var err error
		if batch[i], err = t.entry(first + i); err != nil {
			return err
		}
		batch[i].Seal(t.agents[(first+i)%agents].Public().KeyID(), random(64))
		batch[i].SignatureChecked = true
	}
	answer, err := t.Submit(ctx, batch...)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		return answer.Refused
	}
	return nil
}
