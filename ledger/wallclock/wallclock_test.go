package wallclock_test

import (
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/wallclock"
)

// TestSteps holds the clock to its word: it advances with the uptime alone, refuses while the wall
// clock is an hour off in either direction, and goes on when the wall clock is back.
func TestSteps(t *testing.T) {
	wall, up := time.UnixMilli(1_800_000_000_000), time.Duration(0)
	clock := wallclock.New(wallclock.Config{
		Wall: func() time.Time { return wall }, Uptime: func() time.Duration { return up },
		MaxStep: func() time.Duration { return time.Minute },
	})
	want := func(now int64, ready bool) {
		t.Helper()
		got, refusal := clock.Now(1_800_000_000_000)
		if got != now || (refusal == nil) != ready || refusal != nil && (refusal.Problem != entry.NotReady || refusal.Remedy == "") {
			t.Errorf("%d, %v; want %d, ready %v", got, refusal, now, ready)
		}
	}
	want(1_800_000_000_000, true)
	wall, up = wall.Add(time.Second), time.Second
	want(1_800_000_001_000, true)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		wall = wall.Add(step)
		want(1_800_000_000_000, false)
		wall, up = wall.Add(time.Minute), up+time.Minute
		if got := clock.Offset(1_800_000_000_000); got != step {
			t.Errorf("a minute after a step of %v the offset is %v", step, got)
		}
		wall, up = wall.Add(-time.Minute), up-time.Minute
		wall = wall.Add(-step)
		want(1_800_000_001_000, true)
	}
	wall = wall.Add(time.Minute) // as far as is believed
	want(1_800_000_001_000, true)
}

// TestBehindTheLastEntry wants the time of the last entry from a wall clock that an operator
// accepts.
func TestBehindTheLastEntry(t *testing.T) {
	const last = 1_800_003_600_000
	cfg := wallclock.Config{
		Wall: func() time.Time { return time.UnixMilli(1_800_000_000_000) }, Uptime: func() time.Duration { return 0 },
		MaxStep: func() time.Duration { return time.Minute },
	}
	if _, refusal := wallclock.New(cfg).Now(last); refusal == nil || refusal.Problem != entry.NotReady {
		t.Errorf("an hour behind: %v", refusal)
	}
	if offset := wallclock.New(cfg).Offset(last); offset != -time.Hour {
		t.Errorf("an hour behind: the offset is %v", offset)
	}
	cfg.Accepted = true
	if now, refusal := wallclock.New(cfg).Now(last); now != last || refusal != nil {
		t.Errorf("accepted: %d, %v", now, refusal)
	}
}
