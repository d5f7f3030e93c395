package engine

import (
	"context"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// ExplainedDecision is one decision on a case, with the reasoning behind the decision.
type ExplainedDecision struct {
	Decision  int             `json:"decision"` // from 1
	Step      string          `json:"step"`
	Reasoning []recovery.Step `json:"reasoning"`
	Outcome   string          `json:"outcome,omitzero"` // of the action; none where the action ends the case
}

// Explain is [Config.Recover] with the reasoning behind every decision.
func (c Config) Explain(ctx context.Context, of *scenario.Case) (Recovery, []ExplainedDecision, error) {
	var decisions []ExplainedDecision
	c.Asked = func(h *recovery.History, now int64) {
		decisions = append(decisions, ExplainedDecision{Decision: len(decisions) + 1, Step: h.Step, Reasoning: recovery.Explain(h, c.Policy, now)})
	}
	done, err := c.Recover(ctx, of)
	if err != nil {
		return done, nil, err
	}
	for i := range decisions {
		if rung := &done.Trace.Rungs[i]; rung.Strategy != string(recovery.Escalate) {
			decisions[i].Outcome = rung.Result
		}
	}
	return done, decisions, nil
}
