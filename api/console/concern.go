package console

import (
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Bounds of what a list counts and names.
const (
	// listMembers is the number of members after which a list counts no further plans. Without the
	// bound, a list of incidents with large plans would keep the state busy for minutes.
	listMembers = 20_000
	// namesShown is the number of names that stand in a title.
	namesShown = 16
	// namesInCell is the number of names that stand in a cell: 200 of them are on a page.
	namesInCell = 4
)

// names are principals in the order in which they were found.
type names []entry.Principal

// add adds a principal, once.
func (n *names) add(p entry.Principal) {
	if !slices.Contains(*n, p) {
		*n = append(*n, p)
	}
}

// String returns at most [namesShown] names, and how many more there are.
func (n names) String() string { return n.first(namesShown) }

// Few returns at most [namesInCell] names, and how many more there are.
func (n names) Few() string { return n.first(namesInCell) }

func (n names) first(most int) string {
	var texts []string
	for _, p := range n[:min(len(n), most)] {
		texts = append(texts, words.Legible(string(p)))
	}
	if more := len(n) - most; more > 0 {
		texts = append(texts, strconv.Itoa(more)+" more")
	}
	return strings.Join(texts, ", ")
}

// concern is what an incident is about to undo, or has undone.
type concern struct {
	Agents   names // of the members, the agent of the oldest member first; without a plan, of what the signals are about
	Planned  bool  // whether there is a plan
	Residual int   // members that cannot be undone
}

// incidentLister makes the lines of a list of incidents.
type incidentLister struct {
	state *coord.State
	now   int64 // Unix milliseconds
	left  int   // members of plans that further lines count
}

func newIncidentLister(state *coord.State, now int64) *incidentLister {
	return &incidentLister{state, now, listMembers}
}

// row makes the line of an incident. The line does not tell the concern of the incident if the
// lines before counted too many members.
func (l *incidentLister) row(v *api.Incident) incidentRow {
	r := incidentRow{ID: v.ID, Opened: v.OpenedAt, State: words.IncidentState(v), Open: v.State.Open(), Workflow: v.Wid,
		About: v.Signals[0].Subject, Signals: len(v.Signals), WaitsFor: words.IncidentWaitsFor(v)}
	if l.left > 0 {
		r.Concern = l.concern(v)
	}
	return r
}

// concern counts the plan in force, or the plan that a decision would have now.
func (l *incidentLister) concern(v *api.Incident) *concern {
	plan, planned := l.state.PlanInForce(v.ID, l.now)
	if !planned && v.State.Open() {
		plan, planned = l.state.Preview(v.ID, nil, l.now)
	}
	c := &concern{Planned: planned}
	if !planned {
		for i := range v.Signals {
			agent, _ := v.Signals[i].Subject.Split()
			c.Agents.add(agent)
		}
		return c
	}
	l.left -= len(plan.Members)
	c.Residual = plan.Residual()
	c.Agents = agentsOf(&plan.Plan)
	return c
}

// agentsOf returns the agents of a plan, the agent of the oldest member first.
func agentsOf(plan *api.Plan) (list names) {
	seen := map[entry.Principal]bool{}
	for i := range slices.Backward(plan.Members) { // they descend
		if agent := plan.Members[i].Agent; !seen[agent] {
			seen[agent] = true
			list = append(list, agent)
		}
	}
	return list
}
