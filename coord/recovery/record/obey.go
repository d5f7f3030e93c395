package record

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// lookPause is how long a live run goes on by what it knows of the rollout.
const lookPause = time.Second

// obedience follows a rollout for a live run.
type obedience struct {
	reg receipts
	run *engine.Run
	say func(error)

	mu       sync.Mutex
	rollouts rollout.Follower
	looked   time.Time
	away     bool // the ledger did not answer, and say was told
}

// Obey has a live run obey the rollout that is under way in the ledger that the run is recorded in,
// if the rules of the run are the baseline. The run obeys no rollout that begins later. When the
// rollout ends, or the ledger does not answer, the rules of the run decide, for no arm. A run that
// is resumed obeys the rollout that it began with. say gets the errors of the ledger. A run that is
// not live obeys no rollout: what it decides has no effect.
func Obey(ctx context.Context, reg receipts, run *engine.Run, resumed string, say func(error)) error {
	if run.Mode != engine.ModeLive {
		return nil
	}
	o := &obedience{reg: reg, run: run, say: say}
	if err := o.look(ctx); err != nil {
		return err
	}
	run.Candidate = o.rollouts.Bind(run.Policy)
	if resumed != "" {
		before, err := engine.ReadRun(resumed)
		if err != nil {
			return err
		}
		if before.Candidate == nil {
			run.Candidate = nil
			return nil
		}
		if run.Candidate, err = recovery.FromEntry(&entry.Policy{Recovery: before.Candidate}); err != nil {
			return err
		}
		o.rollouts.Rebind(run.Policy, run.Candidate)
	}
	if run.Candidate != nil {
		run.Arms = func(id string) recovery.Arms { return o.arms(ctx, id) }
	}
	return nil
}

// arms returns the arm of a case, by the log of at most [lookPause] ago.
func (o *obedience) arms(ctx context.Context, id string) recovery.Arms {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.looked) >= lookPause {
		err := o.look(ctx)
		if err != nil && !o.away {
			o.say(err)
		}
		o.away = err != nil
	}
	return o.rollouts.Of(o.run.Policy, id)
}

// look reads the policies and rollouts of the log. It reads all of them anew: an entry may be
// registered between the two lists, and stand before entries that this look has seen.
func (o *obedience) look(ctx context.Context) error {
	o.looked = time.Now()
	all, err := o.list(ctx)
	if err != nil {
		o.rollouts.Lose()
		return err
	}
	return o.rollouts.Reread(all)
}

// list returns the policies and rollouts of the log, in their order.
func (o *obedience) list(ctx context.Context) (all []entry.Registered, err error) {
	for _, kind := range []entry.Kind{entry.KindRollout, entry.KindPolicy} {
		for e, err := range registered(ctx, o.reg, entry.ByKind, string(kind)) {
			if err != nil {
				return nil, err
			}
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b entry.Registered) int { return cmp.Compare(a.Index, b.Index) })
	return all, nil
}
