package coord

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Route returns the claims that give waiting tasks to agents, in the form in which Next returns
// entries. A waiting task is new, or it failed or was interrupted and the rules of the policy in
// force say how it continues. The agent has the type of the task among its capabilities. It has
// not failed at the task just now, unless the rules allow that. Route chooses the agent that holds
// the fewest tasks, and of these agents the first by name. The agent that was interrupted at the
// task just now gets it only if there is no other agent. People assign a task without a type, and
// a task that the rules leave to people. The result follows from the state and the instant alone.
func (s *State) Route(now int64, rules *Rules) (todo []entry.Body, wake int64) {
	r := router{State: s, now: now, rules: rules, given: map[entry.Principal]int64{}, wake: math.MaxInt64}
	for _, number := range slices.Sorted(maps.Keys(s.tasks.waiting)) {
		if t := &s.tasks.list[number]; len(s.agentsByCapability[t.kind]) > 0 { // no agent has the type ""
			r.route(number, t)
		}
		if len(r.todo) == routeMax {
			break
		}
	}
	return r.todo, r.wake
}

// router is a call of Route.
type router struct {
	*State
	now   int64
	rules *Rules
	given map[entry.Principal]int64 // tasks that each agent gets by this call
	todo  []entry.Body
	wake  int64
}

// claim says how the router gives a task to an agent.
type claim struct {
	another bool // not to the agent that failed at the task last
	resume  bool // from a checkpoint
	reason  string
}

// route gives a task to an agent, if an agent may have the task now.
func (r *router) route(number uint32, t *task) {
	c := claim{reason: "new: to the agent with this capability that holds the fewest"}
	switch {
	case r.candidate(t, &c) == "": // whatever the rules say
		return
	case t.State == entry.TaskCreated:
	case !r.recovers(t):
		return
	default:
		d := r.recovery(number, r.now, r.rules)
		var given bool
		if c, given = claimFor(d.Action.Strategy); !given {
			return
		}
		if r.now < d.Due {
			r.wake = min(r.wake, d.Due)
			return
		}
		c.reason = d.Action.String() + " (" + d.Rule.String() + ")"
	}
	agent := r.candidate(t, &c)
	b, listed := r.moveTask(number, entry.TaskAssign, agent, c.resume)
	if b.Reason = c.reason; agent != "" && listed {
		r.given[agent], r.todo = r.given[agent]+1, append(r.todo, &b)
	}
}

// claimFor returns how a task is given to an agent under a recovery strategy. given is false if
// the strategy executes nothing again: then the task is left to a person.
func claimFor(s recovery.Strategy) (c claim, given bool) {
	resume := s == recovery.CheckpointResume
	return claim{another: resume || s == recovery.FailReassign, resume: resume}, s.Attempts()
}

// Failed yields the tasks that failed or were interrupted, that no agent holds, and that have a
// type of which there are agents, with the index of their newest entry, in their order.
func (s *State) Failed() iter.Seq2[entry.Ref, uint64] {
	return func(yield func(entry.Ref, uint64) bool) {
		for _, number := range slices.Sorted(maps.Keys(s.tasks.waiting)) {
			t := &s.tasks.list[number]
			failed := len(t.failures) > 0 && (t.State == entry.TaskFailed || t.State == entry.TaskInterrupted)
			if failed && len(s.agentsByCapability[t.kind]) > 0 && !yield(s.taskRef(number), t.changed) {
				return
			}
		}
	}
}

// candidate returns the agent that is to get a task. It is empty if no agent may get the task.
func (r *router) candidate(t *task, c *claim) entry.Principal {
	var best api.Candidate
	for one := range r.candidates(t, c.another, r.given) {
		if best.Agent == "" || t.compare(one, best) < 0 {
			best = one
		}
	}
	return best.Agent
}

// candidates yields the agents that may get a task, by name. Such an agent has the type of the
// task among its capabilities, and holds fewer tasks than the limit, with those that it was given
// since. If another is set, the agent that failed at the task just now is left out. An agent that
// was interrupted has not failed.
func (s *State) candidates(t *task, another bool, given map[entry.Principal]int64) iter.Seq[api.Candidate] {
	return func(yield func(api.Candidate) bool) {
		for _, agent := range s.agentsByCapability[t.kind] {
			held := int64(len(s.tasks.held[agent])) + given[agent]
			if another && t.failedBy(agent) || held >= agentTasksMax {
				continue
			}
			if !yield(api.Candidate{Agent: agent, Held: held}) {
				return
			}
		}
	}
}

// compare orders candidates as they are chosen: the agent that holds fewer tasks comes first. The
// agent that was interrupted at the task just now comes last. That agent was asked to end. If it
// ends before it begins the claim, the claim costs a retry.
func (t *task) compare(a, b api.Candidate) int {
	return cmp.Or(cmp.Compare(t.interruptedFrom(a.Agent), t.interruptedFrom(b.Agent)), cmp.Compare(a.Held, b.Held))
}

// interruptedFrom is 1 if the task was just now taken from a principal because the principal was
// asked to end, and 0 otherwise.
func (t *task) interruptedFrom(p entry.Principal) int {
	if t.State == entry.TaskInterrupted && t.Agent == p {
		return 1
	}
	return 0
}

// failedBy reports whether a principal failed at the task just now.
func (t *task) failedBy(p entry.Principal) bool { return t.State == entry.TaskFailed && t.Agent == p }

// agentsByCapability are the agents by capability, in the order of their names. Each has the role
// agent by a key that counts. Lists are replaced and never changed, so that clones may share them.
type agentsByCapability map[string][]entry.Principal

func (a agentsByCapability) add(info *verify.AgentInfo) {
	if !slices.Contains(info.Roles, entry.RoleAgent) {
		return
	}
	for _, capability := range info.Capabilities {
		list := slices.Concat(a[capability], []entry.Principal{info.Principal})
		slices.Sort(list)
		a[capability] = slices.Compact(list)
	}
}

func (a agentsByCapability) remove(info *verify.AgentInfo) {
	for _, capability := range info.Capabilities {
		list := slices.DeleteFunc(slices.Clone(a[capability]), func(p entry.Principal) bool { return p == info.Principal })
		if a[capability] = list; len(list) == 0 {
			delete(a, capability)
		}
	}
}
