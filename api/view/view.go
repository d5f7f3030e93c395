// Package view shows what follows from a log in the words of the wire. The ledger's interface, the
// pages of the console and the command line say the same, because all of them take it from here.
// Nothing here changes the state.
package view

import (
	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Limits of a page.
const (
	// block is the number of incidents or tasks that one look at the state takes.
	block = 128
	// incidentScan and taskScan are the numbers of incidents and tasks that one page looks at.
	incidentScan = 4096
	taskScan     = 16384
)

// Incident returns an incident as it stands, with what a list leaves out: the coordinator's next
// step, and who may answer a proposal.
func Incident(s *coord.State, id uint64, now int64) (*api.Incident, bool) {
	v, ok := s.Incident(id, now)
	if !ok {
		return nil, false
	}
	if v.Next = Next(s, id, now); v.Proposal == nil {
		return &v, true
	}
	for _, info := range s.Chain().Agents() {
		if is, refusal := s.MayApprove(id, &info); is {
			one := api.Approver{Principal: info.Principal}
			if r, ok := refusal.(*entry.Refusal); ok { //nolint:errorlint // it is not wrapped
				one.MayNot = r.Detail
			}
			v.Approvers = append(v.Approvers, one)
		}
	}
	return &v, true
}

// Next returns what the coordinator writes next about an incident; nil: nothing before the log
// grows.
func Next(s *coord.State, id uint64, now int64) *api.NextStep {
	body, at := s.NextOf(id, now)
	if body == nil {
		return nil
	}
	if at <= now { // the same answer however often it is asked for, until the log grows
		at = 0
	}
	return &api.NextStep{At: at, Kind: body.Kind(), Says: words.Summary(body)}
}

// NoIncident is the refusal of an id that no incident has.
func NoIncident(id uint64) error {
	return entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).
		WithRemedy("an incident's id is the index of its opening signal: GET " + api.PathIncidents + " lists them")
}

// Incidents returns a page of the incidents that a query asks for, the newest first, and the query
// of the next page; nil: it is the last page.
func Incidents(s *coord.State, q *api.IncidentQuery, now int64) (found []api.Incident, next *api.IncidentQuery) {
	rest := *q
	for scanned := 0; ; {
		views := incidentsBelow(s, &rest, now)
		for i := range views {
			if len(found) == q.Limit || scanned == incidentScan {
				return found, &rest
			}
			scanned++
			rest.Before = views[i].ID
			if views[i].Matches(q) {
				found = append(found, views[i])
			}
		}
		if len(views) < block {
			return found, nil
		}
	}
}

// incidentsBelow returns the next candidates of a page of incidents.
func incidentsBelow(s *coord.State, q *api.IncidentQuery, now int64) []api.Incident {
	switch {
	case q.Domain != "":
		return s.IncidentsOfDomain(q.Domain, q.Agent, q.Before, block, now)
	case q.Agent != "":
		return s.IncidentsOf(q.Agent, q.Before, block, now)
	}
	return s.Incidents(q.Before, block, now)
}

// Tasks returns a page of the tasks that a query asks for, the newest first, and the query of the
// next page; nil: it is the last page. What the log alone has of a task is missing.
func Tasks(s *coord.State, rules *coord.Rules, q *api.TaskQuery, now int64) (found []api.Task, next *api.TaskQuery) {
	found = []api.Task{} // not nil: an empty list in JSON
	rest := *q
	for scanned := 0; ; {
		views := s.Tasks(rest.Before, block)
		for i := range views {
			if len(found) == q.Limit || scanned == taskScan {
				return found, &rest
			}
			scanned++
			rest.Before = views[i].Created
			s.Consult(&views[i], now, rules)
			if views[i].Matches(q) {
				found = append(found, views[i])
			}
		}
		if len(views) < block {
			return found, nil
		}
	}
}

// Agents returns a page of the principals that a query asks for, by name, and the query of the next
// page; nil: it is the last page.
func Agents(s *coord.State, q *api.AgentsQuery, now int64) (found []api.Agent, next *api.AgentsQuery) {
	found = []api.Agent{} // not nil: an empty list in JSON
	for _, info := range s.Chain().Agents() {
		if info.Principal <= q.After || q.Domain != "" && info.Domain != q.Domain {
			continue
		}
		if len(found) == q.Limit {
			rest := *q
			rest.After = found[q.Limit-1].Principal
			return found, &rest
		}
		agent := api.NewAgent(&info)
		if q.Counts {
			counts := s.AgentCounts(info.Principal, now)
			agent.Counts = &counts
		}
		found = append(found, agent)
	}
	return found, nil
}
