// Package wallclock is the clock of a ledger, which no step of the wall clock moves.
package wallclock

import (
	"time"

	"recoveryledger/ledger/entry"
)

// Config are the two clocks of a machine, and what is believed of them.
type Config struct {
	Wall     func() time.Time     // reads the wall clock
	Uptime   func() time.Duration // reads a clock that only advances
	MaxStep  func() time.Duration // largest distance of the wall clock that is believed
	Accepted bool                 // whether an operator accepts a wall clock behind the last entry
}

// Clock is the ledger's own clock. It reads the wall clock at start and then advances
// monotonically. Later the ledger only compares the wall clock with it. If the wall clock steps
// farther than Config.MaxStep in either direction, registration stops until the wall clock is
// back or the ledger is started again. Registration also stops if the clock is farther than
// that behind the last entry at start. It stays stopped until the clock has caught up, or an
// operator accepts that time stands still so long.
type Clock struct {
	cfg Config

	start time.Duration // uptime at start
	base  time.Time     // wall clock at start
}

// New returns a clock that starts now.
func New(cfg Config) *Clock {
	return &Clock{cfg: cfg, start: cfg.Uptime(), base: cfg.Wall().Round(0)}
}

// Now returns the instant to register at, in Unix milliseconds, or the refusal not-ready. The
// instant is never before last, which is the instant of the last entry.
func (c *Clock) Now(last int64) (int64, *entry.Refusal) {
	own, limit := c.own(), c.cfg.MaxStep()
	if step := c.cfg.Wall().Sub(own); step > limit || -step > limit {
		return last, entry.Refuse(entry.NotReady, "", "the wall clock has stepped by %v, the limit is %v", step.Round(time.Second), limit).
			WithRemedy("correct the clock, or start the ledger again, which accepts the present time")
	}
	if behind := time.UnixMilli(last).Sub(own); behind > limit && !c.cfg.Accepted {
		return last, entry.Refuse(entry.NotReady, "", "the wall clock is %v behind the last entry, the limit is %v", behind.Round(time.Millisecond), limit).
			WithRemedy("correct the clock, wait, or accept the present time (arl serve --accept-clock)")
	}
	return max(own.UnixMilli(), last), nil
}

// Offset returns the wall clock minus the ledger's own, which is never before last, the instant of
// the last entry in Unix milliseconds. It stays as long as the wall clock stays wrong.
func (c *Clock) Offset(last int64) time.Duration {
	return time.Duration(c.cfg.Wall().UnixMilli()-max(c.own().UnixMilli(), last)) * time.Millisecond
}

func (c *Clock) own() time.Time { return c.base.Add(c.cfg.Uptime() - c.start) }
