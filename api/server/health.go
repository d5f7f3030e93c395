package server

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/ledger"
)

// getHealth is GET /healthz: the process answers.
func (s *Server) getHealth(context.Context, *request) (*api.Status, error) {
	return &api.Status{Status: "ok"}, nil
}

// getReady is GET /readyz: the ledger takes entries. If not, the answer is the problem that an
// entry would get.
func (s *Server) getReady(context.Context, *request) (*api.Status, error) {
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
