package recovery

import (
	"strconv"

	"recoveryledger/ledger/entry"
)

// climb goes up a rule's ladder from where the history stands on it, to the
// first rung that may be taken.
func (d *decider) climb(r *rule) choice {
	at, times := d.position(r)
	var held Reason // why rungs were passed over, where that is more than how the ladder is written
	for ; at < len(r.rungs); at, times = at+1, 0 {
		rung := &r.rungs[at]
		c := choice{Action{Strategy: rung.Strategy, Variant: rung.Variant, Scope: rung.Scope, Severity: rung.severity,
			Question: rung.Question, Reason: ReasonLadder}, Rule{r.ID, at}}
		if rung.Strategy == Escalate {
			c.action.Reason = d.whyEscalate(at, held)
			d.noteRung(rung, at, "is the end of the ladder")
			return c
		}
		if most := d.times(rung); times >= most {
			d.noteRung(rung, at, "used ", strconv.FormatInt(times, 10), " of ", strconv.FormatInt(most, 10), " times")
			continue
		}
		if obstacle := d.obstacle(rung); obstacle != nil {
			d.noteRung(rung, at, "passed over: ", obstacle.why)
			if obstacle.err != nil {
				return escalation(r.ID, ReasonConditionError)
			}
			if obstacle.reason != "" {
				held = obstacle.reason
			}
			continue
		}
		if why := d.prepare(&c.action, rung, times); why != "" {
			d.noteRung(rung, at, "passed over: ", why)
			continue
		}
		if c.action.WaitMS > 0 && d.outlasts(c.action.WaitMS) {
			d.noteRung(rung, at, "passed over: its pause of ", strconv.FormatInt(c.action.WaitMS, 10), " ms outlasts the deadline")
			held = ReasonDeadlineExceeded
			continue
		}
		c.action.Verify = r.Verify && rung.Strategy.Attempts()
		d.noteRung(rung, at, "taken, ", strconv.FormatInt(times+1, 10), " of ", strconv.FormatInt(d.times(rung), 10))
		return d.limit(c)
	}
	return escalation(r.ID, d.whyEscalate(at, held)) // not reached: every ladder ends in escalate
}

// position returns where the step stands on a ladder, and how often it took
// that rung. It never goes back to a lower one.
func (d *decider) position(r *rule) (at int, times int64) {
	for i := range d.h.Rungs {
		past := &d.h.Rungs[i]
		if past.Step != d.h.Step || past.Rule.ID != r.ID || past.Rule.Rung < at {
			continue
		}
		if past.Rule.Rung > at {
			at, times = past.Rule.Rung, 0
		}
		times++
	}
	return at, times
}

// times is how often in a row a rung may be taken. A task's own number of
// retries counts for fail_reassign, but not after an interruption (TSK-1).
func (d *decider) times(r *rung) int64 {
	if r.Strategy == FailReassign && d.h.MaxRetries != nil && !interrupted(d.class, d.code) {
		return min(*d.h.MaxRetries, timesMax)
	}
	return max(r.Max, 1)
}

// obstacle is why a rung is passed over.
type obstacle struct {
	why    string
	reason Reason // for the escalation, if nothing else is left
	err    error  // of a condition
}

// obstacle returns the obstacle to a rung whatever its parameters; nil if there is
// none.
func (d *decider) obstacle(r *rung) *obstacle {
	switch {
	case r.Enabled != nil && !*r.Enabled:
		return &obstacle{why: "the policy does not enable it"}
	case r.Strategy == FallbackModel && d.used.safety:
		return &obstacle{why: "a fallback model must never take a safety failure"}
	case (r.Strategy == CheckpointResume || r.Strategy == StateReset && r.Scope.needsCheckpoint()) && !d.h.Checkpoint:
		return &obstacle{why: "there is no usable checkpoint"}
	case r.Strategy == Reconcile && (d.h.Probe != "" || d.used.last != nil && d.used.last.Strategy == Reconcile):
		return &obstacle{why: "reconciled already"}
	case r.Strategy == Quarantine && d.used.quarantined, r.Strategy == Abort && d.used.aborted:
		return &obstacle{why: "done already"}
	}
	if why := d.repeatsEffect(r); why != "" {
		return &obstacle{why: why, reason: ReasonEffectsComplete}
	}
	holds, err := r.when.holds(d)
	if err != nil {
		return &obstacle{why: "its condition cannot be evaluated: " + err.Error(), err: err}
	}
	if !holds {
		return &obstacle{why: "its condition does not hold"}
	}
	return nil
}

// needsCheckpoint reports whether a reset of that scope restores a checkpoint.
func (s Scope) needsCheckpoint() bool { return s == ScopeProgress || s == ScopeVerified }

// repeatsEffect returns the obstacle to a rung if an effect took place or may have
// taken place: an irrevocable effect cannot be taken back, and another execution would
// add a second effect.
func (d *decider) repeatsEffect(r *rung) string {
	if d.effects == entry.EffectsNone {
		return ""
	}
	if r.Strategy == Rollback || r.Strategy == StateReset && r.Scope != ScopeContext {
		switch declared(d.h.Effect) {
		case entry.EffectNone, entry.EffectReversible:
			return ""
		case entry.EffectCompensable:
			if r.Strategy == Rollback {
				return ""
			}
			return "the effect is not undone by restoring a state"
		}
		return "a rollback must not go past an effect that cannot be undone"
	}
	if r.Strategy.Attempts() && !d.idempotent {
		return "the effect took place, and executing again would add another"
	}
	return ""
}

// prepare adds model and pause to an action. It returns a reason if the rung cannot be taken.
func (d *decider) prepare(a *Action, r *rung, times int64) string {
	switch {
	case r.Strategy == Wait:
		a.WaitMS = max(r.MinMS, d.retryAfter())
		if a.WaitMS > r.MaxMS {
			return "the server asks for a longer pause than the policy allows"
		}
		return ""
	case r.Strategy == FallbackModel:
		m := d.nextModel(r)
		if m == nil {
			return "no model is left"
		}
		a.Model = m.Name
	case r.Strategy.Attempts():
		a.Model = d.used.model
	default:
		return ""
	}
	return d.pause(a, r, times)
}

// pause sets how long to wait before an attempt. Another model is not bound by
// the pause that a server asked for, nor is one that was waited for already.
func (d *decider) pause(a *Action, r *rung, times int64) string {
	if d.used.last != nil && d.used.last.Strategy == Wait {
		return ""
	}
	a.WaitMS = d.backoff(r.Backoff, times)
	if r.Strategy == FallbackModel {
		return ""
	}
	asked := d.retryAfter()
	if r.Backoff != nil && asked > r.Backoff.MaxMS {
		return "the server asks for a longer pause than the policy allows"
	}
	a.WaitMS = max(a.WaitMS, asked)
	return ""
}

// backoff is the pause before an attempt that was made a number of times.
func (d *decider) backoff(b *backoffDoc, times int64) int64 {
	if b == nil {
		return 0
	}
	pause := min(b.BaseMS, b.MaxMS)
	for ; times > 0 && pause < b.MaxMS; times-- {
		pause = min(pause*b.Factor, b.MaxMS)
	}
	if span := uint64(pause * b.JitterPPM / million); span > 0 {
		pause -= int64(Draw(d.h.Seed, "backoff", d.h.Case, d.used.attempts, d.h.Epoch) % (span + 1))
	}
	return pause
}

const million = 1_000_000

func (d *decider) retryAfter() int64 {
	if d.h.Failure.RetryAfterMS == nil {
		return 0
	}
	return max(*d.h.Failure.RetryAfterMS, 0)
}

// nextModel is the first link of the chain that the step did not run on yet and
// that the rung asks for; after a budget failure never a dearer one.
func (d *decider) nextModel(r *rung) *Model {
	for i := range d.p.doc.Models {
		if m := &d.p.doc.Models[i]; d.modelSuits(r, m) {
			return m
		}
	}
	return nil
}

// modelSuits reports whether the step may go to a model.
func (d *decider) modelSuits(r *rung, m *Model) bool {
	current := model(d.p.doc.Models, d.used.model)
	switch {
	case d.ranOn(m.Name),
		r.Account != "" && current != nil && m.Account == current.Account,
		r.Context != "" && current != nil && m.ContextTokens <= current.ContextTokens,
		d.used.budget && (current == nil || m.InputPrice > current.InputPrice || m.OutputPrice > current.OutputPrice):
		return false
	}
	return true
}

func model(models []Model, name string) *Model {
	for i := range models {
		if models[i].Name == name {
			return &models[i]
		}
	}
	return nil
}

// ranOn reports whether the step was executed on a model.
func (d *decider) ranOn(name string) bool {
	if name == d.h.Model {
		return true
	}
	for i := range d.h.Rungs {
		if d.h.Rungs[i].Step == d.h.Step && d.h.Rungs[i].Model == name {
			return true
		}
	}
	return false
}

// limit lets an action pass that stays within the limits, or escalates.
func (d *decider) limit(c choice) choice {
	if reason := d.exceeded(&c.action); reason != "" {
		d.note("limits", "", string(reason))
		return escalation(RuleLimits, reason)
	}
	d.note("limits", "", "kept: ", strconv.FormatInt(d.used.attempts, 10), " of ",
		strconv.FormatInt(stricter(d.p.doc.Limits.Attempts, d.h.Budget.Attempts), 10), " attempts used before this")
	return c
}

// exceeded returns which limit an action would break, if any.
func (d *decider) exceeded(a *Action) Reason {
	if !a.Strategy.Attempts() && a.Strategy != Wait {
		return ""
	}
	limits, own := &d.p.doc.Limits, &d.h.Budget
	switch {
	case d.outlasts(a.WaitMS):
		return ReasonDeadlineExceeded
	case a.Strategy == Wait:
		return ""
	case d.used.attempts >= stricter(limits.Attempts, own.Attempts) && !interrupted(d.class, d.code):
		return ReasonAttemptsExhausted
	case d.h.SpentMicroUSD >= stricter(limits.CostMicroUSD, own.CostMicroUSD):
		return ReasonCostExhausted
	case d.h.SpentTokens >= stricter(limits.Tokens, own.Tokens):
		return ReasonTokensExhausted
	}
	return ""
}

// outlasts reports whether the deadline is over after a pause.
func (d *decider) outlasts(pause int64) bool {
	return d.elapsed() >= stricter(d.p.doc.Limits.DeadlineMS, d.h.Budget.DeadlineMS)-pause
}

// elapsed is the age of the case; 0 if its beginning is not known.
func (d *decider) elapsed() int64 {
	if d.h.StartedAt <= 0 {
		return 0
	}
	return max(d.now-d.h.StartedAt, 0)
}

func stricter(limit int64, own *int64) int64 {
	if own == nil {
		return limit
	}
	return min(limit, *own)
}

// whyEscalate is the reason to give at the end of a ladder.
func (d *decider) whyEscalate(at int, held Reason) Reason {
	if last := d.used.last; last != nil {
		switch {
		case last.Result == ResultUnverified:
			return ReasonUnverified
		case last.Strategy == Quarantine:
			return ReasonAfterQuarantine
		case last.Strategy == Abort:
			return ReasonAfterAbort
		case last.Strategy == Rollback:
			return ReasonAfterRollback
		}
	}
	switch {
	case held != "":
		return held
	case at == 0:
		return ReasonRule
	}
	return ReasonLadderExhausted
}

func (d *decider) noteRung(r *rung, at int, finding ...string) {
	if d.steps != nil {
		d.note("rung", strconv.Itoa(at)+" "+r.String(), finding...)
	}
}
