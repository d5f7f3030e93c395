package view

import (
	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
)

// Waiting is a task or an incident that waits for people.
type Waiting struct {
	Task     *api.Task     // nil: an incident waits
	Incident *api.Incident // nil: a task waits
}

// Index returns the index of the first entry of the task or incident.
func (w *Waiting) Index() uint64 {
	if w.Task != nil {
		return w.Task.Created
	}
	return w.Incident.ID
}

// Escalation says what is asked. What the log alone has of a task must be there.
func (w *Waiting) Escalation() api.Escalation {
	if w.Task != nil {
		return words.EscalatedTask(w.Task)
	}
	return words.EscalatedIncident(w.Incident, coord.WaitsForPeople(w.Incident)) // it asks, or it would not be here
}

// WaitingForPeople returns a page of the tasks and incidents that wait for people, the newest
// first, and the query of the next page; nil: it is the last page. What the log alone has of a task
// is missing.
func WaitingForPeople(s *coord.State, rules *coord.Rules, q *api.EscalationQuery, now int64) (found []Waiting, next *api.EscalationQuery) {
	tasks, moreTasks := Tasks(s, rules, &api.TaskQuery{State: api.StateOperator, Before: q.Before, Limit: q.Limit}, now)
	incidents, moreIncidents := askingPeople(s, q, now)
	// What lies below the place where one of the lists stopped is for the next page.
	least := uint64(0)
	if moreTasks != nil {
		least = moreTasks.Before
	}
	if moreIncidents != 0 {
		least = max(least, moreIncidents)
	}
	for len(tasks)+len(incidents) > 0 && len(found) < q.Limit {
		one := Waiting{}
		if len(incidents) == 0 || len(tasks) > 0 && tasks[0].Created > incidents[0].ID {
			one.Task, tasks = &tasks[0], tasks[1:]
		} else {
			one.Incident, incidents = &incidents[0], incidents[1:]
		}
		if one.Index() < least {
			break
		}
		found = append(found, one)
	}
	switch {
	case len(tasks)+len(incidents) > 0 && len(found) > 0 && len(found) == q.Limit:
		return found, &api.EscalationQuery{Before: found[len(found)-1].Index(), Limit: q.Limit}
	case least != 0:
		return found, &api.EscalationQuery{Before: least, Limit: q.Limit}
	}
	return found, nil
}

// askingPeople returns up to q.Limit incidents that ask people something, the newest first, and the
// id below which the list goes on; 0: it is complete.
func askingPeople(s *coord.State, q *api.EscalationQuery, now int64) (found []api.Incident, more uint64) {
	before := q.Before
	for scanned := 0; ; {
		views := s.Incidents(before, block, now)
		for i := range views {
			if len(found) == q.Limit || scanned == incidentScan {
				return found, before
			}
			scanned++
			before = views[i].ID
			if coord.WaitsForPeople(&views[i]) != nil {
				found = append(found, views[i])
			}
		}
		if len(views) < block {
			return found, 0
		}
	}
}
