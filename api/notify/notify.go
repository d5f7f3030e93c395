// Package notify tells endpoints of what people have to know: that an incident waits for approvals,
// how it ended, that a task waits for an operator or can go to nobody, that a rollout was aborted,
// that an issuer or a log contradicts itself.
//
// A message is a CloudEvent (v1.0, JSON), sent by HTTP and signed as Standard Webhooks says, or
// given to a program. It names the command that answers it, and has no secret.
//
// Each endpoint follows the log by itself, from a cursor of its own. The cursor moves behind an
// entry once the endpoint has taken the events of the entry. So there is no queue that could be
// lost:
//
//	DIR/NAME.json   {"index": next entry, "files": {name: next byte}}
//
// A crash between a message and its cursor sends the message again, under the same id. An endpoint
// that takes nothing holds up itself alone.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// Config says who is told of what.
type Config struct {
	// File lists the endpoints. Required.
	File *File
	// Dir keeps the cursors. It is made if it is missing. Required.
	Dir string
	// Origin is the name of the ledger. Required.
	Origin string
	// Log and Replica are the ledger's. Required by Run.
	Log     Log
	Replica *coordinator.Replica
	// Evidence is the file of equivocations that the server keeps. Empty: none.
	Evidence string
	// Logger takes failures of endpoints. Nil: silence.
	Logger *slog.Logger
	// Failed is told of each error with which an entry could not be read, or made no message.
	// Endpoints call it at the same time. Nil: nobody is told.
	Failed func(err error)
	// Closed says that the log could not be opened: only [Notifier.Forked] is called.
	Closed bool
	// First is the time before the second attempt at a message. Each further wait is twice as long,
	// up to Most. 0: 1 s and 5 min.
	First, Most time.Duration
}

// Log is what endpoints are told of: a [ledger.Log].
type Log interface {
	// Wait returns when the log has size entries, or with the error of ctx.
	Wait(ctx context.Context, size uint64) error
	// Find returns the indexes of the entries that a query matches, in order.
	Find(q ledger.Query) ([]uint64, error)
	// Entry returns the entry at index.
	Entry(index uint64) (*entry.Registered, error)
	// Now returns the ledger's time, in Unix milliseconds.
	Now() int64
}

// Notifier tells endpoints of events.
type Notifier struct {
	cfg       Config
	endpoints []*follower
}

// follower takes one endpoint along the log.
type follower struct {
	*Notifier
	endpoint *Endpoint
	sink     sink
	place    cursor // where it stands
	kept     cursor // as the disk has it
	keptAt   time.Time
	triedAt  time.Time    // when the cursor was last to be kept
	due      atomic.Int64 // Unix milliseconds since when the endpoint has not taken a message; 0: it has
	stuck    atomic.Int64 // Unix milliseconds since when the log cannot be read, or the cursor not kept; 0: both went well
}

// New returns a notifier. It reads the secrets and the cursors. An endpoint without a cursor begins
// at the end of a log of the given size.
func New(c *Config, size uint64) (*Notifier, error) {
	n := &Notifier{cfg: *c}
	if n.cfg.Logger == nil {
		n.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if n.cfg.Failed == nil {
		n.cfg.Failed = func(error) {}
	}
	if n.cfg.First == 0 {
		n.cfg.First, n.cfg.Most = time.Second, 5*time.Minute
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	for i := range c.File.Endpoints {
		f := &follower{Notifier: n, endpoint: &c.File.Endpoints[i]}
		var err error
		if f.sink, err = newSink(f.endpoint); err != nil {
			return nil, fmt.Errorf("notify: endpoint %s: %w", f.endpoint.Name, err)
		}
		if f.place, err = n.load(f.endpoint.Name, size); err != nil {
			return nil, fmt.Errorf("notify: endpoint %s: %w", f.endpoint.Name, err)
		}
		if err := f.keep(); err != nil {
			return nil, fmt.Errorf("notify: endpoint %s: %w", f.endpoint.Name, err)
		}
		n.endpoints = append(n.endpoints, f)
	}
	return n, nil
}

// Run tells the endpoints until ctx ends. The error says that a cursor was not kept at the end:
// some messages come again.
func (n *Notifier) Run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(n.endpoints))
	for i, f := range n.endpoints {
		all.Go(func() {
			f.run(ctx)
			if err := f.keep(); err != nil {
				errs[i] = fmt.Errorf("notify: endpoint %s: %w", f.endpoint.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The shortest time between two looks at the log, which one commit follows the other without end,
// and the longest, after which files are looked at.
const (
	lookLeast = 5 * time.Millisecond
	lookMost  = time.Second
)

// Late returns, for each endpoint, how long the message has waited that the endpoint has not taken
// yet, or for how long the log cannot be read, or the cursor not be kept; 0: none waits.
func (n *Notifier) Late() map[string]time.Duration {
	late := map[string]time.Duration{}
	for _, f := range n.endpoints {
		late[f.endpoint.Name] = 0
		for _, since := range []int64{f.due.Load(), f.stuck.Load()} {
			if since > 0 {
				late[f.endpoint.Name] = max(late[f.endpoint.Name], time.Since(time.UnixMilli(since)))
			}
		}
	}
	return late
}

// run follows the log until ctx ends. Where the log cannot be read, it tries again. Where the
// cursor cannot be kept, it goes on: the disk may have room again, and a crash before sends
// messages again.
func (f *follower) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		read := f.pass(ctx)
		kept := f.keep()
		if ctx.Err() != nil {
			return
		}
		failures = f.note(errors.Join(read, kept), failures)
		switch {
		case read != nil:
			_ = f.pause(ctx, failures, 0) // the error is that of ctx
			continue
		case kept != nil:
			_ = sleep(ctx, keepEvery)
		}
		f.wait(ctx)
	}
}

// note shows how a round of the follower ended, behind so many failures. It returns their new
// number.
func (f *follower) note(err error, failures int) int {
	if err == nil {
		f.stuck.Store(0)
		if failures > 0 {
			f.cfg.Logger.Info("an endpoint is in time again", "endpoint", f.endpoint.Name, "attempts", failures+1)
		}
		return 0
	}
	failures++
	f.stuck.CompareAndSwap(0, time.Now().UnixMilli())
	if sometimes(failures) {
		f.cfg.Logger.Error("the log cannot be read for an endpoint, or its cursor cannot be kept; tried again",
			"endpoint", f.endpoint.Name, "attempt", failures, "error", err.Error())
	}
	return failures
}

// sometimes reports whether a failure is logged: the 1st, 2nd, 4th, 8th …
func sometimes(attempt int) bool { return attempt&(attempt-1) == 0 }

// pause waits behind a failed attempt, for least at any rate. Half of the time is drawn, so that
// endpoints and ledgers do not come all at once.
func (f *follower) pause(ctx context.Context, attempt int, least time.Duration) error {
	pause := f.cfg.First
	for range min(attempt-1, 32) {
		pause = min(2*pause, f.cfg.Most)
	}
	drawn := pause/2 + rand.N(pause/2+1) //nolint:gosec // spreads requests, keeps no secret
	return sleep(ctx, max(least, drawn))
}

// wait returns when the log has grown, or a file may have.
func (f *follower) wait(ctx context.Context) {
	long, cancel := context.WithTimeout(ctx, lookMost)
	defer cancel()
	if f.cfg.Log.Wait(long, f.place.Index+1) == nil {
		_ = sleep(ctx, lookLeast) // its error is that of ctx, as is that of Wait
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kinds are the kinds of entries that make events.
var kinds = []entry.Kind{entry.KindDecision, entry.KindRecord, entry.KindTask, entry.KindAgent, entry.KindRollout}

// findMost is the number of entries of a kind that are looked up at once.
const findMost = 1024

// pass tells the endpoint of everything up to the end of the log and of the files. The files are
// read even if the log cannot be.
func (f *follower) pass(ctx context.Context) error {
	err := f.entries(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f.cfg.Failed(err)
	}
	return errors.Join(err, f.files(ctx))
}

// entries tells the endpoint of the entries up to the end of the log.
func (f *follower) entries(ctx context.Context) error {
	for size := f.cfg.Replica.View().Size; f.place.Index < size; {
		indexes, end, err := f.find(size)
		if err != nil {
			return err
		}
		for _, index := range indexes {
			if err := f.entry(ctx, index); err != nil {
				return err
			}
		}
		f.place.Index = end
	}
	return nil
}

// find returns the indexes of the next entries that may make events, and the index up to which
// there are no others.
func (f *follower) find(size uint64) (indexes []uint64, end uint64, err error) {
	end = size
	for _, kind := range kinds {
		found, err := f.cfg.Log.Find(ledger.Query{Index: entry.ByKind, Value: string(kind), From: f.place.Index, To: size, Limit: findMost})
		if err != nil {
			return nil, 0, err
		}
		if len(found) == findMost {
			end = min(end, found[findMost-1]+1)
		}
		indexes = append(indexes, found...)
	}
	slices.Sort(indexes)
	behind, _ := slices.BinarySearch(indexes, end)
	return indexes[:behind], end, nil
}

// entry tells the endpoint of the events of an entry.
func (f *follower) entry(ctx context.Context, index uint64) error {
	e, err := f.cfg.Log.Entry(index)
	if err != nil {
		return err
	}
	var events []Event
	now := f.cfg.Log.Now()
	f.cfg.Replica.Read(func(s *coord.State) { events = eventsOf(e, s, f.cfg.Replica.Rules(), now) })
	for i := range events {
		if err := f.tell(ctx, &events[i]); err != nil {
			return err
		}
	}
	f.place.Index = index + 1
	f.keepAtTimes()
	return nil
}

// tell sends an event until the endpoint takes it. The error is that of ctx, or of an event that is
// no message.
func (f *follower) tell(ctx context.Context, v *Event) error {
	if !f.endpoint.wants(v) {
		return nil
	}
	body, err := v.Message(f.cfg.Origin)
	if err != nil {
		return err
	}
	m := &message{v.id(f.cfg.Origin), body}
	f.due.Store(time.Now().UnixMilli())
	defer f.due.Store(0)
	for attempt := 1; ; attempt++ {
		wait, err := f.try(ctx, m)
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if err == nil {
			if attempt > 1 {
				f.cfg.Logger.Info("an endpoint takes notifications again", "endpoint", f.endpoint.Name, "attempts", attempt)
			}
			f.place.sent = true
			return nil
		}
		if sometimes(attempt) {
			f.cfg.Logger.Warn("an endpoint did not take a notification", "endpoint", f.endpoint.Name, "id", m.id, "type", v.Type, "attempt", attempt, "error", err.Error())
		}
		if err := f.pause(ctx, attempt, wait); err != nil {
			return err
		}
	}
}

func (f *follower) try(ctx context.Context, m *message) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, f.endpoint.timeout())
	defer cancel()
	wait, err := f.sink.send(limited, m)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("no answer within %v (timeout_ms): %w", f.endpoint.timeout(), err)
	}
	return wait, err
}

// cursorPath returns the place of the cursor of an endpoint.
func (n *Notifier) cursorPath(name string) string { return filepath.Join(n.cfg.Dir, name+".json") }
