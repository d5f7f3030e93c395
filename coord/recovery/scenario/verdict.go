package scenario

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// VerdictStep is the step of a failure of the whole run. The step has the gravest effect that took
// place in the run, so that the steps after it know of effects that cannot be undone.
func (c *Case) VerdictStep(failure Failure) Step {
	step := Step{ID: "verdict", Agent: c.Agent, Effect: entry.EffectNone, Attempt: Attempt{Outcome: Failed}}
	for _, s := range c.Steps {
		if s.ID == step.ID {
			step.ID = LocalID(step.ID + "/" + c.ID)
		}
		if s.Final().Outcome == OK && gravity(s.Effect) > gravity(step.Effect) {
			step.Effect = s.Effect
		}
	}
	if n := len(c.Steps); n > 0 {
		step.Parents = []Parent{{Step: c.Steps[n-1].ID, Dep: entry.Soft}}
	}
	failure.Effects, failure.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
	if step.Effect != entry.EffectNone {
		failure.Effects, failure.ReplaySafety = entry.EffectsComplete, entry.ReplayUnsafe
	}
	step.Failure = &failure
	return step
}

// gravity orders effects by how hard they are to undo.
func gravity(e entry.Effect) int {
	return slices.Index([]entry.Effect{
		entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectUndeclared, entry.EffectIrrevocable,
	}, e)
}
