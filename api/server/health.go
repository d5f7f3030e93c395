package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/ledger"
)

// getHealth is GET /healthz: the process answers.
func (s *Server) getHealth(_ context.Context, r *request) (*api.Status, error) {
	return &api.Status{Status: "ok"}, noParams(r.query())
}

// getReady is GET /readyz: entries are taken. Why not is the problem that an
// entry would get.
func (s *Server) getReady(_ context.Context, r *request) (*api.Status, error) {
	if err := noParams(r.query()); err != nil {
		return nil, err
	}
	select {
	case <-s.draining:
		return nil, ledger.ErrStopped
	default:
	}
	if err := s.log.Ready(); err != nil {
		return nil, err
	}
	return &api.Status{Status: "ready"}, nil
}
