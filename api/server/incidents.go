package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getIncidents is GET /v1/incidents.
func (s *Server) getIncidents(_ context.Context, r *request) (*api.Incidents, error) {
	page, now := &api.Incidents{Incidents: []api.Incident{}}, s.log.Now()
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		found, next := view.Incidents(state, queryOf[api.IncidentQuery](r), now)
		page.Incidents = append(page.Incidents, found...)
		if next != nil {
			page.Next = api.URL(api.PathIncidents, next)
		}
	})
	return page, nil
}

// getIncident is GET /v1/incidents/{id}.
func (s *Server) getIncident(_ context.Context, r *request) (*api.Incident, error) {
	id, err := r.number("id")
	if err != nil {
		return nil, err
	}
	now, found, ok := s.log.Now(), (*api.Incident)(nil), false
	s.coord.Read(func(state *coord.State) { found, ok = view.Incident(state, id, now) })
	if !ok {
		return nil, view.NoIncident(id)
	}
	if d := found.Decision; d != nil && found.State == entry.IncidentAuthorized {
		found.Cosignatures = s.lacking(d.Ref.Index + 1)
	}
	return found, nil
}

// getWhy is GET /v1/incidents/{id}/why/{exec}.
func (s *Server) getWhy(_ context.Context, r *request) (why *api.Why, err error) {
	id, err := r.number("id")
	if err != nil {
		return nil, err
	}
	exec, err := r.name("exec")
	if err != nil {
		return nil, err
	}
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) { why, err = view.WhyOf(state, id, entry.Ref(exec), now) })
	return why, err
}

// getEscalations is GET /v1/escalations.
func (s *Server) getEscalations(_ context.Context, r *request) (*api.Escalations, error) {
	page, now := &api.Escalations{Escalations: []api.Escalation{}}, s.log.Now()
	var found []view.Waiting
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		var next *api.EscalationQuery
		if found, next = view.WaitingForPeople(state, s.coord.Rules(), queryOf[api.EscalationQuery](r), now); next != nil {
			page.Next = api.URL(api.PathEscalations, next)
		}
	})
	for i := range found {
		if t := found[i].Task; t != nil {
			if err := s.complete(t); err != nil {
				return nil, err
			}
		}
		page.Escalations = append(page.Escalations, found[i].Escalation())
	}
	return page, nil
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
