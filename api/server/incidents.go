package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getIncidents is GET /v1/incidents.
func (s *Server) getIncidents(_ context.Context, r *request) (*api.Incidents, error) {
	q := queryOf[api.IncidentQuery](r)
	page := &api.Incidents{Incidents: []api.Incident{}}
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		rest := *q
		for scanned := 0; ; {
			views := incidentsBelow(state, &rest, now)
			for i := range views {
				if len(page.Incidents) == q.Limit || scanned == maxIncidentScan {
					page.Next = api.URL(api.PathIncidents, &rest)
					return
				}
				scanned++
				rest.Before = views[i].ID
				if views[i].Matches(q) {
					page.Incidents = append(page.Incidents, views[i].Incident)
				}
			}
			if len(views) < incidentBlock {
				return
			}
		}
	})
	return page, nil
}

// incidentsBelow returns the next candidates of a page of incidents.
func incidentsBelow(state *coord.State, q *api.IncidentQuery, now int64) []coord.IncidentView {
	switch {
	case q.Domain != "":
		return state.IncidentsOfDomain(q.Domain, q.Agent, q.Before, incidentBlock, now)
	case q.Agent != "":
		return state.IncidentsOf(q.Agent, q.Before, incidentBlock, now)
	}
	return state.Incidents(q.Before, incidentBlock, now)
}

// getIncident is GET /v1/incidents/{id}.
func (s *Server) getIncident(_ context.Context, r *request) (*api.Incident, error) {
	id, err := r.number("id")
	if err != nil {
		return nil, err
	}
	now, found := s.log.Now(), (*api.Incident)(nil)
	s.coord.Read(func(state *coord.State) {
		if v, ok := state.Incident(id, now); ok {
			found = &v.Incident
		}
	})
	if found == nil {
		return nil, noIncident(id)
	}
	if d := found.Decision; d != nil && found.State == coord.Authorized.String() {
		found.Cosignatures = s.lacking(d.Ref.Index + 1)
	}
	return found, nil
}

func noIncident(id uint64) error {
	return entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).
		WithRemedy("an incident's id is the index of its opening signal: GET " + api.PathIncidents + " lists them")
}

// getGraph is GET /v1/workflows/{wid}/graph.
func (s *Server) getGraph(_ context.Context, r *request) (*api.Graph, error) {
	q := queryOf[api.GraphQuery](r)
	id, err := r.name("wid")
	if err != nil {
		return nil, err
	}
	graph := &api.Graph{Wid: entry.WorkflowID(id), Executions: []api.Execution{}}
	now, known := s.log.Now(), false
	var views []coord.ExecutionView
	s.coord.Read(func(state *coord.State) {
		graph.Size = state.Size()
		views, known = state.Workflow(graph.Wid, q.Before, q.Limit+1, now)
	})
	if !known {
		return nil, entry.Refuse(entry.NotFound, "wid", "no execution of workflow %.140q in the log", id).
			WithRemedy("GET " + api.PathEntries + "?kind=execution lists executions with their workflows")
	}
	if len(views) > q.Limit {
		views = views[:q.Limit]
		graph.Next = api.URL(api.PathGraph, &api.GraphQuery{Before: views[q.Limit-1].Index, Limit: q.Limit}, id)
	}
	for i := range views {
		graph.Executions = append(graph.Executions, views[i].Execution)
	}
	return graph, nil
}
