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

// TestHours counts the entries of each hour as they are, whatever was looked at before.
func TestHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, h, now := &clocked{}, &hours{}, 100*dayMS
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			for range rapid.IntRange(0, 40).Draw(t, "entries") {
				now += rapid.Int64Range(0, 2*hourMS).Draw(t, "pause")
				log.times = append(log.times, now)
			}
			now += rapid.Int64Range(0, hourMS).Draw(t, "later")
			want := [hoursShown]uint64{}
			for _, at := range log.times {
				if back := now/hourMS - at/hourMS; back < hoursShown {
					want[hoursShown-1-back]++
				}
			}
			got, err := h.counts(context.Background(), log, uint64(len(log.times)), now)
			if err != nil || got != want {
				t.Fatalf("%v at %d: %v, %v, want %v", log.times, now, got, err, want)
			}
		}
		log.gone = errors.New("gone")
		if _, err := h.counts(context.Background(), log, uint64(len(log.times)+1), now+hourMS); !errors.Is(err, log.gone) {
			t.Fatalf("without contact: %v", err)
		}
	})
}

// TestSparkline: what is not 0 is seen, nothing is higher than the picture, and words say the same.
func TestSparkline(t *testing.T) {
	s := draw([]uint64{0, 1, 1 << 40, 0})
	if len(s.Bars) != 2 || s.Bars[0].Height != 1 || s.Bars[1].Height != s.Height || s.Bars[1].Y != 0 || s.Says != "0, 1, 1099511627776, 0" {
		t.Errorf("%+v", s)
	}
	if s := draw([]uint64{0, 0}); len(s.Bars) != 0 || s.Says != "0, 0" {
		t.Errorf("%+v", s)
	}
}
