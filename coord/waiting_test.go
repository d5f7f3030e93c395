package coord

import (
	"reflect"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestTaskWaits holds what is said of a task that waits to a table: whose entry it
// waits for, by which operation an operator gives it on, and to whom.
func TestTaskWaits(t *testing.T) {
	type said struct {
		waits, givenBy string
		reassign       *api.Reassignment
	}
	const operator, coordinator = api.WaitsOperator, api.WaitsCoordinator
	gate := entry.Refuse(entry.StateConflict, "task", "effects in doubt")
	people, another, rules := &TaskRecovery{People: true}, &TaskRecovery{Another: true}, &TaskRecovery{}
	none := func(obstacle string) *api.Reassignment { return &api.Reassignment{Obstacle: obstacle} }
	candidates := []Candidate{{"bob", 0}, {"cid", 2}}
	for name, c := range map[string]struct {
		state entry.TaskState
		view  TaskView
		want  said
	}{
		"held":        {entry.TaskInProgress, TaskView{Type: "cook"}, said{}},
		"over":        {entry.TaskCompleted, TaskView{Type: "cook"}, said{}},
		"new":         {entry.TaskCreated, TaskView{Type: "cook", Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"busy":        {entry.TaskCreated, TaskView{Type: "cook"}, said{coordinator, entry.TaskReassign, none(api.ObstacleBusy)}},
		"untyped":     {entry.TaskCreated, TaskView{}, said{operator, entry.TaskReassign, none(api.ObstacleUntyped)}},
		"nobody":      {entry.TaskCreated, TaskView{Type: "cook", Unassignable: true}, said{operator, entry.TaskReassign, none(api.ObstacleUnassignable)}},
		"blocked":     {entry.TaskBlocked, TaskView{Type: "cook"}, said{operator, entry.TaskRelease, nil}},
		"spent":       {entry.TaskFailed, TaskView{Type: "cook", Spent: true}, said{operator, entry.TaskRelease, none(api.ObstacleRelease)}},
		"gate":        {entry.TaskInterrupted, TaskView{Type: "cook", Gate: gate}, said{operator, entry.TaskRelease, none(api.ObstacleRelease)}},
		"people":      {entry.TaskFailed, TaskView{Type: "cook", Recovery: people, Candidates: candidates}, said{operator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"another":     {entry.TaskFailed, TaskView{Type: "cook", Recovery: another, Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob", Except: "ann"}}},
		"only ann":    {entry.TaskFailed, TaskView{Type: "cook", Recovery: another, Unassignable: true}, said{operator, entry.TaskReassign, &api.Reassignment{Except: "ann", Obstacle: api.ObstacleUnassignable}}},
		"again":       {entry.TaskFailed, TaskView{Type: "cook", Recovery: rules, Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"interrupted": {entry.TaskInterrupted, TaskView{Type: "cook", Recovery: rules}, said{coordinator, entry.TaskReassign, none(api.ObstacleBusy)}},
	} {
		c.view.State, c.view.Agent = c.state, "ann"
		got := said{c.view.Waits(), c.view.GivenBy(), c.view.Reassign()}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v %+v, want %+v %+v", name, got, got.reassign, c.want, c.want.reassign)
		}
	}
}

// TestAsksPeople: an incident waits for people when it is escalated, and when an amend
// of the plan in force is proposed.
func TestAsksPeople(t *testing.T) {
	for _, c := range []struct {
		state    IncidentState
		proposal *api.Proposal
		want     bool
	}{
		{Reported, nil, false},
		{Contained, nil, false},
		{Escalated, &api.Proposal{}, true},
		{Escalated, nil, true},
		{Authorized, nil, false},
		{Authorized, &api.Proposal{}, true},
		{Dismissed, &api.Proposal{}, false},
	} {
		if got := asksPeople(&IncidentView{State: c.state, Incident: api.Incident{Proposal: c.proposal}}); got != c.want {
			t.Errorf("%s, proposal %v: %v", c.state, c.proposal != nil, got)
		}
	}
}
