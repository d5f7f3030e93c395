package rollout

import (
	"cmp"
	"math/big"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
)

// Evidence is what the attempts in the log say of the two arms of a canary.
type Evidence struct {
	Canary, Control api.RolloutArm
	Gates           []Comparison // of the rollout's gates, in their order
	Groups          []Group      // in which recoveries and costs are watched, too
	Fell            entry.Gate   // the first gate that fell; empty: none has
	FellIn          string       // the class or slice in which it fell; empty: over all cases
	pairing         pairs[result]
}

// Comparison is a gate with its comparison of the arms. Unsafe recoveries are counted and not
// compared: the first one of the canary has the gate fall.
type Comparison struct {
	Gate  entry.Gate
	Watch judge.Watch
}

// result is a case as the gates see it. Unknown numbers are -1.
type result struct {
	recovered, escalated bool
	cost, elapsed        int64
}

// newEvidence returns the evidence of a rollout that begins.
func newEvidence(t *entry.RolloutTerms) Evidence {
	e, tests := Evidence{Groups: sliceGroups(t)}, int64(0)
	for _, gate := range t.Gates {
		if gate != entry.GateUnsafe {
			tests++
		}
	}
	if grouped(t) {
		tests *= 2 // the groups have the other half of the error budget
	}
	for _, gate := range t.Gates {
		w := judge.NewWatch(t.CasesMin)
		w.Tests = max(1, tests)
		e.Gates = append(e.Gates, Comparison{gate, *w})
	}
	return e
}

// clone returns a copy that changes independently.
func (e *Evidence) clone() Evidence {
	c := *e
	c.Gates, c.Groups, c.pairing.waiting = slices.Clone(e.Gates), slices.Clone(e.Groups), slices.Clone(e.pairing.waiting)
	for i := range c.Groups {
		c.Groups[i].pairing.waiting = slices.Clone(c.Groups[i].pairing.waiting)
	}
	return c
}

// Observe takes up an attempt entry that was admitted. It is evidence if the rollout under way is a
// canary, and the entry says that the rollout's candidate or its baseline decided as an arm. The
// first result of a case is its result. What failed in a case that goes on counts with its result,
// whoever decided.
func (f *Fold) Observe(a *entry.Attempt) {
	now := f.current
	if now == nil {
		return
	}
	for c := range a.Cases() {
		if a.Arm == entry.ArmShadow || c.Status != entry.StatusPassedOn {
			continue // an entry of the baseline says what failed
		}
		if key := KeyOf(now.Terms.Salt, a, c.Case); !now.seen.has(key) {
			now.open.Note(key, a.Arm, c, now.leftToPeople(c))
		}
	}
	if now.Stage != entry.StageCanary {
		return
	}
	canary := a.Arm == entry.ArmCanary && a.Policy == now.Terms.CandidateDigest
	if !canary && (a.Arm != entry.ArmControl || a.Policy != now.Terms.BaselineDigest) {
		return
	}
	for c := range a.Cases() {
		ended := c.Status == entry.StatusRecovered || c.Status == entry.StatusEscalated
		if !ended || canary != (Draw(now.Terms.Salt, c.Case) < now.SharePermille) {
			continue
		}
		if key := KeyOf(now.Terms.Salt, a, c.Case); now.seen.add(key) {
			before, forgotten := now.open.end(key), now.open.unknown(key)
			now.takeKnown(c, before, !forgotten && before.by(a.Arm), canary)
		}
	}
}

// takeKnown takes up how a case ended. alone says that its arm alone decided about it. If another
// arm decided, too, or earlier entries are forgotten, the case is no evidence of the arm. An unsafe
// recovery that the known entries say counts all the same.
func (r *Rollout) takeKnown(c *entry.AttemptCase, before begun, alone, canary bool) {
	switch recovered := c.Status == entry.StatusRecovered; {
	case alone || recovered && (before.never || r.leftToPeople(c)):
		r.take(c, before, canary)
	case canary:
		r.Evidence.Canary.Unknown++
	default:
		r.Evidence.Control.Unknown++
	}
}

// AdmitAttempt checks the arm of an attempt of the rollout under way (ROL-5): the candidate decides
// no case beyond its share. The error is a [*entry.Refusal].
func (f *Fold) AdmitAttempt(a *entry.Attempt) error {
	now := f.current
	if now == nil || a.Arm != entry.ArmCanary || a.Policy != now.Terms.CandidateDigest {
		return nil // what is under way ends under its own policy
	}
	for c := range a.Cases() {
		if Draw(now.Terms.Salt, c.Case) >= now.SharePermille {
			return entry.Refuse(entry.StateConflict, "arm", "case %s is not of the canary of rollout %s (ROL-5)", c.Case, now.Name).
				WithRemedy("let the baseline decide the case")
		}
	}
	return nil
}

// take takes up how a case ended, with what earlier entries say about the case.
func (r *Rollout) take(c *entry.AttemptCase, before begun, canary bool) {
	e := &r.Evidence
	one := result{recovered: c.Status == entry.StatusRecovered, escalated: c.Status == entry.StatusEscalated, cost: known(c.CostMicroUSD), elapsed: known(c.ElapsedMS)}
	if before.unpriced || unpriced(c) { // the rest would make a dear arm look cheap
		one.cost = -1
	}
	arm := &e.Control
	if canary {
		arm = &e.Canary
	}
	unsafe := one.recovered && (before.never || r.leftToPeople(c))
	countCase(arm, &one, unsafe)
	r.byGroup(c, cmp.Or(before.class, classOf(c)), &one, unsafe, canary)
	if unsafe && canary {
		r.fall(entry.GateUnsafe, "")
	}
	if canary, control, ok := e.pairing.pair(one, canary); ok {
		r.compare(&canary, &control)
	}
}

func countCase(a *api.RolloutArm, r *result, unsafe bool) {
	a.Cases++
	if r.recovered {
		a.Recovered++
	}
	if r.escalated {
		a.Escalated++
	}
	if unsafe {
		a.Unsafe++
	}
	if r.cost >= 0 && a.CostMicroUSD <= entry.MaxInteger-r.cost {
		a.Costed, a.CostMicroUSD = a.Costed+1, a.CostMicroUSD+r.cost
	}
	if r.elapsed >= 0 && a.ElapsedMS <= entry.MaxInteger-r.elapsed {
		a.Timed, a.ElapsedMS = a.Timed+1, a.ElapsedMS+r.elapsed
	}
}

// compare takes the next pair of cases, one of each arm.
func (r *Rollout) compare(canary, control *result) {
	t := &r.Terms
	for i := range r.Evidence.Gates {
		g := &r.Evidence.Gates[i]
		var better, worse bool
		switch g.Gate {
		case entry.GateRecovered:
			better, worse = canary.recovered, control.recovered
		case entry.GateEscalated:
			better, worse = !canary.escalated, !control.escalated
		case entry.GateCost:
			better, worse = less(canary.cost, control.cost, t.TolerancePPM), less(control.cost, canary.cost, t.TolerancePPM)
		case entry.GateLatency:
			better, worse = less(canary.elapsed, control.elapsed, t.TolerancePPM), less(control.elapsed, canary.elapsed, t.TolerancePPM)
		default:
			continue
		}
		if g.Watch.Pair(better, worse) == judge.Reference {
			r.fall(g.Gate, "")
		}
	}
}

// fall has a gate of the rollout's terms fall, in a group or over all cases. The first one counts.
func (r *Rollout) fall(gate entry.Gate, in string) {
	if e := &r.Evidence; e.Fell == "" && slices.Contains(r.Terms.Gates, gate) {
		e.Fell, e.FellIn = gate, in
	}
}

// less reports whether a known number is smaller than another by more than a tolerance.
func less(a, b, tolerancePPM int64) bool {
	return a >= 0 && b >= 0 && new(big.Int).Mul(big.NewInt(a), big.NewInt(million+tolerancePPM)).Cmp(new(big.Int).Mul(big.NewInt(b), big.NewInt(million))) < 0
}

const million = 1_000_000

func known(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// unpriced reports whether nobody knows what an attempt of a case cost.
func unpriced(c *entry.AttemptCase) bool {
	return slices.ContainsFunc(c.Rungs, func(r entry.Rung) bool {
		return recovery.Unpriced(recovery.Strategy(r.Strategy), recovery.Result(r.Result), r.CostMicroUSD)
	})
}

// leftToPeople reports whether the rules leave a failure of a case to people: its class, or class
// and code, must not recover by themselves.
func (r *Rollout) leftToPeople(c *entry.AttemptCase) bool {
	return slices.ContainsFunc(c.Rungs, func(rung entry.Rung) bool {
		return slices.Contains(r.never, rung.Class) || slices.Contains(r.never, rung.Class+"."+rung.Code)
	})
}
