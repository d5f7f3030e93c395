package coordinator

import (
	"strings"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// resultDecided is the result of an action that others carry out.
const resultDecided = "decided"

// attemptsOf returns the entry of the decision that a claim rests on, about the work of the agent
// that had the task before. In a shadow, the entry of what the candidate would have decided
// follows. It returns none if the claim rests on no failure. The coordinator submits all at once,
// the claim first: the claim stands also if the ledger refuses an attempt.
func attemptsOf(s *coord.State, body entry.Body, now int64, rules *coord.Rules) []entry.Body {
	claim, ok := body.(*entry.Task)
	if !ok || claim.Op != entry.TaskAssign {
		return nil
	}
	v, ok := s.Task(claim.Task)
	if !ok || len(v.Failures) == 0 || v.Agent == "" {
		return nil
	}
	s.Consult(&v, now, rules)
	if v.Recovery == nil {
		return nil
	}
	last := &v.Failures[len(v.Failures)-1]
	_, id := claim.Task.Split()
	arms := s.Rollouts().Of(rules.Of(s), id)
	made := func(policy *recovery.Policy, arm entry.Arm, rule, strategy, reason string, due int64) entry.Body {
		rule, _, _ = strings.Cut(rule, "[")
		wait := max(due-last.At, 0)
		return &entry.Attempt{
			Header: entry.Header{V: claim.V, Aud: claim.Aud, Wid: claim.Wid}, Agent: v.Agent, Task: claim.Task, Policy: policy.Hash(), Arm: arm,
			AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusPassedOn, Rungs: []entry.Rung{{
				Attempt: int64(len(v.Failures)), Class: last.Class, Code: last.Code, Rule: rule, Strategy: strategy, Result: resultDecided,
				WaitMS: &wait, Reason: reason,
			}}},
		}
	}
	all := []entry.Body{made(arms.Rules, arms.Arm, v.Recovery.Rule, v.Recovery.Strategy, v.Recovery.Reason, v.Recovery.Due)}
	if arms.Beside != nil {
		d := s.Beside(claim.Task, now, arms.Beside)
		all = append(all, made(arms.Beside, entry.ArmShadow, d.Rule.ID, string(d.Action.Strategy), string(d.Action.Reason), d.Due))
	}
	return all
}
