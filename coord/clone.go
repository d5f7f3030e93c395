package coord

import (
	"maps"
	"slices"
)

// clone returns a state with the same content, which shares nothing that
// changes.
func (s *State) clone() *State {
	c := *s
	c.feed, c.assessed = nil, assessed{}
	c.chain = s.chain.Clone()
	c.policies, c.raised = slices.Clone(s.policies), slices.Clone(s.raised)
	c.able = maps.Clone(s.able)
	c.principals, c.workflows = s.principals.Clone(), s.workflows.Clone()
	c.usage = slices.Clone(s.usage)
	for i := range c.usage {
		u := &c.usage[i]
		u.judged, u.incidents = slices.Clone(u.judged), slices.Clone(u.incidents)
	}
	c.tree, c.graph = s.tree.clone(), s.graph.Clone()
	c.executions = s.executions.clone()
	c.checkpoints = checkpoints{s.checkpoints.names.Clone(), s.checkpoints.digests.CloneFrozen()}
	c.runs = runs{s.runs.names.Clone(), slices.Clone(s.runs.list)}
	c.tasks = s.tasks.clone()
	c.signals = slices.Clone(s.signals)
	c.incidents = make([]*incident, len(s.incidents))
	for i, inc := range s.incidents {
		c.incidents[i] = inc.clone()
	}
	c.open, c.cooldowns = maps.Clone(s.open), maps.Clone(s.cooldowns)
	c.touched, c.touchedLines = cloneLists(s.touched), cloneLists(s.touchedLines)
	return &c
}

func cloneLists(lists map[uint32][]uint32) map[uint32][]uint32 {
	clone := make(map[uint32][]uint32, len(lists))
	for key, list := range lists {
		clone[key] = slices.Clone(list)
	}
	return clone
}

func (t *tasks) clone() tasks {
	c := tasks{t.names.Clone(), slices.Clone(t.list), maps.Clone(t.of), maps.Clone(t.pointOf), maps.Clone(t.byPoint),
		maps.Clone(t.waiting), maps.Clone(t.held), maps.Clone(t.states), t.retries}
	for i := range c.list {
		one := &c.list[i]
		one.execs, one.points = slices.Clip(one.execs), slices.Clip(one.points) // what is there never changes
		one.failures = slices.Clone(one.failures)
	}
	return c
}

func (x *executions) clone() executions {
	return executions{x.names.Clone(), x.keyOf.CloneFrozen(), x.keys.CloneFrozen(), maps.Clone(x.users), maps.Clone(x.comps),
		x.costs.Clone(), x.before.CloneFrozen(), slices.Clone(x.newest)}
}

func (inc *incident) clone() *incident {
	c := *inc
	c.signals, c.overrides = slices.Clone(inc.signals), slices.Clone(inc.overrides)
	if inc.proposal != nil {
		p := *inc.proposal
		p.approvals = slices.Clone(p.approvals)
		c.proposal = &p
	}
	if inc.force != nil {
		f := *inc.force
		f.members = slices.Clone(f.members)
		f.restores, f.waits, f.through = maps.Clone(f.restores), maps.Clone(f.waits), maps.Clone(f.through)
		c.force = &f
	}
	return &c
}
