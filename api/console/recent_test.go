package console

import (
	"context"
	"errors"
	"iter"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// clocked is a log of which only the times are read.
type clocked struct {
	Log
	times []int64
	reads int
	gone  error
}

func (c *clocked) Entries(_ context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		c.reads++
		if c.gone != nil {
			yield(nil, c.gone)
			return
		}
		for i := from; i < to && i < uint64(len(c.times)) && yield(&entry.Registered{Index: i, RegisteredAt: c.times[i]}, nil); i++ {
		}
	}
}

// TestSince finds where a time begins, whatever was found before, and reads little if the time has
// moved little.
func TestSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, m, now := &clocked{}, &mark{}, int64(0)
		for range rapid.IntRange(1, 10).Draw(t, "looks") {
			for range rapid.IntRange(0, 50).Draw(t, "entries") {
				now += rapid.Int64Range(0, 3).Draw(t, "pause")
				log.times = append(log.times, now)
			}
			at := rapid.Int64Range(-1, now+2).Draw(t, "at")
			want := sort.Search(len(log.times), func(i int) bool { return log.times[i] >= at })
			if got, err := m.since(context.Background(), log, uint64(len(log.times)), at); err != nil || got != uint64(want) {
				t.Fatalf("from %d of %v: %d, %v, want %d", at, log.times, got, err, want)
			}
			log.reads = 0
			if got, err := m.since(context.Background(), log, uint64(len(log.times)), at); err != nil || got != uint64(want) || log.reads > 1 {
				t.Fatalf("again: %d, %v, want %d; %d reads", got, err, want, log.reads)
			}
		}
		log.gone = errors.New("gone")
		if _, err := m.since(context.Background(), log, uint64(len(log.times)+1), now+1); !errors.Is(err, log.gone) {
			t.Fatalf("without contact: %v", err)
		}
	})
}
