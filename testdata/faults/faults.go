// Package faults makes agent runs fail as a seed says, for tests that compare policies on the same
// faults.
package faults

import (
	"context"
	"fmt"
	"strconv"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Seeded makes attempts that end as a seed says. The end depends on case, step, way and how often
// that way was tried, and so on nothing that a policy has a say in.
type Seeded struct{ Seed int64 }

func (f Seeded) draw(q scenario.Request, what string, n uint64) uint64 {
	times := 0
	for _, w := range q.Past {
		if w == q.Variation {
			times++
		}
	}
	purpose := what + "|" + q.Step.ID + "|" + q.Variation.Strategy + "|" + q.Variation.Variant + "|" + q.Variation.Model
	return recovery.Draw(f.Seed, purpose, q.Case.ID, int64(times), 0) % n
}

// Attempt implements the Runtime of coord/recovery/engine.
func (f Seeded) Attempt(_ context.Context, q scenario.Request) (scenario.Attempt, error) {
	cost, latency := int64(f.draw(q, "cost", 900)), int64(10+f.draw(q, "latency", 90))
	a := scenario.Attempt{Variation: q.Variation, Outcome: scenario.OK, Verified: true, CostMicroUSD: &cost, LatencyMS: &latency}
	if q.Variation.Strategy == string(recovery.Reconcile) {
		a.Effects = []entry.Effects{entry.EffectsNone, entry.EffectsComplete, entry.EffectsUnknown}[f.draw(q, "effects", 3)]
		return a, nil
	}
	if f.draw(q, "fails", 100) < 45 {
		labels := []scenario.Label{{Class: "transient", Code: "timeout"}, {Class: "transient", Code: "unavailable"}, {Class: "capacity", Code: "rate_limited"},
			{Class: "output", Code: "malformed"}, {Class: "output", Code: "refused"}, {Class: "crash", Code: "panic"}}
		failure := &scenario.Failure{Label: labels[f.draw(q, "class", uint64(len(labels)))], Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown}
		if f.draw(q, "left", 2) == 0 {
			failure.Effects, failure.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
		}
		a.Outcome, a.Verified, a.Failure = scenario.Failed, false, failure
	}
	return a, nil
}

// Cases returns n cases of several agents without any attempts yet.
func Cases(n int) []scenario.Case {
	effects := []entry.Effect{entry.EffectNone, entry.EffectNone, entry.EffectCompensable, entry.EffectReversible}
	var all []scenario.Case
	for i := range n {
		agent := entry.Principal("agent-" + strconv.Itoa(i%7))
		c := scenario.Case{ID: fmt.Sprintf("case-%d", i), Agent: agent, Intent: "work"}
		for s := range 1 + i%3 {
			c.Steps = append(c.Steps, scenario.Step{ID: fmt.Sprintf("step-%d", s), Agent: agent, Effect: effects[(i+s)%len(effects)], Idempotent: (i+s)%3 == 0, Tool: "tool"})
		}
		all = append(all, c)
	}
	return all
}
