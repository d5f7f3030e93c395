package run

import (
	"context"

	"recoveryledger/coord/recovery"
)

// Neighbour is a policy that differs from another in one limit, by one step.
type Neighbour struct {
	Param  string // such as limits.attempts
	Value  int64
	Policy *recovery.Policy
	above  bool            // whether the limit is higher
	hit    recovery.Reason // why a case stops at the limit
	spent  func(*Trace) int64
}

// Neighbours returns the policies one step away from p in each limit on its
// own: one attempt, or a tenth of the money, the tokens, the time. Where the
// policy allows no such step there is no neighbour.
func Neighbours(p *recovery.Policy) []Neighbour {
	limits := []struct {
		param string
		step  func(int64) int64
		hit   recovery.Reason
		spent func(*Trace) int64
	}{
		{"limits.attempts", func(int64) int64 { return 1 }, recovery.ReasonAttemptsExhausted, func(t *Trace) int64 { return t.Attempts }},
		{"limits.cost_micro_usd", tenth, recovery.ReasonCostExhausted, func(t *Trace) int64 { return t.CostMicroUSD }},
		{"limits.tokens", tenth, recovery.ReasonTokensExhausted, func(t *Trace) int64 { return t.Tokens }},
		{"limits.deadline_ms", tenth, recovery.ReasonDeadlineExceeded, func(t *Trace) int64 { return t.LatencyMS }},
	}
	var all []Neighbour
	for _, l := range limits {
		pinned, ok := p.Int(l.param)
		if !ok {
			continue
		}
		for _, value := range []int64{pinned - l.step(pinned), pinned + l.step(pinned)} {
			if other, err := p.With(l.param, value); err == nil {
				all = append(all, Neighbour{l.param, value, other, value > pinned, l.hit, l.spent})
			}
		}
	}
	return all
}

func tenth(n int64) int64 { return max(1, n/10) }

// near returns the limits within one step of which the case ends otherwise. A
// case is looked at again only where the limit can matter: it stopped there,
// or spent more than the lower limit allows.
func (b *Batch) near(ctx context.Context, c *Case, r *Recovery) ([]Near, error) {
	if r.Trace.Status == NoFailure || r.Case.Answers != nil { // nobody knows what a strategy would have chosen
		return nil, nil
	}
	var found []Near
	for i := range b.Neighbours {
		n := &b.Neighbours[i]
		if n.above && r.Trace.Reason != string(n.hit) || !n.above && n.spent(&r.Trace) < n.Value {
			continue
		}
		other := Config{Policy: n.Policy, Runtime: b.Runtime, Seed: b.Seed}
		if b.Instance != "" { // nothing is really done twice
			other.Runtime, c = Recorded{}, &r.Case
		}
		again, err := other.Recover(ctx, c)
		if err != nil {
			return nil, err
		}
		if again.Trace.Status != r.Trace.Status {
			found = append(found, Near{Param: n.Param, Status: again.Trace.Status, Value: n.Value})
		}
	}
	return found, nil
}
