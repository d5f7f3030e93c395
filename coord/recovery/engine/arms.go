package engine

import (
	"fmt"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// of returns the configuration for a case, with the rules of its arm.
func (c *Config) of(id string) (*Config, recovery.Arms) {
	if c.Arms == nil {
		return c, recovery.Arms{Rules: c.Policy}
	}
	arms := c.Arms(id)
	own := *c
	own.Policy = arms.Rules
	return &own, arms
}

// decidedBy notes which rules decide, and which decide beside.
func (t *Trace) decidedBy(a *recovery.Arms) {
	if t.Arm = a.Arm; a.Arm != "" {
		t.Policy = a.Rules.Hash()
	}
	if a.Beside != nil {
		t.Shadow = &Shadow{a.Beside.Hash(), []Rung{}}
	}
	if a.Other != nil {
		t.Other = &Shadow{a.Other.Hash(), []Rung{}}
	}
}

// decideBeside notes what rules decide that decide beside the policy. It asks no strategy that is a
// program: nothing is done.
func (r *recoverer) decideBeside(rules *recovery.Policy, into *Shadow) {
	d := recovery.Choose(&r.h, rules, epoch+r.now)
	class, code := r.h.Effective()
	into.Rungs = append(into.Rungs, Rung{Attempt: int64(r.count), Class: class, Code: code, Model: d.Action.Model, Reason: string(d.Action.Reason),
		Result: string(recovery.ResultDecided), Rule: d.Rule.ID, Severity: d.Action.Severity, Step: r.step.ID, Strategy: string(d.Action.Strategy),
		Variant: d.Action.Variation(), WaitMS: d.Action.WaitMS})
}

// ShadowOf is the body of the entry about what the candidate of a shadow decided about a case. It
// is nil if the candidate decided nothing. The entry stands outside of the run: it is no attempt of
// it.
func ShadowOf(of *Recovery) *entry.Attempt {
	s := of.Trace.Shadow
	if s == nil || len(s.Rungs) == 0 {
		return nil
	}
	last := recovery.Strategy(s.Rungs[len(s.Rungs)-1].Strategy)
	return &entry.Attempt{Agent: of.Case.Agent, Policy: s.Policy, Arm: entry.ArmShadow,
		AttemptCase: entry.AttemptCase{Case: of.Trace.Case, Rungs: entryRungs(s.Rungs), Status: last.CaseStatus()}}
}

// armsOf returns the arms of the cases that a run's directory has traces of. The arm of a case does
// not follow from the configuration of the run alone, because a rollout may end while the run is
// under way. The traces behind one that cannot be read name no arm.
func (s *Snapshot) armsOf(dir string, baseline *recovery.Policy) (func(id string) recovery.Arms, error) {
	if s.Candidate == nil {
		return nil, nil
	}
	candidate, err := recovery.FromEntry(&entry.Policy{Recovery: s.Candidate})
	if err != nil {
		return nil, fmt.Errorf("engine: candidate of the run: %w", err)
	}
	known := map[[16]byte]recovery.Arms{}
	for t, err := range (&Kept{dir: dir}).Traces() {
		if err != nil {
			break
		}
		a := recovery.Arms{Rules: baseline, Arm: t.Arm}
		switch {
		case t.Arm == entry.ArmCanary:
			if a.Rules = candidate; t.Other != nil {
				a.Other = baseline
			}
		case t.Shadow != nil:
			a.Beside = candidate
		case t.Other != nil:
			a.Other = candidate
		}
		known[scenario.IDHash(t.Case)] = a
	}
	return func(id string) recovery.Arms {
		if a, ok := known[scenario.IDHash(id)]; ok {
			return a
		}
		return recovery.Arms{Rules: baseline}
	}, nil
}
