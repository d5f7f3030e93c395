package coordinator

import (
	"strings"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// resultDecided is the result of an action that others carry out.
const resultDecided = "decided"

// attemptOf returns the entry of the decision that a claim rests on, about the work of the agent
// that had the task before. It returns nil if the claim rests on no failure. The coordinator submits
// both at once, the claim first: the claim stands also if the ledger refuses the attempt.
func attemptOf(s *coord.State, body entry.Body, now int64, rules *coord.Rules) *entry.Attempt {
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
	rule, _, _ := strings.Cut(v.Recovery.Rule, "[")
	_, id := claim.Task.Split()
	wait := max(v.Recovery.Due-last.At, 0)
	return &entry.Attempt{
		Header: entry.Header{V: claim.V, Aud: claim.Aud, Wid: claim.Wid}, Agent: v.Agent, Task: claim.Task, Policy: rules.Of(s).Hash(),
		AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusPassedOn, Rungs: []entry.Rung{{
			Attempt: int64(len(v.Failures)), Class: last.Class, Code: last.Code, Rule: rule, Strategy: v.Recovery.Strategy, Result: resultDecided,
			WaitMS: &wait, Reason: v.Recovery.Reason,
		}}},
	}
}
