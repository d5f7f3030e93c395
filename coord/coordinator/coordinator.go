package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Log is the part of the ledger that the coordinator writes to.
type Log interface {
	// Submit registers entries in order and without another entry between them. taken is how many
	// it registered: a crash leaves all of these or none. The error is a [*entry.Refusal] if the
	// ledger refuses the entry after these. Any other error ends the coordinator.
	Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error)
	// Wait returns when the log has at least size entries, or with the error of
	// ctx.
	Wait(ctx context.Context, size uint64) error
	// Now is the ledger's clock, in Unix milliseconds.
	Now() int64
}

// Coordinator decides. Its loop asks [coord.State.Next], [coord.State.Route] and
// [Leases.Lost] what to write, signs the entries and submits them. After a restart, a coordinator
// continues from the log alone.
type Coordinator struct {
	Replica   *Replica
	Log       Log
	Principal entry.Principal          // issuer of the entries; it has the role coordinator
	Seal      func(*entry.Entry) error // signs an entry with a key of Principal
	NewID     func() string            // a new UUID in lower case, for each entry; nil: random ones
	// Has, if not nil, reports whether the log has an entry with the issuer and the jti of a
	// header. It saves the signatures of what was decided before a restart.
	Has func(*entry.Header) (bool, error)
	// Silent, if not nil, is called after the coordinator wrote an entry because no approver
	// answered in time. Such an entry denies an incident or drops a proposed amend.
	Silent func(coord.Silence)
	// Refused, if not nil, is called with an entry that the ledger refused although the log
	// had not grown since the draft, but for an entry of the same submission. If the log has
	// grown, the refusal is no news: the coordinator drafts again. A decision beyond the limits is
	// told also if others let the log grow, since they may always do so.
	Refused func(entry.Body, *entry.Refusal)

	decided decisions
}

// pauseMS is the longest wait after a refusal, in milliseconds, if the log does not grow.
const pauseMS = 1_000

// Run writes until ctx ends or the log fails.
func (k *Coordinator) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		size, wake, err := k.Step(ctx)
		if err == nil {
			err = k.wait(ctx, size+1, wake)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("coordinator: %w", err)
		}
	}
	return nil
}

// Step writes every entry that is due now. It returns the size of the log that it has
// seen. wake is the instant, in Unix milliseconds, at which more entries may be due even if
// the log does not grow.
func (k *Coordinator) Step(ctx context.Context) (size uint64, wake int64, err error) {
	if k.decided == nil {
		k.decided = decisions{}
	}
	defer func() {
		if err != nil { // nobody knows which decisions the log has
			k.decided = nil
		}
	}()
	for {
		now, todo, silences, decided, open := k.Log.Now(), []entry.Body(nil), map[entry.Body]coord.Silence{}, map[entry.Body]*decision{}, []*decision(nil)
		lost, wait := k.Replica.leases.Lost()
		k.Replica.Read(func(s *coord.State) {
			size = s.Size()
			var tasks []entry.Body
			var due int64
			todo, wake = s.Next(now)
			tasks, due = s.Route(now, k.Replica.Rules())
			todo, wake = slices.Concat(todo, tasks, s.Losses(lost, now)), min(wake, due)
			for _, body := range todo {
				if of, silent := s.SilenceOf(body, now); silent {
					silences[body] = of
				}
				decided[body] = k.decided.of(s, body, now, k.Replica.Rules())
			}
			open = k.decided.open(s, todo, now, k.Replica.Rules())
		})
		if wait >= 0 {
			wake = min(wake, now+wait.Milliseconds()+1)
		}
		written := false
		for _, body := range todo {
			batch := []entry.Body{body}
			if d := decided[body]; d != nil {
				batch = append(batch, d.entries...)
			}
			done, err := k.write(ctx, now, batch...)
			refusal, refused := errors.AsType[*entry.Refusal](err)
			switch {
			case refused && k.Refused != nil && (done > 0 || !written && (k.Replica.View().Size == size || refusal.Problem == entry.ScopeExceedsPolicy)):
				k.Refused(batch[done], refusal)
			case !refused && err != nil:
				return size, wake, err
			}
			if of, silent := silences[body]; silent && done > 0 && k.Silent != nil {
				k.Silent(of)
			}
			written = written || done > 0
		}
		recorded, refused, err := k.record(ctx, now, open, size)
		if err != nil {
			return size, wake, err
		}
		if written = written || recorded && !refused; !written { // a refusal that repeats waits for the pause
			if len(todo) > 0 || refused {
				wake = min(wake, now+pauseMS)
			}
			return size, wake, nil
		}
	}
}

// write completes, signs and submits entries, see [Coordinator.submit].
func (k *Coordinator) write(ctx context.Context, now int64, bodies ...entry.Body) (done int, err error) {
	batch, err := k.sealed(now, bodies)
	if err != nil {
		return 0, err
	}
	return k.submit(ctx, batch)
}

// sealed completes and signs entries.
func (k *Coordinator) sealed(now int64, bodies []entry.Body) ([]*entry.Entry, error) {
	batch := make([]*entry.Entry, len(bodies))
	for i, body := range bodies {
		h := entry.HeaderOf(body)
		var err error
		if h.JTI == "" {
			if h.JTI, err = k.newID(); err != nil {
				return nil, err
			}
		}
		h.Iss, h.Aud, h.Iat = k.Principal, k.Replica.origin, now/1000
		if batch[i], err = entry.New(body); err != nil {
			return nil, err
		}
		if err := k.Seal(batch[i]); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// submit registers entries up to the first that the ledger refuses, and returns how many the log
// has then. An attempt whose id the log has is none that the ledger refuses: a coordinator wrote
// the attempt before it restarted.
func (k *Coordinator) submit(ctx context.Context, batch []*entry.Entry) (done int, err error) {
	for done < len(batch) {
		taken, err := k.Log.Submit(ctx, batch[done:]...)
		if done += taken; err == nil {
			break
		}
		refusal, refused := errors.AsType[*entry.Refusal](err)
		if !refused || refusal.Problem != entry.IDConflict || batch[done].Kind != entry.KindAttempt {
			return done, err
		}
		done++
	}
	return done, nil
}

func (k *Coordinator) newID() (string, error) {
	if k.NewID != nil {
		return k.NewID(), nil
	}
	id, err := uuid.NewV7()
	return id.String(), err
}

// wait returns when the log has size entries, or at the instant until.
func (k *Coordinator) wait(ctx context.Context, size uint64, until int64) error {
	timed, cancel := ctx, context.CancelFunc(func() {})
	if until < math.MaxInt64 {
		ms := min(max(1, until-k.Log.Now()), time.Hour.Milliseconds()) // a distant instant overflows a duration
		timed, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	}
	defer cancel()
	err := k.Log.Wait(timed, size)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}
