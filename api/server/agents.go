package server

import (
	"context"
	"net/url"
	"strconv"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// getAgents is GET /v1/agents.
func (s *Server) getAgents(_ context.Context, r *request) (*api.Agents, error) {
	p := parseParams(r.query(), "after", "domain", "limit")
	after, domain, limit := entry.Principal(p.name("after")), p.name("domain"), p.limit()
	if err := p.err(); err != nil {
		return nil, err
	}
	view := s.coord.View()
	page := &api.Agents{Size: view.Size, Agents: []api.Agent{}}
	for _, info := range view.Chain.Agents() {
		if info.Principal <= after || domain != "" && info.Domain != domain {
			continue
		}
		if len(page.Agents) == limit {
			last := page.Agents[limit-1].Principal
			next := url.Values{"after": {string(last)}, "limit": {strconv.Itoa(limit)}}
			if domain != "" {
				next.Set("domain", domain)
			}
			page.Next = agentsPath + "?" + next.Encode()
			break
		}
		page.Agents = append(page.Agents, api.NewAgent(&info))
	}
	return page, nil
}

// getAgent is GET /v1/agents/{id}.
func (s *Server) getAgent(_ context.Context, r *request) (*api.Agent, error) {
	if err := noParams(r.query()); err != nil {
		return nil, err
	}
	id, err := r.pathName("id")
	if err != nil {
		return nil, err
	}
	info, ok := s.coord.View().Chain.Agent(entry.Principal(id))
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "id", "%.140q was never enrolled", id).WithRemedy("GET " + agentsPath + " lists the agents")
	}
	agent := api.NewAgent(&info)
	return &agent, nil
}
