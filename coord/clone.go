package coord

import (
	"maps"
	"slices"
)

// Clone returns a state with the same content. The clone and s change independently. For
// goroutines, a call of Clone counts as a change of s.
func (s *State) Clone() *State {
	c := s.Frozen()
	c.principals, c.workflows = s.principals.Clone(), s.workflows.Clone()
	c.executions.names, c.executions.users = s.executions.names.Clone(), maps.Clone(s.executions.users)
	c.checkpoints.names, c.runs.names, c.tasks.names = s.checkpoints.names.Clone(), s.runs.names.Clone(), s.tasks.names.Clone()
	return c
}

// Frozen returns a state with the same content for [State.Snapshot] alone. Lookups by name, and
// of the agents that use an execution, do not work in it. For goroutines, a call of Frozen counts
// as a change of s.
func (s *State) Frozen() *State {
	c := *s
	c.assessed = assessed{}
	c.chain = s.chain.Clone()
	c.policies, c.privilegeGrants = slices.Clone(s.policies), slices.Clone(s.privilegeGrants)
	c.agentsByCapability = maps.Clone(s.agentsByCapability)
	c.principals, c.workflows = s.principals.Frozen(), s.workflows.Frozen()
	c.usage = slices.Clone(s.usage)
	for i := range c.usage {
		u := &c.usage[i]
		u.judged, u.incidents = slices.Clone(u.judged), slices.Clone(u.incidents)
	}
	c.tree, c.graph = s.tree.Clone(), s.graph.Clone()
	c.executions = s.executions.frozen()
	c.checkpoints = checkpoints{s.checkpoints.names.Frozen(), s.checkpoints.digests.Clone()}
	c.runs = runs{s.runs.names.Frozen(), slices.Clone(s.runs.list)}
	c.tasks, c.rollouts = s.tasks.frozen(), s.rollouts.Clone()
	c.signals = slices.Clone(s.signals)
	c.incidents = make([]*incident, len(s.incidents))
	for i, inc := range s.incidents {
		c.incidents[i] = inc.clone()
	}
	c.open, c.cooldowns = maps.Clone(s.open), maps.Clone(s.cooldowns)
	c.incidentsByExecution, c.incidentsByLine = cloneLists(s.incidentsByExecution), cloneLists(s.incidentsByLine)
	return &c
}

func cloneLists[K comparable](lists map[K][]uint32) map[K][]uint32 {
	clone := make(map[K][]uint32, len(lists))
	for key, list := range lists {
		clone[key] = slices.Clone(list)
	}
	return clone
}

func (t *tasks) frozen() tasks {
	c := tasks{t.names.Frozen(), slices.Clone(t.list), maps.Clone(t.of), maps.Clone(t.pointOf), maps.Clone(t.byPoint),
		maps.Clone(t.waiting), cloneLists(t.held), maps.Clone(t.states), t.retries}
	for i := range c.list {
		one := &c.list[i]
		one.execs, one.points = slices.Clip(one.execs), slices.Clip(one.points) // elements never change
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
	c.signals, c.overrides, c.entries = slices.Clone(inc.signals), slices.Clone(inc.overrides), slices.Clip(inc.entries) // elements never change
	if inc.proposal != nil {
		p := *inc.proposal
		p.approvals = slices.Clone(p.approvals)
		c.proposal = &p
	}
	if inc.current != nil {
		f := *inc.current
		f.members = slices.Clone(f.members)
		f.restores, f.waits, f.through = maps.Clone(f.restores), maps.Clone(f.waits), maps.Clone(f.through)
		c.current = &f
	}
	return &c
}
