package hour

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCount compares the count with a list of all minutes.
func TestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Count
		var all []int64
		within := rapid.Int64Range(0, minuteMS-1)
		minute := rapid.Int64Range(0, 100).Draw(t, "start")
		for range rapid.IntRange(0, 200).Draw(t, "count") {
			minute += rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 58, 59, 60, 61, 1000}).Draw(t, "step")
			c.Add(minute*minuteMS + within.Draw(t, "within"))
			all = append(all, minute)
		}
		now := minute + rapid.Int64Range(0, 61).Draw(t, "later")
		limit := rapid.Int64Range(1, 100).Draw(t, "limit")
		used := func(now int64) (n int64) {
			for _, m := range all {
				if m > now-minutes {
					n++
				}
			}
			return n
		}
		want := int64(0)
		if used(now) >= limit {
			free := now
			for used(free) >= limit {
				free++
			}
			want = free * minuteMS
		}
		at := now*minuteMS + within.Draw(t, "now")
		if got := c.Used(at); got != used(now) {
			t.Fatalf("used %d, want %d", got, used(now))
		}
		if got := c.Wait(at, limit); got != want {
			t.Fatalf("wait %d, want %d", got, want)
		}
	})
}

// TestLast compares the last instant with a count that has a limit of one.
func TestLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Count
		var last Last
		at := rapid.Int64Range(0, 3*minutes*minuteMS)
		if then := at.Draw(t, "then"); rapid.Bool().Draw(t, "happened") {
			c.Add(then)
			last = LastAt(then)
		}
		now := at.Draw(t, "later")
		if last != 0 {
			now += (int64(last) - 1) * minuteMS
		}
		if got, want := last.Wait(now), c.Wait(now, 1); got != want {
			t.Fatalf("wait at %d after %d: %d, want %d", now, last, got, want)
		}
	})
}
