package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// slowSigner is a key in another place: each of its signatures takes a time.
type slowSigner struct {
	note.Signer
	takes time.Duration
}

// Sign implements [note.Signer].
func (s slowSigner) Sign(msg []byte) ([]byte, error) {
	time.Sleep(s.takes)
	return s.Signer.Sign(msg)
}

// slowKey says how long a submission takes where the ledger's key takes 5 ms for a signature. A
// submission waits for the signature that is under way, and for its own, which it shares with all
// others that wait.
func slowKey(ctx context.Context, b *bench) error {
	const takes = 5 * time.Millisecond
	p50 := map[int]float64{}
	side := func(submitters int) func(string) (float64, error) {
		return func(dir string) (float64, error) {
			t, err := openLedgerWith(ctx, dir, settings{keyTakes: takes})
			if err != nil {
				return 0, err
			}
			next, err := t.envelopes(int(b.time/takes+1) * submitters)
			if err != nil {
				return 0, err
			}
			times, err := timedLoop(submitters, b.time, next, func(envelope []byte) error { return t.submit(ctx, envelope) })
			if err != nil {
				return 0, err
			}
			p50[submitters] = percentile(times, 50) / 1e3
			return percentile(times, 99) / 1e3, t.stop()
		}
	}
	many, one, err := b.turns(side(64), side(1))
	if err != nil {
		return err
	}
	b.print(row{name: "submission where the ledger's key takes 5 ms, 64 submitters, p99", value: many, unit: "ms", target: 20, atMost: true,
		detail: fmt.Sprintf("p50 %.1f ms; one submitter: p99 %.1f, p50 %.1f ms", p50[64], one, p50[1])})
	return nil
}
