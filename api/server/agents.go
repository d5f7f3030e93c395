package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// getAgents is GET /v1/agents.
func (s *Server) getAgents(_ context.Context, r *request) (*api.Agents, error) {
	q := queryOf[api.AgentsQuery](r)
	view := s.coord.View()
	page := &api.Agents{Size: view.Size, Agents: []api.Agent{}}
	for _, info := range view.Chain.Agents() {
		if info.Principal <= q.After || q.Domain != "" && info.Domain != q.Domain {
			continue
		}
		if len(page.Agents) == q.Limit {
			next := *q
			next.After = page.Agents[q.Limit-1].Principal
			page.Next = api.URL(api.PathAgents, &next)
			break
		}
		page.Agents = append(page.Agents, api.NewAgent(&info))
	}
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
