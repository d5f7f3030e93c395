package rollouts

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// lookPause is how long a live run goes on by what it knows of the rollout.
const lookPause = time.Second

// receipts lists the entries of a kind. Registries implement it.
type receipts interface {
	Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error]
}

// obedience follows a rollout for a live run.
type obedience struct {
	reg  receipts
	run  *engine.Run
	say  func(error)
	name string // of the rollout that the run began with

	mu     sync.Mutex
	fold   rollout.Fold
	looked time.Time
	away   bool // the ledger did not answer
}

// Obey has a live run obey the rollout that is under way in the ledger that the run is recorded in,
// if the rules of the run are the baseline. The run obeys no rollout that begins later. When the
// rollout ends, or the ledger does not answer, the rules of the run decide, for no arm. A run that
// is resumed obeys the rollout that it began with. say gets the errors of the ledger.
func Obey(ctx context.Context, reg receipts, run *engine.Run, resumed string, say func(error)) error {
	o := &obedience{reg: reg, run: run, say: say}
	if err := o.look(ctx); err != nil {
		return err
	}
	now := o.fold.Current()
	underWay := now != nil && o.fold.Of(run.Policy, "").Arm != ""
	if underWay {
		o.name, run.Candidate = now.Name, now.Compiled()
	}
	if resumed != "" {
		before, err := engine.ReadRun(resumed)
		if err != nil {
			return err
		}
		if before.Candidate == nil {
			run.Candidate = nil
			return nil
		}
		candidate, err := recovery.FromEntry(&entry.Policy{Recovery: before.Candidate})
		if err != nil {
			return err
		}
		if run.Candidate == nil || candidate.Hash() != run.Candidate.Hash() {
			o.name = "" // the rollout is over
		}
		run.Candidate = candidate
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
	if now := o.fold.Current(); o.away || now == nil || now.Name != o.name {
		return recovery.Arms{Rules: o.run.Policy}
	}
	return o.fold.Of(o.run.Policy, id)
}

// look reads the policies and rollouts of the log.
func (o *obedience) look(ctx context.Context) error {
	o.looked = time.Now()
	var all []entry.Registered
	for _, kind := range []entry.Kind{entry.KindRollout, entry.KindPolicy} {
		for receipt, err := range o.reg.Receipts(ctx, entry.ByKind, string(kind)) {
			if err != nil {
				return err
			}
			e, at, err := entry.DecodeLeaf(receipt.Leaf)
			if err != nil {
				return err
			}
			all = append(all, entry.Registered{Entry: e, Index: receipt.Index, RegisteredAt: at})
		}
	}
	slices.SortFunc(all, func(a, b entry.Registered) int { return cmp.Compare(a.Index, b.Index) })
	var fold rollout.Fold
	for i := range all {
		if err := fold.Follow(&all[i]); err != nil {
			return err
		}
	}
	o.fold = fold
	return nil
}
