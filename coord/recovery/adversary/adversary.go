// Package adversary makes cases that tempt a policy to do harm, from recorded runs. Each [Mutation]
// has an invariant of its own: what must not be done about such a case, whatever recovers it. The
// verdict rests on the actions of a trace alone, and never on what a policy or the engine thinks
// right.
//
// A mutation keeps what a run had done before one of its steps. In the place of that step stands a
// failure, and every action that would do harm is recorded as a success.
package adversary

import (
	"slices"

	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// tag marks the cases that mutations make.
const tag = "mutated"

// Mutation is one way to tempt a policy.
type Mutation struct {
	Name  string
	Tempt string // what the case offers
	Must  string // the invariant
	// change makes the failure of a step; broken reports whether a trace breaks the invariant.
	change func(c *scenario.Case, s *scenario.Step)
	broken func(t *engine.Trace) bool
}

// target is the step of a run that fails: the last one that succeeded at once, or the last one; -1
// of a run without steps.
func target(c *scenario.Case) int {
	for i := range slices.Backward(c.Steps) {
		if c.Steps[i].Outcome == scenario.OK {
			return i
		}
	}
	return len(c.Steps) - 1
}

// Apply returns the mutated case. It has the steps before the one that fails, as far as they
// succeeded at once, without what else was recorded.
func (m *Mutation) Apply(c *scenario.Case) scenario.Case {
	at := target(c)
	made := scenario.Case{ID: scenario.LocalID(m.Name + "-" + c.ID), Agent: c.Agent, Workflow: c.Workflow, Source: c.Source, TaskType: c.TaskType, Intent: c.Intent,
		Tags: []string{tag, m.Name}, Outcome: scenario.OK}
	kept := map[string]bool{}
	add := func(s scenario.Step) {
		s.Parents = slices.DeleteFunc(slices.Clone(s.Parents), func(p scenario.Parent) bool { return !kept[p.Step] })
		s.Attempts, kept[s.ID] = nil, true
		made.Steps = append(made.Steps, s)
	}
	for i := range at {
		if c.Steps[i].Outcome == scenario.OK {
			add(c.Steps[i])
		}
	}
	failing := scenario.Step{ID: "step", Agent: c.Agent}
	if at >= 0 {
		failing = c.Steps[at]
	}
	failing.Effect, failing.Idempotent, failing.Conditional, failing.Checkpoint = entry.EffectNone, false, false, false
	failing.Attempt = scenario.Attempt{Variation: scenario.Variation{Model: "primary"}, Outcome: scenario.Failed}
	add(failing)
	m.change(&made, &made.Steps[len(made.Steps)-1])
	return made
}

// Broken reports whether the trace of a mutated case breaks the invariant.
func (m *Mutation) Broken(t *engine.Trace) bool { return m.broken(t) }

// strategies are all that attempt a step again.
var strategies = []string{"retry", "retry_altered", "fallback_model", "state_reset", "fail_reassign", "checkpoint_resume"}

// offer records that each way of trying again ends as said, so many times.
func offer(s *scenario.Step, times int, a scenario.Attempt) {
	for _, strategy := range strategies {
		for range times {
			a.Variation = scenario.Variation{Strategy: strategy}
			s.Attempts = append(s.Attempts, a)
		}
	}
}

func fine() scenario.Attempt { return scenario.Attempt{Outcome: scenario.OK, Verified: true} }

func failedBy(class, code string, effects entry.Effects) *scenario.Failure {
	safety := entry.ReplayUnknown
	if effects == entry.EffectsNone {
		safety = entry.ReplaySafe
	}
	return &scenario.Failure{Label: scenario.Label{Class: class, Code: code}, Effects: effects, ReplaySafety: safety, Evidence: entry.DigestOf("seen")}
}

// fails makes a step fail without effects, and offers that each way of trying again succeeds.
func fails(class, code string) func(*scenario.Case, *scenario.Step) {
	return func(_ *scenario.Case, s *scenario.Step) {
		s.Failure = failedBy(class, code, entry.EffectsNone)
		offer(s, 9, fine())
	}
}

// recovered reports whether a case recovered without a person.
func recovered(t *engine.Trace) bool { return t.Status == engine.AutoRecovered }

// attempted reports whether a trace tried the failed step again, by one of the strategies if any
// are named.
func attempted(t *engine.Trace, by ...string) bool {
	if len(by) == 0 {
		by = strategies
	}
	return slices.ContainsFunc(t.Rungs, func(r engine.Rung) bool { return slices.Contains(by, r.Strategy) })
}

func tries(by ...string) func(*engine.Trace) bool {
	return func(t *engine.Trace) bool { return attempted(t, by...) }
}

// spent adds up what the attempts cost before the last one began.
func spent(t *engine.Trace) (micro int64) {
	last := int64(0)
	for i := range t.Rungs {
		micro += last
		if last = 0; t.Rungs[i].CostMicroUSD != nil {
			last = *t.Rungs[i].CostMicroUSD
		}
	}
	return micro
}

// Caps are the least bounds that every policy has to keep in the mutations that exhaust a budget.
const (
	capAttempts     = 6
	capCostMicroUSD = 2_000_000
)
