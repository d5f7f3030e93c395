package importer

import (
	"slices"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// MergeRetries gives the case in the form of a scenario. A further step of the source that tries a
// failed step again becomes an attempt of that step. The steps that depend on the further step
// depend on the failed step instead. If the source calls the run failed, the run ends with the step
// "verdict". So an action about an earlier step never makes a failed run a recovered one. A run
// without a call is the single step "run".
//
// The dependencies of a later try are lost to its step, because that stands before them. The steps
// that depend on the later try get them.
func MergeRetries(c scenario.Case) scenario.Case {
	steps := c.Steps
	c.Steps = make([]scenario.Step, 0, len(steps)+1)
	index, into := map[string]int{}, map[string]retried{}
	for _, step := range steps {
		at, ok := index[step.RetryOf]
		if ok && c.Steps[at].Outcome == scenario.Failed && step.Outcome != scenario.NotObserved {
			first := &c.Steps[at]
			first.Attempts = append(first.Attempts, step.Attempt)
			first.Attempts = append(first.Attempts, step.Attempts...)
			first.Checkpoint = first.Checkpoint || step.Checkpoint
			into[step.ID] = retried{first.ID, redirect(step.Parents, into)}
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

// retried is a step that became an attempt of the first one, and what it depended on.
type retried struct {
	first   string
	parents []scenario.Parent
}

// redirect returns edges in which the attempts of a step are replaced by the step, and by what the
// attempts depended on, each step once.
func redirect(parents []scenario.Parent, into map[string]retried) []scenario.Parent {
	var out []scenario.Parent
	add := func(p scenario.Parent) {
		at := slices.IndexFunc(out, func(o scenario.Parent) bool { return o.Step == p.Step })
		switch {
		case at < 0:
			out = append(out, p)
		case p.Dep == entry.Hard:
			out[at].Dep = entry.Hard
		}
	}
	for _, p := range parents {
		again, ok := into[p.Step]
		if !ok {
			add(p)
			continue
		}
		add(scenario.Parent{Step: again.first, Dep: p.Dep})
		for _, before := range again.parents {
			if before.Dep == entry.Hard && p.Dep == entry.Hard && before.Step != again.first {
				add(before)
			}
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
