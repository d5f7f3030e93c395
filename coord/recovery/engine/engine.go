// Package engine takes cases through a policy. [Config.Recover] makes a [Trace] of one case: the
// decision about each failure, the rule behind the decision, and its result. A [Runtime] makes the
// attempts. [Recorded] looks the attempts up in the case, so that nothing is done.
//
// A [Batch] recovers the cases of a scenario. A [Tally] adds the traces up to a [Report], whose
// gates recommend to promote the policy or to reject it. A [Run] is a batch with a directory
// ([Dir]) that keeps traces and report. [Replay] decides the cases of a directory again and
// compares. A [Sweep] varies one number of the policy and finds where outcomes flip. [Diff]
// compares two reports.
//
// The same cases under the same policy, seed and runtime give the same bytes, whatever the number
// of workers.
package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Config says how cases are recovered.
type Config struct {
	// Policy decides. It does not change while a run is in flight.
	Policy *recovery.Policy
	// Runtime performs the attempts; nil: [Recorded].
	Runtime Runtime
	// External chooses actions in place of the policy's ladders; nil: the ladders decide. The
	// engine calls Notice from all workers when External gave no answer. Notice may be nil.
	External recovery.RecoveryStrategy
	Notice   func(error)
	// Strategies are the strategies that the policy's rules may name beside the built-in ones. A
	// named strategy that is missing here does not answer, and the ladder decides.
	Strategies []recovery.RecoveryStrategy
	// Seed gives the jitter of waits.
	Seed int64
	// Instance makes the idempotency keys of a live run; empty: there are none.
	Instance string
	// Pause lets the time of a wait pass; nil: waits are counted and not
	// waited for.
	Pause func(ctx context.Context, d time.Duration) error
	// Arms returns the rules that decide a case in place of Policy, and the arm of a rollout that
	// the case belongs to; nil: Policy decides, for no arm. All workers call it.
	Arms func(id string) recovery.Arms
	// Asked gets the history and the time of each decision before the decision; nil: no caller
	// asks. Asked must not keep or change the history.
	Asked func(h *recovery.History, now int64)

	traceOnly bool // nobody asks for the steps and attempts of [Recovery.Case]
}

// Recovery is the result of one case.
type Recovery struct {
	Trace Trace
	// Case is the case with the real attempts in place of the attempts that the case came with.
	// [Recorded] makes the same trace of this case again.
	Case scenario.Case
}

// actionsMax ends a case that no policy ends. No policy that loads comes near
// it.
const actionsMax = 100_000

// epoch is when every case begins, in the milliseconds of its own time.
const epoch = 1

// check refuses a case that the runtime cannot take to its end: one that names
// a tool or a model that a live run does not have.
func (c *Config) check(of *scenario.Case) *scenario.Error {
	if r, ok := c.Runtime.(checkingRuntime); ok {
		return r.Check(of)
	}
	return nil
}

// ReadCase reads a file that holds one case for [Config.Recover]. The name stands in errors, which
// are [*Error], except for errors of the reader.
func (c *Config) ReadCase(name string, r io.Reader) (scenario.Case, error) {
	return scenario.ReadCase(name, r, c.check)
}

// Recover takes a case through its steps. It answers each failure by the decision of the policy,
// until all steps are done or a person has to decide. An error is an error of the runtime; the case
// then has no result.
//
// A case recovers only if its recovery was seen. If a later step was never tried, the case
// escalates, unless the source allows skipping the step. If the source calls the case failed, this
// verdict is another failure at the end, unless an outcome model drew an attempt that the source
// did not see.
func (c *Config) Recover(ctx context.Context, of *scenario.Case) (Recovery, error) {
	c, arms := c.of(of.ID)
	r := recoverer{Config: c, arms: arms, c: of, runtime: c.Runtime, limits: c.Policy.Limits(), outputs: map[string]jsontext.Value{}}
	if r.runtime == nil {
		r.runtime = Recorded{}
	}
	r.t = Trace{V: formatVersion, Case: of.ID, Outcome: of.Outcome, Tags: of.Tags, Rungs: []Rung{}, Status: NoFailure, SafetyCritical: of.Risk.SafetyCritical}
	r.t.decidedBy(&arms)
	r.h = recovery.History{
		Case: of.ID, Seed: c.Seed, TaskType: of.TaskType, Intent: of.Intent, Risk: of.Risk.Level,
		SafetyCritical: of.Risk.SafetyCritical, Benign: of.Risk.Benign, Tags: of.Tags, Budget: of.Budget, StartedAt: epoch,
	}
	made := *of
	made.Steps = nil
	if !c.traceOnly {
		made.Steps = make([]scenario.Step, 0, len(of.Steps))
	}
	if c.Instance != "" {
		r.t.Outcome, made.Outcome = "", "" // the source's verdict is on another run
	}
	steps := of.Steps
	for i := 0; i < len(steps); i++ {
		r.step, r.made = &steps[i], steps[i]
		r.made.Attempts = nil
		err := r.run(ctx)
		if err != nil {
			return Recovery{}, fmt.Errorf("engine: case %s: step %s: %w", of.ID, r.step.ID, err)
		}
		r.collect(&made, &r.made)
		if r.t.Status == Escalated {
			r.skip(&made, steps[i+1:])
			break
		}
		// The steps after this one may go back to here.
		r.h.Checkpoint = r.h.Checkpoint || r.step.Checkpoint && r.made.Outcome != scenario.NotObserved
		if i == len(steps)-1 && r.t.Outcome == scenario.Failed && !r.t.Simulated {
			steps = append(slices.Clip(steps), of.VerdictStep(scenario.Failure{Label: scenario.UnknownLabel()}))
		}
	}
	r.t.Fallback = r.t.Fallback && r.t.Status == AutoRecovered
	if made.Answers = r.answers; r.External != nil && made.Answers == nil {
		made.Answers = []recovery.Action{} // no question was asked, and none is needed
	}
	return Recovery{Trace: r.t, Case: made}, nil
}

// recoverer is one case on its way.
type recoverer struct {
	*Config
	arms    recovery.Arms // the rules that decide, and those that decide beside
	c       *scenario.Case
	runtime Runtime
	limits  recovery.Limits
	t       Trace
	// h is the history that the policy sees; now is the time since the case
	// began: latencies as far as they are known, and waits. The clock is not
	// asked, so that a recorded case decides as the live one did.
	h       recovery.History
	now     int64
	outputs map[string]jsontext.Value
	answers []recovery.Action // of an external strategy, so far

	// Of the step that is at work: as it came, as it was made, the failure to
	// be answered, how many attempts were asked for, and how those went that
	// were made.
	step    *scenario.Step
	made    scenario.Step
	failure *scenario.Failure
	count   int
	past    []scenario.Variation
}

// skip notes the steps behind one that was given up.
func (r *recoverer) skip(made *scenario.Case, rest []scenario.Step) {
	for _, s := range rest {
		s.Attempt, s.Attempts = scenario.Attempt{Outcome: scenario.NotObserved}, nil
		r.collect(made, &s)
		r.t.Steps.Skipped++
	}
}

// collect takes a step up as it was made.
func (r *recoverer) collect(made *scenario.Case, s *scenario.Step) {
	if !r.traceOnly {
		made.Steps = append(made.Steps, *s)
	}
}

// run takes one step to its end.
func (r *recoverer) run(ctx context.Context) error {
	r.count, r.past = 0, r.past[:0]
	first, err := r.attempt(ctx, scenario.Variation{Model: r.step.Model})
	if err != nil {
		return err
	}
	first.Variation = scenario.Variation{Model: first.Model}
	r.made.Attempt = first
	switch first.Outcome {
	case scenario.OK:
		r.t.Steps.OK++
		return nil
	case scenario.Failed:
		return r.answer(ctx, &first)
	}
	r.made.Attempt = scenario.Attempt{Outcome: scenario.NotObserved}
	r.t.Steps.NotObserved++
	if r.t.Status != AutoRecovered || r.step.Conditional {
		return nil
	}
	_, err = r.act(ctx, recovery.Action{Strategy: recovery.Escalate, Severity: entry.SeverityError, Reason: recovery.ReasonNotObserved},
		recovery.Rule{ID: recovery.RuleRuntime, Rung: -1})
	return err
}

// attempt performs one attempt and accounts for it.
func (r *recoverer) attempt(ctx context.Context, w scenario.Variation) (scenario.Attempt, error) {
	q := scenario.Request{Case: r.c, Step: r.step, Variation: w, Attempt: r.count, Past: r.past, Failure: r.failure, Outputs: r.outputs}
	if r.Instance != "" {
		q.Key = idempotencyKey(r.Instance, r.c.ID, r.step.ID)
	}
	if deadline := r.deadline(); deadline > 0 {
		q.TimeLeftMS = max(1, deadline-r.now)
	}
	a, err := r.runtime.Attempt(ctx, q)
	if err != nil || a.Outcome != scenario.OK && a.Outcome != scenario.Failed {
		return scenario.Attempt{Variation: w, Outcome: scenario.NotObserved}, err
	}
	if w.Model == "" {
		w.Model = a.Model
	}
	a.Variation = w
	r.keep(&a)
	if q.Variation.Strategy != "" {
		r.past = append(r.past, q.Variation)
	}
	r.spend(&a)
	if a.Outcome == scenario.OK && len(a.Output) > 0 {
		r.outputs[r.step.ID] = a.Output
	}
	return a, nil
}

// deadline is the stricter of the policy's and the case's; 0: there is none.
func (r *recoverer) deadline() int64 {
	own := r.c.Budget.DeadlineMS
	if own == nil || r.limits.DeadlineMS > 0 && r.limits.DeadlineMS < *own {
		return r.limits.DeadlineMS
	}
	return *own
}

// keep leaves an attempt the payload that the case lets be kept.
func (r *recoverer) keep(a *scenario.Attempt) {
	switch {
	case !slices.Contains(r.c.Keep, scenario.KeepPayload):
		a.Payload = ""
	case a.Payload == "" && len(a.Output) <= scenario.PayloadMax && a.OutputDigest == entry.DigestOf(a.Output):
		a.Payload = string(a.Output)
	}
}

// citations are those of an attempt, if the case lets them be kept.
func (r *recoverer) citations(a *scenario.Attempt) []string {
	if !slices.Contains(r.c.Keep, scenario.KeepCitations) {
		return nil
	}
	return a.Citations
}

// spend adds up the cost of an attempt.
func (r *recoverer) spend(a *scenario.Attempt) {
	if a.CostMicroUSD != nil {
		r.t.CostMicroUSD += *a.CostMicroUSD
	} else {
		r.t.CostUnknown++
	}
	if a.LatencyMS != nil {
		r.now += *a.LatencyMS
	} else {
		r.t.LatencyUnknown++
	}
	for _, n := range []*int64{a.TokensIn, a.TokensOut} {
		if n != nil {
			r.t.Tokens += *n
		}
	}
	r.t.LatencyMS = r.now
	r.t.Simulated = r.t.Simulated || a.Simulated
	r.h.SpentMicroUSD, r.h.SpentTokens = r.t.CostMicroUSD, r.t.Tokens
}

// answer climbs the policy's ladders until the step succeeds or is given up.
func (r *recoverer) answer(ctx context.Context, first *scenario.Attempt) error {
	r.t.Steps.Failed++
	r.h.Step, r.h.Tool, r.h.Model = r.step.ID, r.step.Tool, first.Model
	r.h.Effect, r.h.Idempotent = r.step.Effect, r.step.Idempotent
	r.fail(first.Failure)
	if r.t.Class == "" {
		r.t.Class, r.t.Code = r.h.Effective()
	}
	for range actionsMax {
		if r.Asked != nil {
			r.Asked(&r.h, epoch+r.now)
		}
		if r.arms.Beside != nil {
			r.decideBeside(r.arms.Beside, r.t.Shadow)
		}
		if r.arms.Other != nil {
			r.decideBeside(r.arms.Other, r.t.Other)
		}
		action, rule, err := r.decide(ctx)
		if err != nil {
			return err
		}
		done, err := r.act(ctx, action, rule)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d actions without an end", errEndless, actionsMax)
}

var errEndless = errors.New("engine: the policy does not end")

// fail makes a failure the one to be answered.
func (r *recoverer) fail(f *scenario.Failure) {
	f = scenario.Relabel(f, r.Policy)
	r.failure = f
	r.h.Probe = ""
	r.h.Failure = recovery.Failure{
		Class: f.Class, Code: f.Code, Effects: f.Effects, ReplaySafety: f.ReplaySafety,
		RetryAfterMS: f.Raw.RetryAfterMS, Evidence: f.Evidence != "",
	}
}

// act carries the decision out, notes it, and reports whether the step is done.
func (r *recoverer) act(ctx context.Context, action recovery.Action, rule recovery.Rule) (done bool, err error) {
	if action.WaitMS > 0 {
		r.now += action.WaitMS
		r.t.LatencyMS = r.now
		if r.Pause != nil {
			if err := r.Pause(ctx, time.Duration(action.WaitMS)*time.Millisecond); err != nil {
				return false, err
			}
		}
	}
	var a scenario.Attempt
	result := recovery.ResultDecided
	switch {
	case action.Strategy == recovery.Wait:
		result = recovery.ResultOK
	case action.Strategy.Attempts(), action.Strategy == recovery.Reconcile:
		if action.Strategy.Attempts() {
			r.count++
		}
		if a, err = r.attempt(ctx, variationOf(action)); err != nil {
			return false, err
		}
		result = resultOf(action, &a)
	}
	rung := r.h.RungOf(action, rule, result)
	if cap(r.t.Rungs) == 0 {
		r.t.Rungs, r.h.Rungs = slices.Grow(r.t.Rungs, rungsUsual), slices.Grow(r.h.Rungs, rungsUsual)
	}
	r.note(&rung, action, &a)
	r.h.Rungs = append(r.h.Rungs, rung)
	if !r.traceOnly && (a.Outcome == scenario.OK || a.Outcome == scenario.Failed) {
		r.made.Attempts = append(r.made.Attempts, a)
	}
	switch {
	case action.Final():
		r.t.Status, r.t.Reason, r.t.Severity = Escalated, string(action.Reason), action.Severity
		if r.step.Effect == entry.EffectUndeclared && r.inDoubt(action.Reason) {
			r.t.Undeclared = r.step.ID
		}
		return true, nil
	case action.Strategy == recovery.Reconcile && result != recovery.ResultNotObserved:
		r.h.Probe = cmp.Or(a.Effects, entry.EffectsUnknown)
		done = a.Effects == entry.EffectsComplete && a.OutputDigest != "" // the result of the step was found
	case action.Strategy.Attempts() && result == recovery.ResultOK:
		done = true
	case result == recovery.ResultFailed && action.Strategy.Attempts():
		r.fail(a.Failure)
	}
	if done {
		r.t.Status = AutoRecovered
		r.t.Steps.Recovered++
		r.t.Fallback = r.t.Fallback || action.Strategy == recovery.FallbackModel
	}
	return done, nil
}

// inDoubt reports whether the step was given up because its effect stayed unknown.
func (r *recoverer) inDoubt(why recovery.Reason) bool {
	last := len(r.h.Rungs) - 1
	return why == recovery.ReasonEffectsUnknown ||
		last > 0 && r.h.Rungs[last-1].Strategy == recovery.Reconcile && r.h.Rungs[last-1].Result == recovery.ResultNotObserved
}

// resultOf returns the result of an attempt as the policy counts it.
func resultOf(action recovery.Action, a *scenario.Attempt) recovery.Result {
	switch {
	case a.Outcome == scenario.Failed:
		return recovery.ResultFailed
	case a.Outcome != scenario.OK:
		return recovery.ResultNotObserved
	case action.Verify && !a.Verified:
		return recovery.ResultUnverified
	}
	return recovery.ResultOK
}

// rungsUsual is for how many rungs of a case there is room at first.
const rungsUsual = 4

// note writes a rung of the trace.
func (r *recoverer) note(past *recovery.Rung, action recovery.Action, a *scenario.Attempt) {
	if action.Strategy.Attempts() && past.Result != recovery.ResultNotObserved {
		r.t.Attempts++
	}
	effects := r.failure.Effects
	if action.Strategy == recovery.Reconcile && a.Effects != "" {
		effects = a.Effects
	}
	r.t.Rungs = append(r.t.Rungs, Rung{
		Attempt: int64(r.count), Citations: r.citations(a), Class: past.Class, Code: past.Code, ConfidencePPM: a.ConfidencePPM, CostMicroUSD: a.CostMicroUSD,
		Effects: effects, LatencyMS: a.LatencyMS, Model: past.Model, OutputDigest: a.OutputDigest, Payload: a.Payload, Reason: string(action.Reason),
		Result: string(past.Result), ResultReason: a.Reason, Rule: past.Rule.ID, Severity: action.Severity, Simulated: a.Simulated,
		Step: r.step.ID, Strategy: string(past.Strategy), TokensIn: a.TokensIn, TokensOut: a.TokensOut, Variant: action.Variation(), WaitMS: action.WaitMS,
	})
}

// idempotencyKey is the same for all attempts of a step in one run.
func idempotencyKey(instance, id, step string) string {
	sum := sha256.Sum256([]byte(instance + "|" + id + "|" + step))
	return hex.EncodeToString(sum[:16])
}

// million is all of something in parts per million.
const million = 1_000_000
