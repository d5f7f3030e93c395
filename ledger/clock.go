package ledger

import (
	"time"

	"recoveryledger/ledger/entry"
)

// clock is the ledger's own clock. It reads the wall clock at start and then advances
// monotonically. Later the ledger only compares the wall clock with it. If the wall clock steps
// farther than Config.MaxStep in either direction, registration stops until the wall clock is
// back or the ledger is started again. Registration also stops if the clock is farther than
// that behind the last entry at start. It stays stopped until the clock has caught up, or an
// operator accepts that time stands still so long.
type clock struct {
	wall     func() time.Time
	uptime   func() time.Duration
	maxStep  func() time.Duration
	accepted bool

	start time.Duration // uptime at start
	base  time.Time     // wall clock at start
}

func newClock(cfg *Config) *clock {
	return &clock{wall: cfg.Now, uptime: cfg.Uptime, maxStep: cfg.MaxStep, accepted: cfg.AcceptClock,
		start: cfg.Uptime(), base: cfg.Now().Round(0)}
}

// now returns the instant to register at, in Unix milliseconds, or the refusal not-ready. The
// instant is never before last.
func (c *clock) now(last int64) (int64, *entry.Refusal) {
	own, limit := c.base.Add(c.uptime()-c.start), c.maxStep()
	if step := c.wall().Sub(own); step > limit || -step > limit {
		return last, entry.Refuse(entry.NotReady, "", "the wall clock has stepped by %v, the limit is %v", step.Round(time.Millisecond), limit).
			WithRemedy("correct the clock, or start the ledger again, which accepts the present time")
	}
	if behind := time.UnixMilli(last).Sub(own); behind > limit && !c.accepted {
		return last, entry.Refuse(entry.NotReady, "", "the wall clock is %v behind the last entry, the limit is %v", behind.Round(time.Millisecond), limit).
			WithRemedy("correct the clock, wait, or accept the present time (arl serve --accept-clock)")
	}
	return max(own.UnixMilli(), last), nil
}
