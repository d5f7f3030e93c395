package coord

import (
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// route gives tasks that wait to agents: new, interrupted, and failed ones that
// may be tried again. Who gets one has its type among its capabilities and
// has not failed at it just now; of those, who
// holds the fewest tasks, and of these the first by name. A task without a type
// is for people to assign.
func (n *next) route() {
	r := router{next: n, held: maps.Clone(n.tasks.held)}
	for _, number := range slices.Sorted(maps.Keys(n.tasks.waiting)) {
		if t := &n.tasks.list[number]; t.kind != "" && n.mayRoute(t) {
			r.assign(number, t)
		}
		if r.assigned == routeMax {
			return
		}
	}
}

// mayRoute reports whether the coordinator may give a task away by itself.
func (n *next) mayRoute(t *task) bool {
	switch t.State {
	case entry.TaskCreated:
		return true
	case entry.TaskFailed:
		return !t.spent()
	}
	return t.State == entry.TaskInterrupted
}

// router is a call of route.
type router struct {
	*next
	held     map[entry.Principal]int64 // tasks of each agent, with those given now
	assigned int
}

func (r *router) assign(number uint32, t *task) {
	agent := r.candidate(t)
	if agent == "" || t.State != entry.TaskCreated && r.effectGate(t) != nil {
		return
	}
	b, err := r.DraftTask(TaskOrder{Task: r.taskRef(number), Op: entry.TaskAssign, Agent: agent, Reason: "the agent with this capability that holds the fewest tasks"})
	if err != nil {
		return // the table has no such move
	}
	r.held[agent]++
	r.assigned++
	r.todo = append(r.todo, b)
}

// candidate returns who is to get a task; nobody if it is empty.
func (r *router) candidate(t *task) (best entry.Principal) {
	for _, agent := range r.able[t.kind] {
		if t.State == entry.TaskFailed && agent == t.agent || r.held[agent] >= agentTasksMax {
			continue
		}
		if best == "" || r.held[agent] < r.held[best] {
			best = agent
		}
	}
	return best
}

// able are the agents by capability, in the order of their names: those with the
// role agent, by a key that counts. Lists are replaced, never changed, so that
// clones may share them.
type able map[string][]entry.Principal

func (a able) add(info *verify.AgentInfo) {
	if !slices.Contains(info.Roles, entry.RoleAgent) {
		return
	}
	for _, capability := range info.Capabilities {
		list := slices.Concat(a[capability], []entry.Principal{info.Principal})
		slices.Sort(list)
		a[capability] = slices.Compact(list)
	}
}

func (a able) remove(info *verify.AgentInfo) {
	for _, capability := range info.Capabilities {
		list := slices.DeleteFunc(slices.Clone(a[capability]), func(p entry.Principal) bool { return p == info.Principal })
		if a[capability] = list; len(list) == 0 {
			delete(a, capability)
		}
	}
}
