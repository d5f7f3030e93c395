package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// External is a strategy that chooses actions in place of the policy's ladders.
// Effect gate, guards and limits of the policy bind it, see [recovery.Admit].
// Its answers are input: they are recorded with the case, and a replay takes
// them from there instead of asking again.
type External interface {
	// Choose returns what to do about the failure that the history ends with.
	// An error is no answer: the case escalates.
	Choose(ctx context.Context, q Question) (recovery.Action, error)
}

// Question is what an external strategy is asked.
type Question struct {
	History *recovery.History `json:"history"`
	// ElapsedMS is the time since the case began, as it counts for limits.
	ElapsedMS int64 `json:"elapsed_ms"`
}

// Command is an external strategy that is a program: a question as JSON on its
// standard input, an action as JSON on its standard output. It is started anew
// for every question.
type Command struct {
	Argv []string
	// Timeout is how long an answer may take; 0: 30 seconds.
	Timeout time.Duration
}

// Choose implements [External].
func (c *Command) Choose(ctx context.Context, q Question) (recovery.Action, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	question, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return recovery.Action{}, fmt.Errorf("run: encode question: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	stdout, stderr := limitedBuffer{limit: answerMax}, limitedBuffer{limit: textMax}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(question, '\n')), &stdout, &stderr
	ownGroup(cmd)
	cmd.WaitDelay = processGrace
	if err := cmd.Run(); err != nil && !stdout.over && !errors.Is(err, exec.ErrWaitDelay) {
		return recovery.Action{}, fmt.Errorf("run: strategy %s: %w: %s", c.Argv[0], err, stderr.text)
	}
	return decodeAnswer(stdout.text, stdout.over)
}

// decodeAnswer reads an action, and nothing else.
func decodeAnswer(text []byte, over bool) (recovery.Action, error) {
	var a recovery.Action
	if over {
		return a, fmt.Errorf("run: strategy answers more than %d bytes", answerMax)
	}
	if err := json.Unmarshal(text, &a, json.RejectUnknownMembers(true)); err != nil {
		return recovery.Action{}, fmt.Errorf("run: strategy answers no action: %w", notScenario(err))
	}
	if wrong := checkAction(&a); wrong != nil {
		return recovery.Action{}, fmt.Errorf("run: strategy answers no action: %w", wrong)
	}
	return a, nil
}

// checkAction refuses what is no action.
func checkAction(a *recovery.Action) *Error {
	wrong := firstOf(
		oneOf(texts(recovery.Strategies())...)("/strategy", string(a.Strategy)),
		optional("/variant", string(a.Variant), oneOf(texts(recovery.Variants())...)),
		optional("/scope", string(a.Scope), oneOf(texts(recovery.Scopes())...)),
		optional("/model", a.Model, checkName), checkCount("/wait_ms", &a.WaitMS), optional("/reason", string(a.Reason), checkWord),
		optional("/severity", string(a.Severity), oneOf(string(entry.SeverityInfo), string(entry.SeverityWarning), string(entry.SeverityError), string(entry.SeverityCritical))))
	switch {
	case wrong != nil:
		return wrong
	case (a.Variant != "") != (a.Strategy == recovery.RetryAltered):
		return malformed("/variant", fmt.Sprintf("is %q with the strategy %s", a.Variant, a.Strategy), "write it with retry_altered, and only there")
	case (a.Scope != "") != (a.Strategy == recovery.StateReset):
		return malformed("/scope", fmt.Sprintf("is %q with the strategy %s", a.Scope, a.Strategy), "write it with state_reset, and only there")
	}
	return nil
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

// decide returns what to do next: what the policy decides, or, within what it
// allows, what the external strategy or the record of one chooses.
func (r *recoverer) decide(ctx context.Context) (recovery.Action, recovery.Rule, error) {
	now := epoch + r.now
	if r.External == nil && r.c.Answers == nil {
		action, rule := recovery.Decide(&r.h, r.Policy, now)
		return action, rule, nil
	}
	if action, rule, settled := recovery.Settled(&r.h, r.Policy, now); settled {
		return action, rule, nil
	}
	answer, err := r.choose(ctx)
	action, rule := recovery.Admit(&r.h, r.Policy, now, answer)
	return action, rule, err
}

// choose asks the strategy, or its record where there is one.
func (r *recoverer) choose(ctx context.Context) (recovery.Action, error) {
	none := recovery.Action{Strategy: recovery.Escalate, Reason: recovery.ReasonStrategyFailed}
	if r.External == nil {
		if len(r.answers) == len(r.c.Answers) {
			return recovery.Action{Strategy: recovery.Escalate, Reason: recovery.ReasonNotObserved}, nil
		}
		r.answers = r.c.Answers[:len(r.answers)+1]
		return r.answers[len(r.answers)-1], nil
	}
	answer := none
	if len(r.answers) < answersMax-1 { // the last one ends the case
		got, err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return none, ctx.Err()
		case err == nil:
			answer = got
		case r.Notice != nil:
			r.Notice(fmt.Errorf("case %s: %w", r.c.ID, err))
		}
	}
	r.answers = append(slices.Clip(r.answers), answer)
	return answer, nil
}

// ask takes an answer that is an action.
func (r *recoverer) ask(ctx context.Context) (recovery.Action, error) {
	a, err := r.External.Choose(ctx, Question{&r.h, r.now})
	if err != nil {
		return a, err
	}
	if wrong := checkAction(&a); wrong != nil {
		return a, wrong
	}
	return a, nil
}
