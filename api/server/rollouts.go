package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getRollouts is GET /v1/rollouts.
func (s *Server) getRollouts(context.Context, *request) (*api.Rollouts, error) {
	var all api.Rollouts
	s.coord.Read(func(state *coord.State) { all = state.Rollouts().View(state.Size(), state.Law()) })
	all.History = all.History[:min(len(all.History), api.RolloutsMax)]
	return &all, nil
}

// getRollout is GET /v1/rollouts/{id}.
func (s *Server) getRollout(_ context.Context, r *request) (one *api.OneRollout, err error) {
	id, err := r.name("id")
	if err != nil {
		return nil, err
	}
	s.coord.Read(func(state *coord.State) { one = state.Rollouts().One(id, state.Size(), state.Law()) })
	if one == nil {
		return nil, entry.Refuse(entry.NotFound, "id", "no rollout %.140q in the log", id).WithRemedy("GET " + api.PathRollouts + " lists the rollouts")
	}
	return one, nil
}
