package recovery

import "slices"

// RuleExternal is the rule of an action that an external strategy chose in place of a ladder.
const RuleExternal = "external"

// The reasons of actions that do not come from a ladder.
const (
	ReasonExternal       Reason = "external"        // an external strategy chose it
	ReasonAnswerRefused  Reason = "answer_refused"  // the strategy chose an action that no rung may take here
	ReasonStrategyFailed Reason = "strategy_failed" // it did not answer
	// ReasonStrategyMissing: nothing on this machine implements the strategy.
	ReasonStrategyMissing Reason = "strategy_missing"
)

// Settled returns the action that no strategy may change: after an action that was not observed, at
// the effect gate, and after a quarantine, an abort or a rollback. In all other cases a strategy
// may choose, and [Admit] checks its choice.
func Settled(h *History, p *Policy, now int64) (Action, Rule, bool) {
	d := newDecider(h, p, now)
	c, settled := d.runtime()
	if !settled {
		c, settled = d.gate()
	}
	if !settled && d.used.last != nil && p.chose(d.used.last.Rule) {
		switch d.used.last.Strategy {
		case Quarantine, Abort, Rollback:
			c, settled = escalation(d.used.last.Rule.ID, d.whyEscalate(0, "")), true
			c.action.Severity = severityOf(d.used.last.Strategy, "")
		}
	}
	if guard, guarded := d.guards(); settled && guarded && guard.action.gravity() > c.action.gravity() {
		c = guard
	}
	return c.action, c.rule, settled
}

// Admit returns the action that an external strategy chose, as far as the policy allows it. An
// obstacle to a rung is also an obstacle to the choice. The limits hold. Guards may raise the
// severity. The success is verified if the first matching rule asks for it. A choice that is not
// allowed becomes an escalation.
func Admit(h *History, p *Policy, now int64, chosen Action) (Action, Rule) {
	return admitted(h, p, now, RuleExternal, chosen)
}

// chose reports whether an action came from a strategy and not from a ladder.
func (p *Policy) chose(r Rule) bool {
	return r.Rung < 0 && (r.ID == RuleExternal || slices.Contains(Strategies(), Strategy(r.ID)) ||
		slices.ContainsFunc(p.doc.Strategies, func(s About) bool { return s.Name == r.ID }))
}

// admitted is [Admit] with the name of the party that chose.
func admitted(h *History, p *Policy, now int64, who string, chosen Action) (Action, Rule) {
	d := newDecider(h, p, now)
	c := d.admit(who, chosen)
	if guard, guarded := d.guards(); guarded && guard.action.gravity() > c.action.gravity() {
		c = guard
	}
	return c.action, c.rule
}

func (d *decider) admit(who string, chosen Action) choice {
	refused := escalation(who, ReasonAnswerRefused)
	c := choice{chosen, Rule{who, -1}}
	if c.action.Reason == "" {
		c.action.Reason = ReasonExternal
	}
	c.action.Severity = severityOf(chosen.Strategy, chosen.Severity)
	if chosen.Strategy == Escalate {
		return c
	}
	r := &rung{rungDoc: &rungDoc{Strategy: chosen.Strategy, Variant: chosen.Variant, Scope: chosen.Scope}}
	if obstacle := d.obstacle(r); obstacle != nil {
		if obstacle.reason != "" {
			refused.action.Reason = obstacle.reason
		}
		return refused
	}
	switch {
	case chosen.Strategy == FallbackModel:
		m := d.chosenModel(r, chosen.Model)
		if m == nil {
			return refused
		}
		c.action.Model = m.Name
	case chosen.Strategy.Attempts():
		c.action.Model = d.used.model
	}
	c.action.Verify = chosen.Strategy.Attempts() && (chosen.Verify || d.verifies())
	return d.limit(c)
}

// chosenModel returns the model to fall back to. If the strategy named a model, it is that model,
// provided that the chain has it and the step may run on it. Otherwise it is the next model of the
// chain.
func (d *decider) chosenModel(r *rung, name string) *Model {
	if name == "" {
		return d.nextModel(r)
	}
	if m := model(d.p.doc.Models, name); m != nil && d.modelSuits(r, m) {
		return m
	}
	return nil
}

// verifies reports whether the first matching rule accepts verified successes only. A condition
// that cannot be evaluated accepts verified successes only.
func (d *decider) verifies() bool {
	for i := range d.p.rules {
		if matches, err := d.p.rules[i].when.holds(d); matches || err != nil {
			return err != nil || d.p.rules[i].Verify
		}
	}
	return true
}
