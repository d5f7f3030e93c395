package recovery

import (
	"fmt"
	"slices"
	"strconv"

	"recoveryledger/ledger/entry"
)

// Bound is a number of the rules that limits a case: a limit, or the max of a rung.
type Bound struct {
	Path  string // see [Policy.Int]
	Value int64

	// Of the rung, where it is one's.
	Rule     string
	Strategy Strategy
	Variant  string // or the scope of a state_reset

	rule, rung int // positions; -1: it is a limit
}

// Bounds returns the limits, and the max of every rung that has one.
func (p *Policy) Bounds() []Bound {
	l := &p.doc.Limits
	all := []Bound{
		{Path: limitAttempts, Value: l.Attempts, rule: -1}, {Path: limitCost, Value: l.CostMicroUSD, rule: -1},
		{Path: limitTokens, Value: l.Tokens, rule: -1}, {Path: limitDeadline, Value: l.DeadlineMS, rule: -1},
	}
	for i := range p.doc.Rules {
		r := &p.doc.Rules[i]
		for j := range r.Ladder {
			rung := &r.Ladder[j]
			if rung.Max == 0 {
				continue
			}
			name := r.ID
			if _, err := strconv.Atoi(name); err == nil {
				name = strconv.Itoa(i) // a number names a position
			}
			b := Bound{Path: fmt.Sprintf("rules[%s].ladder[%d].max", name, j), Value: rung.Max, Rule: r.ID, Strategy: rung.Strategy, Variant: string(rung.Variant), rule: i, rung: j}
			if rung.Scope != "" {
				b.Variant = string(rung.Scope)
			}
			all = append(all, b)
		}
	}
	return all
}

// The limits by their paths.
const (
	limitAttempts = "limits.attempts"
	limitCost     = "limits.cost_micro_usd"
	limitTokens   = "limits.tokens"
	limitDeadline = "limits.deadline_ms"
)

// Beside returns the policy with another value of one of its bounds. It does what [Policy.With]
// does without compiling the conditions again, because conditions do not depend on bounds. ok is
// false if the changed policy would not load.
func (p *Policy) Beside(b Bound, value int64) (other *Policy, ok bool) {
	least, most := int64(0), int64(entry.MaxInteger)
	switch {
	case b.rule >= 0:
		least, most = 1, timesMax
		if b.Strategy == Retry && value > 1 && b.Value == 1 {
			return p.loaded(b.Path, value) // it may need a backoff then
		}
	case b.Path == limitAttempts:
		most = timesMax
	case b.Path == limitDeadline:
		least = 1
	}
	if value < least || value > most {
		return nil, false
	}
	q := *p
	switch b.Path {
	case limitAttempts:
		q.doc.Limits.Attempts = value
	case limitCost:
		q.doc.Limits.CostMicroUSD = value
	case limitTokens:
		q.doc.Limits.Tokens = value
	case limitDeadline:
		q.doc.Limits.DeadlineMS = value
	default:
		q.setMax(b.rule, b.rung, value)
	}
	text, err := canonical(&q.doc)
	if err != nil {
		return nil, false
	}
	q.canonical, q.hash = text, entry.DigestOf(text)
	return &q, true
}

func (p *Policy) loaded(path string, value int64) (*Policy, bool) {
	other, err := p.With(path, value)
	return other, err == nil
}

// setMax changes a rung of a copy of the policy. It changes nothing that the copy shares with the
// policy.
func (p *Policy) setMax(at, rung int, value int64) {
	p.doc.Rules, p.rules = slices.Clone(p.doc.Rules), slices.Clone(p.rules)
	doc, compiled := &p.doc.Rules[at], &p.rules[at]
	doc.Ladder, compiled.rungs = slices.Clone(doc.Ladder), slices.Clone(compiled.rungs)
	doc.Ladder[rung].Max = value
	compiled.ruleDoc, compiled.rungs[rung].rungDoc = doc, &doc.Ladder[rung]
}
