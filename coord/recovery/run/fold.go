package run

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// Fold gives the case as a scenario holds it: what the source shows as further
// steps that try a failed one again become attempts of that step, and what
// depended on them depends on it. A run that failed by the source's own
// verdict ends with the step "verdict", so that nothing that is done about an
// earlier step makes a failed run a recovered one. A run that made no call is
// the one step "run".
//
// What a later try depended on is lost, as the step it belongs to stands
// before that.
func Fold(c Case) Case {
	steps := c.Steps
	c.Steps = make([]Step, 0, len(steps)+1)
	index, into := map[string]int{}, map[string]string{}
	for _, step := range steps {
		at, ok := index[step.RetryOf]
		if ok && c.Steps[at].Outcome == Failed && step.Outcome != NotObserved {
			first := &c.Steps[at]
			first.Attempts = append(first.Attempts, step.Attempt)
			first.Attempts = append(first.Attempts, step.Attempts...)
			first.Checkpoint = first.Checkpoint || step.Checkpoint
			into[step.ID] = first.ID
			continue
		}
		step.Way, step.RetryOf = Way{Model: step.Model}, ""
		step.Attempts = slices.Clone(step.Attempts)
		step.Parents = redirect(step.Parents, into)
		index[step.ID] = len(c.Steps)
		c.Steps = append(c.Steps, step)
	}
	switch {
	case c.Outcome == Failed && c.Verdict != nil:
		c.Steps = append(c.Steps, c.verdict())
	case len(c.Steps) == 0:
		c.Steps = []Step{{ID: "run", Agent: c.Agent, Effect: entry.EffectNone, Attempt: Attempt{Outcome: c.Outcome}}}
	}
	c.Verdict = nil
	return c
}

// redirect gives edges with the steps of into in place of what became
// attempts of them, each step once.
func redirect(parents []Parent, into map[string]string) []Parent {
	var out []Parent
	for _, p := range parents {
		if first, ok := into[p.Step]; ok {
			p.Step = first
		}
		at := slices.IndexFunc(out, func(o Parent) bool { return o.Step == p.Step })
		switch {
		case at < 0:
			out = append(out, p)
		case p.Dep == entry.Hard:
			out[at].Dep = entry.Hard
		}
	}
	return out
}

// verdict is the step that stands for what the source says of the whole run.
// Its effect is the gravest of those that took place, so that what follows
// from it knows what cannot be undone.
func (c *Case) verdict() Step {
	step := Step{ID: "verdict", Agent: c.Agent, Effect: entry.EffectNone, Attempt: Attempt{Outcome: Failed}}
	failure := *c.Verdict
	for _, s := range c.Steps {
		if s.ID == step.ID {
			step.ID = localID(step.ID + "/" + c.ID)
		}
		if s.final().Outcome == OK && gravity(s.Effect) > gravity(step.Effect) {
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

// unexplained is the verdict of a source that says of a run only that it
// failed.
func (c *Case) unexplained() Step {
	whole := *c
	whole.Verdict = &Failure{Label: unknown()}
	return whole.verdict()
}

// gravity orders effects by how hard they are to undo.
func gravity(e entry.Effect) int {
	return slices.Index([]entry.Effect{
		entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectUndeclared, entry.EffectIrrevocable,
	}, e)
}

// again marks a step as another try of an earlier one, or of what that tried.
func (s *Step) again(first *Step, way Way) {
	s.RetryOf, s.Way = first.ID, way
	if first.RetryOf != "" {
		s.RetryOf = first.RetryOf
	}
}

// sameArguments is the way of a call that is made again with the same or with
// other arguments.
func sameArguments(same bool) Way {
	if same {
		return Way{Strategy: "retry"}
	}
	return Way{Strategy: "retry_altered", Variant: "repair_args"}
}

// final is what came of the step in the end.
func (s *Step) final() *Attempt {
	if n := len(s.Attempts); n > 0 {
		return &s.Attempts[n-1]
	}
	return &s.Attempt
}
