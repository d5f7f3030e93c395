package ledger_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// clocks are a wall clock and an uptime that a test moves.
type clocks struct {
	mu   sync.Mutex
	wall time.Time
	up   time.Duration
}

func newClocks() *clocks { return &clocks{wall: time.UnixMilli(1_800_000_000_000)} }

func (c *clocks) on(cfg *ledger.Config) *ledger.Config {
	cfg.Now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.wall
	}
	cfg.Uptime = func() time.Duration {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.up
	}
	return cfg
}

// pass lets time pass.
func (c *clocks) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.up = c.wall.Add(d), c.up+d
}

// step moves the wall clock alone.
func (c *clocks) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// at submits an entry and returns its registered_at.
func (r *running) at() int64 {
	r.t.Helper()
	index := r.add(1)[0]
	logged, err := r.Entry(index)
	must(r.t, err)
	return logged.RegisteredAt
}

// notReady submits an entry and wants it refused because of the clock.
func (r *running) notReady() {
	r.t.Helper()
	size := r.Head().Size
	answer, err := r.Submit(r.t.Context(), newEntry(r.t))
	must(r.t, err)
	if answer.Refused == nil || answer.Refused.Problem != entry.NotReady || answer.Refused.Remedy == "" {
		r.t.Fatalf("answer %+v, %v", answer.Registered, answer.Refused)
	}
	if refusal, ok := errors.AsType[*entry.Refusal](r.Ready()); !ok || refusal.Problem != entry.NotReady {
		r.t.Fatalf("ready: %v", r.Ready())
	}
	if r.Head().Size != size {
		r.t.Fatalf("size %d, was %d", r.Head().Size, size)
	}
}

// The ledger's time begins at the wall clock and then follows the uptime.
func TestTimeFollowsTheUptime(t *testing.T) {
	c := newClocks()
	r := start(t, "log", c.on(config(t, vfs.NewMem())))
	began := c.wall.UnixMilli()
	if at := r.at(); at != began {
		t.Errorf("first entry at %d, want %d", at, began)
	}
	c.pass(5 * time.Second)
	c.step(-59 * time.Second) // is not followed
	if at := r.at(); at != began+5000 {
		t.Errorf("registered at %+d ms", at-began)
	}
	c.step(118 * time.Second)
	if at := r.at(); at != began+5000 {
		t.Errorf("registered at %+d ms", at-began)
	}
}

// A step of the wall clock farther than MaxStep, to either side, stops
// registration until it is back. What is registered is still answered (REG-2).
// Draft: LOG-2.
func TestAStepOfTheClockStopsRegistration(t *testing.T) {
	c := newClocks()
	cfg := c.on(config(t, vfs.NewMem()))
	limit := 10 * time.Second
	cfg.MaxStep = func() time.Duration { return limit }
	r := start(t, "log", cfg)
	old := newEntry(t)
	_, err := r.Submit(t.Context(), old)
	must(t, err)
	for _, step := range []time.Duration{limit, -limit} {
		c.step(step)
		must(t, r.Ready())
		r.add(1)
		c.step(step / 10_000) // a millisecond more
		r.notReady()
		answer, err := r.Submit(t.Context(), old)
		must(t, err)
		if len(answer.Registered) != 1 || !answer.Registered[0].Duplicate {
			t.Errorf("an old entry: %+v", answer)
		}
		answer, err = r.Submit(t.Context(), old, newEntry(t))
		must(t, err)
		if len(answer.Registered) != 1 || answer.Refused == nil {
			t.Errorf("an old entry and a new one: %+v", answer)
		}
		c.step(-step - step/10_000)
		r.add(1)
	}
	limit = time.Hour // the policy in force says how far
	c.step(30 * time.Minute)
	r.add(1)
}

// registered_at never falls, even if the wall clock does between two runs.
// Draft: LOG-1.
func TestTimeNeverFallsAcrossRestarts(t *testing.T) {
	c := newClocks()
	cfg := c.on(config(t, vfs.NewMem()))
	r := start(t, "log", cfg)
	c.pass(time.Hour)
	last := r.at()
	r.stop()

	c.step(-30 * time.Second) // within MaxStep: time stands until it is caught up
	r = start(t, "log", cfg)
	if at := r.at(); at != last {
		t.Errorf("registered at %+d ms", at-last)
	}
	r.stop()

	c.step(-time.Hour)
	r = start(t, "log", cfg)
	r.notReady()
	c.pass(time.Minute)
	r.notReady()
	r.stop()

	cfg.AcceptClock = true
	r = start(t, "log", cfg)
	if at := r.at(); at != last {
		t.Errorf("accepted: registered at %+d ms", at-last)
	}
	c.pass(time.Second)
	if at := r.at(); at != last { // time stands until the wall clock has caught up
		t.Errorf("accepted: registered at %+d ms", at-last)
	}
	c.step(2 * time.Minute) // a new step is a step
	r.notReady()
	r.stop()

	cfg.AcceptClock = false
	c.step(24 * time.Hour) // a long rest is none
	r = start(t, "log", cfg)
	if at := r.at(); at != c.wall.UnixMilli() {
		t.Errorf("after a rest: registered at %d, want %d", at, c.wall.UnixMilli())
	}
}
