package agent_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// grudge is a desk that refuses outcomes for a while, and counts how often each
// is submitted. It keeps the book's time by the clock of the bubble.
type grudge struct {
	*desk
	lifted  bool
	asked   map[string]int // by jti
	logged  time.Time      // when the last outcome was taken
	changed chan struct{}  // orders what the test has changed before what the agent does next
}

func (g *grudge) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	if e.Kind != entry.KindOutcome {
		return g.desk.Submit(ctx, e)
	}
	if g.asked[e.Header.JTI]++; !g.lifted {
		return entry.LogRef{}, entry.Refuse(entry.UnauthorizedRole, "", "not now")
	}
	ref, err := g.desk.Submit(ctx, e)
	if err == nil {
		g.logged = time.Now()
	}
	return ref, err
}

// Wait lets the time pass: nothing is announced.
func (g *grudge) Wait(ctx context.Context, limit time.Duration) error {
	for end := time.After(limit); end != nil; {
		select {
		case <-end:
			end = nil
		case <-ctx.Done():
			end = nil
		case <-g.changed:
		}
	}
	g.now = time.Now().UnixMilli()
	return nil
}

// TestRefusedIsTriedAgain: an outcome that was refused again and again is set
// aside, not forgotten: it is tried at ever longer intervals, and at once when an
// enrolment is accepted that the refusal may have rested on.
func TestRefusedIsTriedAgain(t *testing.T) {
	d := newDamage(t).ahead()
	for name, c := range map[string]struct {
		change bool
		within time.Duration
	}{
		"a change":  {true, 31 * time.Second}, // the next look, then at once
		"no change": {false, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.UnixMilli(d.now)))
				b := d.clone()
				b.tb = t
				worker := d.player(b, "worker", probing)
				g := &grudge{desk: worker.desk, asked: map[string]int{}, changed: make(chan struct{})}
				worker.change = func(cfg *agent.Config) { cfg.Ledger = g }
				worker.open()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				b.coordinate() // the decision
				go func() { ended <- agent.Run(ctx, worker.agent, g) }()
				time.Sleep(time.Hour + 7*time.Second)
				synctest.Wait()
				if len(g.asked) < 2 || !g.logged.IsZero() {
					t.Errorf("%d outcomes, logged %v", len(g.asked), g.logged)
				}
				for jti, count := range g.asked {
					if count < 10 || count > 20 {
						t.Errorf("%s was submitted %d times in an hour", jti, count)
					}
				}
				lifted := time.Now()
				g.lifted = true
				if c.change {
					b.write("root", &entry.Agent{Principal: "audrey", Op: entry.Enrol, Key: b.public("audrey"), Roles: []entry.Role{entry.RoleApprover},
						Domain: "d", Span: entry.SpanWorkflow})
				}
				g.changed <- struct{}{}
				time.Sleep(c.within)
				synctest.Wait()
				if g.logged.IsZero() || !worker.agent.Idle() {
					t.Errorf("after %v nothing was logged; refused %v", time.Since(lifted), b.refused)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHugeRetryAfter: what a ledger asks to wait for is no end of the calendar,
// after which everything would be due.
func TestHugeRetryAfter(t *testing.T) {
	d := newDamage(t)
	worker := d.player(d.book, "worker", probing)
	asked := 0
	worker.desk.fault = func(string) error {
		asked++
		refusal := entry.Refuse(entry.RateLimited, "", "later")
		refusal.RetryAfterMS = math.MaxInt64
		return refusal
	}
	for range 10 {
		next, err := worker.agent.Step(context.Background(), d.now)
		must(t, err)
		if next > d.now {
			break
		}
	}
	if asked > 2 {
		t.Errorf("asked %d times at once", asked)
	}
	if next, err := worker.agent.Step(context.Background(), d.now+3_600_000); err != nil || asked < 2 {
		t.Errorf("asked %d times, next at %d: %v", asked, next, err)
	}
}
