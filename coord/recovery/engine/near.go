package engine

import (
	"context"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Neighbour is a policy that differs from another in one bound, by one step.
type Neighbour struct {
	recovery.Bound
	Policy *recovery.Policy
	other  int64           // the bound in it
	hit    recovery.Reason // why a case stops at a limit
	spent  func(*Trace) int64
}

// Neighbours returns the policies one step away from p in each limit and each max
// of a rung on its own: one attempt, or a tenth of the money, the tokens, the
// time. Where the policy allows no such step there is no neighbour.
func Neighbours(p *recovery.Policy) []Neighbour {
	one := func(int64) int64 { return 1 }
	limits := map[string]struct {
		step  func(int64) int64
		hit   recovery.Reason
		spent func(*Trace) int64
	}{
		"limits.attempts":       {one, recovery.ReasonAttemptsExhausted, func(t *Trace) int64 { return t.Attempts }},
		"limits.cost_micro_usd": {tenth, recovery.ReasonCostExhausted, func(t *Trace) int64 { return t.CostMicroUSD }},
		"limits.tokens":         {tenth, recovery.ReasonTokensExhausted, func(t *Trace) int64 { return t.Tokens }},
		"limits.deadline_ms":    {tenth, recovery.ReasonDeadlineExceeded, func(t *Trace) int64 { return t.LatencyMS }},
	}
	var all []Neighbour
	for _, b := range p.Bounds() {
		l, ok := limits[b.Path]
		if !ok {
			l.step = one
		}
		for _, value := range []int64{b.Value - l.step(b.Value), b.Value + l.step(b.Value)} {
			if other, ok := p.Beside(b, value); ok {
				all = append(all, Neighbour{Bound: b, Policy: other, other: value, hit: l.hit, spent: l.spent})
			}
		}
	}
	return all
}

// matters reports whether the step can change a case: it stopped at the limit, or
// spent more than the lower one allows; or it took the rung as often as it may.
func (n *Neighbour) matters(t *Trace) bool {
	switch {
	case n.Rule != "":
		return n.usedUp(t)
	case n.other > n.Value:
		return t.Reason == string(n.hit)
	default:
		return n.spent(t) >= n.other
	}
}

// usedUp reports whether a step took the rung as often as it may.
func (n *Neighbour) usedUp(t *Trace) bool {
	step, times := "", int64(0)
	for i := range t.Rungs {
		r := &t.Rungs[i]
		if r.Step != step {
			step, times = r.Step, 0
		}
		if r.Rule == n.Rule && r.Strategy == string(n.Strategy) && r.Variant == n.Variant {
			if times++; times >= n.Value {
				return true
			}
		}
	}
	return false
}

func tenth(n int64) int64 { return max(1, n/10) }

// near returns the bounds within one step of which the case ends otherwise.
func (b *Batch) near(ctx context.Context, c *scenario.Case, r *Recovery) ([]Near, error) {
	switch {
	case r.Trace.Status == NoFailure, r.Case.Answers != nil: // the choice of a strategy is not known
		return nil, nil
	case r.Trace.Arm == entry.ArmCanary: // the neighbours are those of the baseline
		return nil, nil
	}
	var found []Near
	for i := range b.Neighbours {
		n := &b.Neighbours[i]
		if !n.matters(&r.Trace) {
			continue
		}
		other := Config{Policy: n.Policy, Runtime: b.Runtime, Seed: b.Seed, traceOnly: true}
		if b.Instance != "" { // nothing is really done twice
			other.Runtime, c = Recorded{}, &r.Case
		}
		again, err := other.Recover(ctx, c)
		if err != nil {
			return nil, err
		}
		if flipped(&r.Trace, &again.Trace) == known {
			found = append(found, Near{Param: n.Path, Status: again.Trace.Status, Value: n.other})
		}
	}
	return found, nil
}

// flip is whether a case ends otherwise under another policy.
type flip int

// A case may escalate under one of them because an attempt was never made. The end of such a case
// is not known.
const (
	none flip = iota
	known
	unobserved
)

func flipped(from, to *Trace) flip {
	const why = string(recovery.ReasonNotObserved)
	switch {
	case from.Status == to.Status:
		return none
	case from.Reason == why || to.Reason == why:
		return unobserved
	}
	return known
}
