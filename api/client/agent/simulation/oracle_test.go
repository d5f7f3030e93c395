package simulation

import (
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// The oracle reads SCO-1 to SCO-4 as they are written, over the observer's
// books, and repeats every rule until nothing changes.

// verdict is what the oracle says of a member.
type verdict struct {
	method     entry.Method
	checkpoint entry.Ref
}

func (x *record) effectless() bool {
	return x.progress == entry.Cancelled || x.progress == entry.Failed && x.clean
}

func (o *observer) mates(x, y *record) bool {
	return !x.comp && !y.comp && o.line(x.agent, x.wid) == o.line(y.agent, y.wid)
}

// reach is SCO-1's walk, which goes through what was undone before.
func (o *observer) reach(from map[entry.Ref]bool) map[entry.Ref]bool {
	reach := map[entry.Ref]bool{}
	for ref := range from {
		if !o.execs[ref].comp {
			reach[ref] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, y := range o.order {
			for _, p := range y.parents {
				if p.Dep == entry.Hard && reach[p.Exec] && !reach[y.ref] {
					reach[y.ref], grew = true, true
				}
			}
		}
	}
	return reach
}

// backTo returns the checkpoint that the line of x goes back to, nil if there is
// none to; back is false if the line does not go back.
func (o *observer) backTo(x *record, members map[entry.Ref]bool, until int64) (c *point, back bool) {
	for ref := range members {
		m := o.execs[ref]
		back = back || o.mates(m, x) && m.effect == entry.EffectReversible && m.started != 0 && !m.effectless()
	}
	if !back {
		return nil, false
	}
	for _, p := range o.points {
		usable := !p.void && (p.expires == 0 || p.expires > until) && o.line(p.agent, p.wid) == o.line(x.agent, x.wid)
		for ref := range members {
			if m := o.execs[ref]; o.mates(m, x) && m.started != 0 && p.index >= m.started {
				usable = false
			}
		}
		if usable && (c == nil || p.index > c.index) {
			c = p
		}
	}
	return c, true
}

// closure is the plan that the rules give for seeds.
func (o *observer) closure(seeds map[entry.Ref]bool, until int64) map[entry.Ref]verdict {
	members := map[entry.Ref]bool{}
	for grew := true; grew; {
		grew = false
		add := func(x *record) {
			if !members[x.ref] && !x.undone {
				members[x.ref], grew = true, true
			}
		}
		from := map[entry.Ref]bool{}
		for ref := range seeds {
			from[ref] = true
		}
		for ref := range members {
			from[ref] = true
		}
		for ref := range o.reach(from) {
			add(o.execs[ref])
		}
		for _, x := range o.order {
			if x.comp {
				continue
			}
			c, back := o.backTo(x, members, until)
			stands := x.started != 0 && x.progress != entry.Cancelled
			if back && (c == nil || stands && (x.final == 0 || x.final > c.covered)) {
				add(x)
			}
		}
	}
	plan := map[entry.Ref]verdict{}
	for ref := range members {
		plan[ref] = o.method(o.execs[ref], members, until)
	}
	return plan
}

// method is SCO-4.
func (o *observer) method(x *record, members map[entry.Ref]bool, until int64) verdict {
	switch {
	case x.progress == entry.Planned:
		return verdict{method: entry.MethodCancel}
	case x.effectless(), x.effect == entry.EffectNone:
		return verdict{method: entry.MethodNone}
	case x.effect == entry.EffectCompensable:
		return verdict{method: entry.MethodCompensate}
	case x.effect == entry.EffectReversible:
		if c, _ := o.backTo(x, members, until); c != nil {
			return verdict{entry.MethodRestore, c.ref}
		}
	}
	return verdict{method: entry.MethodResidual}
}

// seeds is SCO-3: the subjects of the signals of the decision, and what their
// ranges reach over.
func (o *observer) seeds(d *decided) map[entry.Ref]bool {
	view, _ := o.w.ledger.state.Incident(d.Incident, o.w.now)
	var leaves []merkle.Hash
	found := map[entry.Ref]bool{}
	for _, s := range view.Signals {
		if s.Index >= d.Pin.Size {
			continue
		}
		leaves, d.restsOn = append(leaves, o.w.ledger.leafHash(s.Index)), append(d.restsOn, s.Index)
		if slices.ContainsFunc(d.Dismissed, func(u entry.Dismissal) bool { return u.Index == s.Index }) {
			continue
		}
		o.seed(found, s.Index)
	}
	if merkle.HeadOf(leaves) != *d.Signals {
		o.w.fail("decision %d: it does not rest on the signals of incident %d", d.ref.Index, d.Incident)
	}
	return found
}

func (o *observer) seed(found map[entry.Ref]bool, index uint64) {
	s := o.signals[index]
	subject := o.execs[s.Subject]
	found[s.Subject] = true
	third := (s.Standing == entry.StandingMonitor || s.Standing == entry.StandingOperator) && len(s.Evidence) > 0
	if s.Since == "" || s.Standing != entry.StandingExecutor && !third {
		return
	}
	first := o.execs[s.Since]
	at := o.w.ledger.log[index].RegisteredAt
	if first.comp || first.agent != subject.agent || first.wid != subject.wid || first.first > subject.first || at-first.at > o.policy.Windows.SinceMaxMS {
		return
	}
	for _, x := range o.order {
		if !x.comp && x.agent == subject.agent && x.wid == subject.wid && x.first >= first.first && x.first <= subject.first {
			found[x.ref] = true
		}
	}
}

// checkScope compares a plan that comes into force with the oracle's.
func (o *observer) checkScope(a *affair, now *decided) {
	until := o.w.ledger.last + o.policy.Windows.DeadlineMaxMS
	seeds := o.seeds(now)
	plan := o.closure(seeds, until)
	if a.decision == nil {
		if len(plan) != len(now.members) {
			o.w.fail("decision %d has %d members, the rules give %d: %v, want %v", now.ref.Index, len(now.members), len(plan), now.members, plan)
		}
		for i := range now.members {
			m := &now.members[i]
			if want, in := plan[m.Exec]; !in || want != (verdict{m.Method, m.Checkpoint}) {
				o.w.fail("decision %d: %s %s %s, the rules give %v (%t)", now.ref.Index, m.Exec, m.Method, m.Checkpoint, want, in)
			}
		}
		return
	}
	wide := map[entry.Ref]bool{}
	for ref := range seeds {
		wide[ref] = true
	}
	for i := range a.decision.members {
		ref := a.decision.members[i].Exec
		wide[ref] = true
		if o.member(now, ref) == nil {
			o.w.fail("amend %d leaves out %s", now.ref.Index, ref)
		}
	}
	most := o.closure(wide, until)
	for ref := range plan {
		if o.member(now, ref) == nil {
			o.w.fail("amend %d leaves out %s, which the rules give", now.ref.Index, ref)
		}
	}
	for i := range now.members {
		ref := now.members[i].Exec
		if _, in := most[ref]; !in && o.member(a.decision, ref) == nil {
			o.w.fail("amend %d has %s, which no rule gives", now.ref.Index, ref)
		}
	}
}
