package cell

import (
	"context"
	"net/http"
	"time"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
)

// peers implements [server.Peers].
type peers struct {
	*peer.Router
	cluster *cluster.Node
	node    *node.Node
}

// members returns the nodes of the cluster.
func (p *peers) members(ctx context.Context) (*api.Cluster, error) {
	s, err := p.Status(ctx)
	if err != nil {
		return nil, err
	}
	c := &api.Cluster{Node: s.Node, Leader: s.Leader, Members: make([]api.Member, len(s.Members))}
	for i, m := range s.Members {
		c.Members[i] = api.Member{Name: m.Name, URL: m.URL, Voter: m.Voter, Leader: m.Leader, Size: m.Size, Lag: m.Lag}
	}
	return c, nil
}

// Forward implements [server.Peers].
func (p *peers) Forward(w http.ResponseWriter, r *http.Request) error {
	if p.Await(r.Context(), p.node.Log.Leads) {
		return agreement.ErrLeading
	}
	return p.Router.Forward(w, r)
}

// Fresh implements [server.Peers]. A node that has just come to lead begins its leases first.
func (p *peers) Fresh(ctx context.Context) (time.Time, error) {
	p.Await(ctx, p.node.Speaks)
	term, until, err := p.cluster.Fresh(ctx)
	if err == nil {
		err = p.node.Ordered(term)
	}
	return until, err
}
