package worker

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// arms are the rules that decide the task: those in force, or those of an arm of a rollout.
type arms struct {
	recovery.Arms
	inForce  *recovery.Policy
	rollouts rollout.Follower
	// fixed says that an arm has decided. What is under way ends under its own policy.
	fixed bool
}

// follow reads the policies and rollouts that the log has since. It does not prove that the server
// left none out: a server that does so hides the rollout, and the rules in force decide.
func (a *arms) follow(ctx context.Context, c *Config) error {
	q := api.ListQuery{Kinds: []entry.Kind{entry.KindPolicy, entry.KindRollout}, From: a.rollouts.Next()}
	return a.rollouts.Read(func(yield func(*entry.Registered, error) bool) {
		for e, err := range c.Client.Entries(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e.Registered, nil) {
				return
			}
		}
	})
}

// choose has the rules of the task's arm decide.
func (w *Worker) choose(of recovery.Arms) (err error) {
	w.arms.Arms = of
	if w.Strategies != nil {
		w.strategies, err = w.Strategies(of.Rules)
	}
	return err
}

// decided has the candidate of a shadow decide beside, and fixes the arm of the task.
func (w *Worker) decided(h *recovery.History, now int64) {
	w.arms.fixed = w.arms.Arm != ""
	if w.arms.Beside == nil {
		return
	}
	d := recovery.Choose(h, w.arms.Beside, now) // a strategy that is a program is not asked: nothing is done
	w.shadow.tried(h, &d, recovery.ResultDecided)
}
