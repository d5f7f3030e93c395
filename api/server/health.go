package server

import (
	"context"
	"errors"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
)

// getHealth is GET /healthz: the process answers.
func (s *Server) getHealth(context.Context, *request) (*api.Status, error) {
	return &api.Status{Status: "ok"}, nil
}

// getReady is GET /readyz: the ledger takes entries, in a cluster here or at another node. If not,
// the answer is the problem that an entry would get.
func (s *Server) getReady(ctx context.Context, _ *request) (*api.Status, error) {
	select {
	case <-s.draining:
		return nil, ledger.ErrStopped
	default:
	}
	err := s.log.Ready()
	if errors.Is(err, agreement.ErrNotLeading) && s.cfg.Peers != nil {
		err = apart(s.cfg.Peers.Ready(ctx))
	}
	if err != nil {
		return nil, err
	}
	return &api.Status{Status: "ready"}, nil
}
