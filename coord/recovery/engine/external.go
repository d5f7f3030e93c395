package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// decide returns the next action. The policy decides, or a strategy or its record chooses within
// the policy. The strategy is that of the whole run, or the strategy that the policy's rule names.
func (r *recoverer) decide(ctx context.Context) (recovery.Action, recovery.Rule, error) {
	now := epoch + r.now
	if action, rule, settled := recovery.Settled(&r.h, r.Policy, now); settled {
		return action, rule, nil
	}
	about := r.Policy.Asks(&r.h, now)
	switch {
	case r.External != nil, r.c.Answers != nil && !r.Policy.Names():
		answer, _, err := r.choose(ctx, func() (recovery.Action, error) { return r.ask(ctx) })
		action, rule := recovery.Admit(&r.h, r.Policy, now, answer)
		return action, rule, err
	case about != nil:
		answer, failed, err := r.choose(ctx, func() (recovery.Action, error) { return r.askNamed(ctx, about) })
		d := recovery.Decision{Asked: about.Name, Answer: answer, Failed: failed}
		d.Answered(&r.h, r.Policy, now)
		return d.Action, d.Rule, err
	}
	action, rule := recovery.Decide(&r.h, r.Policy, now)
	return action, rule, nil
}

// noAnswer stands in the record for an answer that was none, with why.
func noAnswer(why recovery.Reason) recovery.Action {
	return recovery.Action{Strategy: recovery.Escalate, Reason: why}
}

// failedBy returns why an answer does not count; nil: the answer counts. An answer that equals the
// mark of no answer does not count, so that the record decides as the strategy did.
func failedBy(answer recovery.Action) error {
	switch answer {
	case noAnswer(recovery.ReasonStrategyFailed):
		return errNoAnswer
	case noAnswer(recovery.ReasonStrategyMissing):
		return recovery.ErrNotRegistered
	}
	return nil
}

// choose asks, or takes the answer from the record where there is one. failed is
// that there was no answer.
func (r *recoverer) choose(ctx context.Context, ask func() (recovery.Action, error)) (answer recovery.Action, failed, err error) {
	if r.External == nil && r.c.Answers != nil {
		if len(r.answers) == len(r.c.Answers) {
			return recovery.Action{Strategy: recovery.Escalate, Reason: recovery.ReasonNotObserved}, nil, nil
		}
		r.answers = r.c.Answers[:len(r.answers)+1]
		answer = r.answers[len(r.answers)-1]
		return answer, failedBy(answer), nil
	}
	answer = noAnswer(recovery.ReasonStrategyFailed)
	if len(r.answers) < scenario.AnswersMax-1 { // the last one ends the case
		got, err := ask()
		switch {
		case ctx.Err() != nil:
			return answer, err, ctx.Err()
		case err == nil:
			answer = got
		case errors.Is(err, recovery.ErrNotRegistered):
			answer = noAnswer(recovery.ReasonStrategyMissing)
		}
		if err != nil && r.Notice != nil && !errors.Is(err, recovery.ErrNotRegistered) { // which the report tells once
			r.Notice(fmt.Errorf("case %s: %w", r.c.ID, err))
		}
	}
	r.answers = append(slices.Clip(r.answers), answer)
	return answer, failedBy(answer), nil
}

// errNoAnswer stands in for the reason why a strategy did not answer. The record does not have that
// reason.
var errNoAnswer = errors.New("engine: the strategy did not answer")

// ask takes an answer of the strategy of the whole run that is an action.
func (r *recoverer) ask(ctx context.Context) (recovery.Action, error) {
	a, err := r.External.Recover(ctx, recovery.Case{History: &r.h, ElapsedMS: r.now})
	if err != nil {
		return a, err
	}
	return a, a.Check()
}

// askNamed takes one of the strategy that the policy names.
func (r *recoverer) askNamed(ctx context.Context, about *recovery.About) (recovery.Action, error) {
	return recovery.Ask(ctx, recovery.Case{History: &r.h, ElapsedMS: r.now}, about, r.Strategies)
}
