package importer

import (
	"slices"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// MergeRetries gives the case as a scenario holds it: what the source shows as further
// steps that try a failed one again become attempts of that step, and what
// depended on them depends on it. A run that failed by the source's own
// verdict ends with the step "verdict", so that nothing that is done about an
// earlier step makes a failed run a recovered one. A run that made no call is
// the one step "run".
//
// What a later try depended on is lost, as the step it belongs to stands
// before that.
func MergeRetries(c scenario.Case) scenario.Case {
	steps := c.Steps
	c.Steps = make([]scenario.Step, 0, len(steps)+1)
	index, into := map[string]int{}, map[string]string{}
	for _, step := range steps {
		at, ok := index[step.RetryOf]
		if ok && c.Steps[at].Outcome == scenario.Failed && step.Outcome != scenario.NotObserved {
			first := &c.Steps[at]
			first.Attempts = append(first.Attempts, step.Attempt)
			first.Attempts = append(first.Attempts, step.Attempts...)
			first.Checkpoint = first.Checkpoint || step.Checkpoint
			into[step.ID] = first.ID
			continue
		}
		step.Variation, step.RetryOf = scenario.Variation{Model: step.Model}, ""
		step.Attempts = slices.Clone(step.Attempts)
		step.Parents = redirect(step.Parents, into)
		index[step.ID] = len(c.Steps)
		c.Steps = append(c.Steps, step)
	}
	switch {
	case c.Outcome == scenario.Failed && c.Verdict != nil:
		c.Steps = append(c.Steps, c.VerdictStep(*c.Verdict))
	case len(c.Steps) == 0:
		c.Steps = []scenario.Step{{ID: "run", Agent: c.Agent, Effect: entry.EffectNone, Attempt: scenario.Attempt{Outcome: c.Outcome}}}
	}
	c.Verdict = nil
	return c
}

// redirect returns edges in which the attempts of a step are replaced by the step, each step once.
func redirect(parents []scenario.Parent, into map[string]string) []scenario.Parent {
	var out []scenario.Parent
	for _, p := range parents {
		if first, ok := into[p.Step]; ok {
			p.Step = first
		}
		at := slices.IndexFunc(out, func(o scenario.Parent) bool { return o.Step == p.Step })
		switch {
		case at < 0:
			out = append(out, p)
		case p.Dep == entry.Hard:
			out[at].Dep = entry.Hard
		}
	}
	return out
}

// tryAgain marks a step as another attempt of an earlier step, or of the step that the earlier one
// tried.
func tryAgain(s, first *scenario.Step, way scenario.Variation) {
	s.RetryOf, s.Variation = first.ID, way
	if first.RetryOf != "" {
		s.RetryOf = first.RetryOf
	}
}

// sameArguments returns the variation of a repeated call with the same or with other arguments.
func sameArguments(same bool) scenario.Variation {
	if same {
		return scenario.Variation{Strategy: "retry"}
	}
	return scenario.Variation{Strategy: "retry_altered", Variant: "repair_args"}
}
