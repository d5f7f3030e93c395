package server

import (
	"context"
	"errors"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
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

// getLeader is GET /leaderz: this node orders the log. In a cluster it was the leader less than a
// second ago for certain, so of two nodes that answer 200 one answers for the past.
func (s *Server) getLeader(ctx context.Context, _ *request) (*api.Status, error) {
	select {
	case <-s.draining:
		return nil, ledger.ErrStopped
	default:
	}
	if !s.log.Leads() {
		return nil, agreement.ErrNotLeading
	}
	if _, err := s.fresh(ctx); err != nil {
		return nil, err
	}
	return &api.Status{Status: "leads"}, nil
}

// getCluster is GET /v1/cluster.
func (s *Server) getCluster(ctx context.Context, _ *request) (*api.Cluster, error) {
	if s.cfg.Cluster == nil {
		return nil, entry.Refuse(entry.NotFound, "", "the ledger is no node of a cluster").
			WithRemedy("ask a node that runs with arl serve --cluster; this ledger answers everything itself")
	}
	c, err := s.cfg.Cluster(ctx)
	return c, apart(err)
}
