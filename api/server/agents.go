package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getAgents is GET /v1/agents.
func (s *Server) getAgents(_ context.Context, r *request) (*api.Agents, error) {
	page := &api.Agents{}
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		var next *api.AgentsQuery
		if page.Agents, next = view.Agents(state, queryOf[api.AgentsQuery](r), s.log.Now()); next != nil {
			page.Next = api.URL(api.PathAgents, next)
		}
	})
	return page, nil
}

// getAgent is GET /v1/agents/{id}.
func (s *Server) getAgent(_ context.Context, r *request) (*api.Agent, error) {
	id, err := r.name("id")
	if err != nil {
		return nil, err
	}
	info, ok := s.coord.View().Chain.Agent(entry.Principal(id))
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "id", "%.140q was never enrolled", id).WithRemedy("GET " + api.PathAgents + " lists the agents")
	}
	agent := api.NewAgent(&info)
	return &agent, nil
}
