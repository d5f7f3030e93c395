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
	another, rules := &api.TaskRecovery{Another: true}, &api.TaskRecovery{}
	none := func(obstacle string) *api.Reassignment { return &api.Reassignment{Obstacle: obstacle} }
	candidates := []api.Candidate{{Agent: "bob"}, {Agent: "cid", Held: 2}}
	for name, c := range map[string]struct {
		state entry.TaskState
		view  api.Task
		want  said
	}{
		"held":        {entry.TaskInProgress, api.Task{Type: "cook"}, said{}},
		"over":        {entry.TaskCompleted, api.Task{Type: "cook"}, said{}},
		"new":         {entry.TaskCreated, api.Task{Type: "cook", Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"busy":        {entry.TaskCreated, api.Task{Type: "cook"}, said{coordinator, entry.TaskReassign, none(api.ObstacleBusy)}},
		"untyped":     {entry.TaskCreated, api.Task{}, said{operator, entry.TaskReassign, none(api.ObstacleUntyped)}},
		"nobody":      {entry.TaskCreated, api.Task{Type: "cook", Unassignable: true}, said{operator, entry.TaskReassign, none(api.ObstacleUnassignable)}},
		"blocked":     {entry.TaskBlocked, api.Task{Type: "cook"}, said{operator, entry.TaskRelease, nil}},
		"spent":       {entry.TaskFailed, api.Task{Type: "cook", Epoch: 2, RetryCount: 1, MaxRetries: 1}, said{operator, entry.TaskRelease, none(api.ObstacleRelease)}},
		"gate":        {entry.TaskInterrupted, api.Task{Type: "cook", Gate: "effects in doubt"}, said{operator, entry.TaskRelease, none(api.ObstacleRelease)}},
		"people":      {entry.TaskFailed, api.Task{Type: "cook", Recovery: rules, Candidates: candidates}, said{operator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"another":     {entry.TaskFailed, api.Task{Type: "cook", Recovery: another, Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob", Except: "ann"}}},
		"only ann":    {entry.TaskFailed, api.Task{Type: "cook", Recovery: another, Unassignable: true}, said{operator, entry.TaskReassign, &api.Reassignment{Except: "ann", Obstacle: api.ObstacleUnassignable}}},
		"again":       {entry.TaskFailed, api.Task{Type: "cook", Recovery: rules, Candidates: candidates}, said{coordinator, entry.TaskReassign, &api.Reassignment{Agent: "bob"}}},
		"interrupted": {entry.TaskInterrupted, api.Task{Type: "cook", Recovery: rules}, said{coordinator, entry.TaskReassign, none(api.ObstacleBusy)}},
	} {
		c.view.State, c.view.Agent = c.state, "ann"
		c.view.MaxRetries = max(c.view.MaxRetries, 1)
		got := said{taskWaits(&c.view, name == "people"), givenBy(&c.view), reassignment(&c.view)}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v %+v, want %+v %+v", name, got, got.reassign, c.want, c.want.reassign)
		}
	}
}

// TestAsksPeople: an incident waits for people when it is escalated, and when an amend
// of the plan in force is proposed.
func TestAsksPeople(t *testing.T) {
	for _, c := range []struct {
		state    entry.IncidentState
		proposal *api.Proposal
		want     bool
	}{
		{entry.IncidentReported, nil, false},
		{entry.IncidentContained, nil, false},
		{entry.IncidentEscalated, &api.Proposal{}, true},
		{entry.IncidentEscalated, nil, true},
		{entry.IncidentAuthorized, nil, false},
		{entry.IncidentAuthorized, &api.Proposal{}, true},
		{entry.IncidentDismissed, &api.Proposal{}, false},
	} {
		if got := asksPeople(&api.Incident{State: c.state, Proposal: c.proposal}); got != c.want {
			t.Errorf("%s, proposal %v: %v", c.state, c.proposal != nil, got)
		}
	}
}

// TestWaitsForPeople: an incident asks for approvals, or for an acknowledgement of a silence,
// whatever it waits for beside that.
func TestWaitsForPeople(t *testing.T) {
	approvals, outcomes := &api.Waits{For: api.ForApprovals, Who: api.WaitsApprovers}, &api.Waits{For: api.ForOutcomes, Who: api.WaitsAgents}
	acknowledge := &api.Waits{For: api.ForAcknowledgement, Who: api.WaitsPeople}
	merge, decision := &api.Waits{For: api.ForMerge, Who: api.WaitsCoordinator, Incident: 7}, &api.Waits{For: api.ForCoordinator, Who: api.WaitsCoordinator}
	for name, c := range map[string]struct {
		incident api.Incident
		want     *api.Waits
	}{
		"nothing":              {api.Incident{}, nil},
		"agents":               {api.Incident{Waits: outcomes}, nil},
		"approvers":            {api.Incident{Waits: approvals, AsksPeople: true}, approvals},
		"approvers, again":     {api.Incident{Waits: approvals, AsksPeople: true, Lapsed: &api.Lapse{Proposal: 3}}, approvals},
		"merged":               {api.Incident{Waits: merge, AsksPeople: true}, nil},
		"expired":              {api.Incident{Waits: decision, AsksPeople: true}, nil},
		"silence":              {api.Incident{Waits: acknowledge, Silence: true}, acknowledge},
		"silence, noted":       {api.Incident{Silence: true, Acknowledged: 7}, nil},
		"amend dropped":        {api.Incident{Waits: outcomes, Lapsed: &api.Lapse{Proposal: 3}}, acknowledge},
		"amend dropped, noted": {api.Incident{Waits: outcomes, Lapsed: &api.Lapse{Proposal: 3, Acknowledged: 7}}, nil},
	} {
		if got := WaitsForPeople(&c.incident); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestEscalatedWithoutQuestion asks people nothing about an escalated incident that an older one
// has taken up, or whose proposal has expired: the coordinator goes on.
func TestEscalatedWithoutQuestion(t *testing.T) {
	asks := func(w *world, id uint64, want *api.Waits) {
		t.Helper()
		w.is(id, entry.IncidentEscalated)
		v, _ := w.state.Incident(id, w.at)
		got := WaitsForPeople(&v)
		if want != nil && got != nil {
			got = &api.Waits{For: got.For, Who: got.Who}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("incident %d asks %+v, want %+v", id, got, want)
		}
	}
	approvals := &api.Waits{For: api.ForApprovals, Who: api.WaitsApprovers}
	t.Run("merged", func(t *testing.T) {
		w := newWorld(t)
		w.done("b", "1", entry.EffectCompensable)
		w.done("b", "2", entry.EffectCompensable, "b#1")
		older := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
		w.decide("k", entry.ActAuthorize, older)
		younger := w.put(w.signal("b", entry.StandingExecutor, "b#1")).Index
		w.decide("k", entry.ActEscalate, younger)
		asks(w, younger, approvals)
		w.decide("k", entry.ActAmend, older)
		asks(w, younger, nil)
	})
	t.Run("expired", func(t *testing.T) {
		w, id := reported(t)
		w.decide("k", entry.ActEscalate, id)
		asks(w, id, approvals)
		w.at = w.incident(id).proposal.exp
		asks(w, id, nil)
	})
}
