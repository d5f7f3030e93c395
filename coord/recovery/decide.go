package recovery

import (
	"slices"
	"strconv"
	"strings"

	"recoveryledger/ledger/entry"
)

// Decide returns the action for the failure with which a history ends, and the place in
// the policy that it comes from. now is in Unix milliseconds.
//
// Call it after every failure, and after every action that is not an attempt (wait,
// reconcile, rollback, quarantine, abort), each time with that action appended to the
// history's rungs, see [History.RungOf]. Repeated like this, it escalates after a
// number of calls that the policy bounds.
func Decide(h *History, p *Policy, now int64) (Action, Rule) {
	d := newDecider(h, p, now)
	c := d.decide()
	return c.action, c.rule
}

// Step is one step of the reasoning behind a decision.
type Step struct {
	// Stage is failure, runtime, gate, guard, rule, rung, limits or result.
	Stage string `json:"stage"`
	// Name is the guard, rule or rung that the step looks at, if any.
	Name string `json:"name,omitzero"`
	// Finding is the result of the stage, in words for people.
	Finding string `json:"finding"`
}

// Explain returns the reasoning of [Decide], step by step; the last step is the
// result. Both run the same code.
func Explain(h *History, p *Policy, now int64) []Step {
	d := newDecider(h, p, now)
	d.steps = new([]Step)
	d.note("failure", d.class+"."+d.code, d.describeFailure())
	c := d.decide()
	d.note("result", c.rule.String(), c.action.String())
	return *d.steps
}

// decider is one decision in the making.
type decider struct {
	h   *History
	p   *Policy
	now int64

	// These members follow from the history alone.
	class, code string        // effective
	effects     entry.Effects // the known effects after reconciling
	idempotent  bool          // whether executing again adds no effect
	used        used

	steps *[]Step // nil: no caller asks for the reasoning
}

// used is the amount that a case has used up so far.
type used struct {
	attempts    int64 // that count against limits.attempts
	repeats     int64 // of this very failure in a row, the first included
	last        *Rung // of this step; nil: none
	model       string
	safety      bool // this step failed for safety before
	budget      bool // the case failed for budget before
	quarantined bool
	aborted     bool
}

// choice is an action that is a candidate.
type choice struct {
	action Action
	rule   Rule
}

func newDecider(h *History, p *Policy, now int64) *decider {
	d := &decider{h: h, p: p, now: now}
	d.class, d.code = h.Effective()
	d.used = d.usedUp()
	d.effects = knownEffects(h, d.used.last)
	d.idempotent = d.effects == entry.EffectsNone ||
		h.Failure.ReplaySafety != entry.ReplayUnsafe && (h.Idempotent || h.Failure.ReplaySafety == entry.ReplaySafe)
	return d
}

// knownEffects returns the known effects of the last attempt. These are the effects that the
// failure reported. If they are in doubt, the result of a later probe counts. An unverified success
// has had its effect.
func knownEffects(h *History, last *Rung) entry.Effects {
	if last != nil && last.Result == ResultUnverified && h.Effect != entry.EffectNone {
		return entry.EffectsComplete
	}
	switch h.Failure.Effects {
	case entry.EffectsNone, entry.EffectsComplete:
		return h.Failure.Effects
	case entry.EffectsPartial:
	default:
		if h.Effect == entry.EffectNone {
			return entry.EffectsNone // there was nothing that could have happened
		}
	}
	switch h.Probe {
	case entry.EffectsNone, entry.EffectsComplete:
		return h.Probe
	}
	if h.Failure.Effects == entry.EffectsPartial {
		return entry.EffectsPartial
	}
	return entry.EffectsUnknown
}

func (d *decider) usedUp() used {
	u := used{repeats: 1, model: d.h.Model, safety: d.class == classSafety, budget: d.class == classBudget}
	same, moved := true, false
	for i := len(d.h.Rungs) - 1; i >= 0; i-- {
		r := &d.h.Rungs[i]
		attempt := r.Strategy.Attempts()
		if attempt && !interrupted(r.Class, r.Code) {
			u.attempts++
		}
		u.budget = u.budget || r.Class == classBudget
		u.quarantined = u.quarantined || r.Strategy == Quarantine
		u.aborted = u.aborted || r.Strategy == Abort
		if r.Step != d.h.Step {
			continue
		}
		if u.last == nil {
			u.last = r
		}
		u.safety = u.safety || r.Class == classSafety
		if attempt && same {
			same = r.Class == d.class && r.Code == d.code
		}
		if attempt && same {
			u.repeats++
		}
		if !moved && r.Model != "" {
			u.model, moved = r.Model, true
		}
	}
	return u
}

const (
	classSafety = "safety"
	classBudget = "budget"
)

// interrupted reports whether a failure is a graceful interruption, which
// consumes no retry budget.
func interrupted(class, code string) bool { return class == "crash" && code == "interrupted" }

// decide runs the stages in the order of protocol.md, section 10.
func (d *decider) decide() choice {
	best, settled := d.runtime()
	if !settled {
		best, settled = d.gate()
	}
	guard, guarded := d.guards()
	if !settled {
		best = d.rules()
	}
	if guarded && guard.action.gravity() > best.action.gravity() {
		best = guard
	}
	return best
}

// runtime escalates if the last action was not carried out.
func (d *decider) runtime() (choice, bool) {
	if d.used.last == nil || d.used.last.Result != ResultNotObserved {
		return choice{}, false
	}
	d.note("runtime", string(d.used.last.Strategy), "was not observed, so its result is unknown")
	return escalation(RuleRuntime, ReasonNotObserved), true
}

// gate is the effect gate: uncertain effects are reconciled before any other action.
func (d *decider) gate() (choice, bool) {
	doubt := d.effects == entry.EffectsPartial || d.effects == entry.EffectsUnknown
	switch {
	case !doubt:
		d.note("gate", "", "effects "+string(d.effects)+": open")
		return choice{}, false
	case d.idempotent:
		d.note("gate", "", "effects "+string(d.effects)+", and executing again adds none: open")
		return choice{}, false
	case d.h.Probe != "", d.used.last != nil && d.used.last.Strategy == Reconcile:
		d.note("gate", "", "effects "+string(d.effects)+" after reconciling: closed, a person must look")
		return escalation(RuleGate, ReasonEffectsUnknown), true
	}
	d.note("gate", "", "effects "+string(d.effects)+" and executing again is not known to be safe: reconcile first")
	return choice{Action{Strategy: Reconcile, Reason: ReasonEffectsUncertain}, Rule{RuleGate, -1}}, true
}

// guards evaluates all guards and returns the most severe action of the guards that
// hold.
func (d *decider) guards() (worst choice, some bool) {
	for i := range d.p.guards {
		g := &d.p.guards[i]
		holds, err := g.when.holds(d)
		c := choice{Action{Strategy: g.Then, Severity: g.severity, Reason: ReasonGuard}, Rule{g.ID, -1}}
		switch {
		case err != nil:
			d.note("guard", g.ID, "cannot be evaluated: "+err.Error())
			c = escalation(g.ID, ReasonConditionError)
		case !holds:
			d.note("guard", g.ID, "does not hold")
			continue
		case c.action.Strategy == Quarantine && d.used.quarantined:
			d.note("guard", g.ID, "holds; quarantined already")
			c.action.Strategy, c.action.Reason = Escalate, ReasonAfterQuarantine
		case c.action.Strategy == Abort && d.used.aborted:
			d.note("guard", g.ID, "holds; aborted already")
			c.action.Strategy, c.action.Reason = Escalate, ReasonAfterAbort
		default:
			d.note("guard", g.ID, "holds: at least "+string(g.Then)+", "+string(g.severity))
		}
		if !some || c.action.gravity() > worst.action.gravity() {
			worst, some = c, true
		}
	}
	return worst, some
}

// rules finds the first rule that matches and climbs its ladder.
func (d *decider) rules() choice {
	for i := range d.p.rules {
		r := &d.p.rules[i]
		matches, err := r.when.holds(d)
		if err != nil {
			d.note("rule", r.ID, "cannot be evaluated: "+err.Error())
			return escalation(r.ID, ReasonConditionError)
		}
		if matches {
			d.note("rule", r.ID, "is the first that matches")
			return d.climb(r)
		}
	}
	return escalation(RuleRuntime, ReasonConditionError) // not reached: the last rule matches always
}

func escalation(rule string, reason Reason) choice {
	return choice{Action{Strategy: Escalate, Severity: entry.SeverityError, Reason: reason}, Rule{rule, -1}}
}

// gravity orders actions. Actions that continue the case come first, then actions that end the
// case, by severity.
func (a *Action) gravity() int {
	severity := slices.Index(severities(), a.Severity)
	switch a.Strategy {
	case Escalate:
		return 10 + severity
	case Abort:
		return 20 + severity
	case Quarantine:
		return 30 + severity
	}
	return 0
}

// severities returns all severities, the mildest first.
func severities() []entry.Severity {
	return []entry.Severity{entry.SeverityInfo, entry.SeverityWarning, entry.SeverityError, entry.SeverityCritical}
}

// note records a step of the reasoning if the caller asked for an explanation.
func (d *decider) note(stage, name string, finding ...string) {
	if d.steps != nil {
		*d.steps = append(*d.steps, Step{stage, name, strings.Join(finding, "")})
	}
}

func (d *decider) describeFailure() string {
	text := "effects " + string(d.effects)
	if d.idempotent {
		text += ", executing again is safe"
	}
	if d.class != d.h.Failure.Class || d.code != d.h.Failure.Code {
		text = "reported as " + d.h.Failure.Class + "." + d.h.Failure.Code + "; " + text
	}
	used := " attempts used"
	if d.used.attempts == 1 {
		used = " attempt used"
	}
	return text + "; " + strconv.FormatInt(d.used.attempts, 10) + used
}
