package coord

import (
	"maps"
	"slices"
)

// clone returns a state with the same content, to be changed on its own. It is a
// change of s as far as goroutines are concerned.
func (s *State) clone() *State {
	c := s.frozen()
	c.principals, c.workflows = s.principals.Clone(), s.workflows.Clone()
	c.executions.names, c.executions.users = s.executions.names.Clone(), maps.Clone(s.executions.users)
	c.checkpoints.names, c.runs.names, c.tasks.names = s.checkpoints.names.Clone(), s.runs.names.Clone(), s.tasks.names.Clone()
	return c
}

// frozen returns a state with the same content for [State.Snapshot] alone:
// nothing can be looked up in it by its name, nor who uses what. It is a change
// of s as far as goroutines are concerned.
func (s *State) frozen() *State {
	c := *s
	c.feed, c.assessed = nil, assessed{}
	c.chain = s.chain.Clone()
	c.policies, c.raised = slices.Clone(s.policies), slices.Clone(s.raised)
	c.able = maps.Clone(s.able)
	c.principals, c.workflows = s.principals.Frozen(), s.workflows.Frozen()
	c.usage = slices.Clone(s.usage)
	for i := range c.usage {
		u := &c.usage[i]
		u.judged, u.incidents = slices.Clone(u.judged), slices.Clone(u.incidents)
	}
	c.tree, c.graph = s.tree.clone(), s.graph.Clone()
	c.executions = s.executions.frozen()
	c.checkpoints = checkpoints{s.checkpoints.names.Frozen(), s.checkpoints.digests.Clone()}
	c.runs = runs{s.runs.names.Frozen(), slices.Clone(s.runs.list)}
	c.tasks = s.tasks.frozen()
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

func (t *tasks) frozen() tasks {
	c := tasks{t.names.Frozen(), slices.Clone(t.list), maps.Clone(t.of), maps.Clone(t.pointOf), maps.Clone(t.byPoint),
		maps.Clone(t.waiting), maps.Clone(t.held), maps.Clone(t.states), t.retries}
	for i := range c.list {
		one := &c.list[i]
		one.execs, one.points = slices.Clip(one.execs), slices.Clip(one.points) // what is there never changes
		one.failures = slices.Clone(one.failures)
	}
	return c
}

func (x *executions) frozen() executions {
	return executions{x.names.Frozen(), x.keyOf.Clone(), x.keys.Clone(), nil, maps.Clone(x.comps),
		x.costs.Clone(), x.before.Clone(), slices.Clone(x.newest)}
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
