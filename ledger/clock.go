package ledger

import (
	"sync"
	"time"

	"recoveryledger/ledger/entry"
)

// clock is the ledger's own: it reads the wall clock at start and then advances
// monotonically. The wall clock is only compared with it: a step farther than
// Config.MaxStep, in either direction, stops registration until the wall clock
// is back or an operator accepts the step.
type clock struct {
	wall    func() time.Time
	uptime  func() time.Duration
	maxStep func() time.Duration

	mu     sync.Mutex
	start  time.Duration // uptime at start
	base   int64         // the ledger's time at start, Unix milliseconds
	offset time.Duration // by which an operator lets the wall clock differ
}

// newClock starts at the wall clock, or at the last entry if that is later.
func newClock(cfg *Config, last int64) *clock {
	c := &clock{wall: cfg.Now, uptime: cfg.Uptime, maxStep: cfg.MaxStep}
	c.start, c.base = c.uptime(), max(c.wall().UnixMilli(), last)
	if cfg.AcceptClock {
		c.accept(last)
	}
	return c
}

// now returns the instant to register at, never before last (Unix
// milliseconds), or not-ready.
func (c *clock) now(last int64) (int64, *entry.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := max(c.base+(c.uptime()-c.start).Milliseconds(), last)
	step := c.wall().Sub(time.UnixMilli(own)) - c.offset
	if limit := c.maxStep(); step > limit || -step > limit {
		return last, entry.Refuse(entry.NotReady, "", "the wall clock stands %v off the ledger's, the limit is %v", step.Round(time.Millisecond), limit).
			WithRemedy("set the clock right, or let an operator accept the step (arl serve --accept-clock)")
	}
	return own, nil
}

// accept takes the wall clock as it is. If it is behind the last entry, time
// stands at that entry and goes on from there.
func (c *clock) accept(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.wall()
	c.start, c.base = c.uptime(), max(wall.UnixMilli(), last)
	c.offset = wall.Sub(time.UnixMilli(c.base))
}
