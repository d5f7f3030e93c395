package peer

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"recoveryledger/ledger/cluster"
)

// NodeSpace is the room that etcd takes at a node.
type NodeSpace struct {
	Node string `json:"node"`
	cluster.Space
}

// Compacted is what is left behind [Client.Compact].
type Compacted struct {
	Nodes    []NodeSpace `json:"nodes"`    // those that answered
	Disarmed bool        `json:"disarmed"` // whether etcd was full, and takes batches again
}

func (s *Server) space(r *http.Request) (any, error) { return s.cfg.Node.Space(r.Context()) }

// largest returns how large the file of etcd may be, for the nodes to take batches again. etcd
// counts what is free inside of the file, too, so it would soon be full again beyond that.
func largest(s *cluster.Space) int64 { return s.Quota / 4 * 3 }

// compact removes batches that the nodes keep. If etcd was full, it lets the nodes take batches
// again, unless the file of one is still too large.
func (s *Server) compact(r *http.Request) (any, error) {
	ctx, own := r.Context(), s.cfg.Node
	if err := own.Forget(ctx); err != nil {
		return nil, err
	}
	members, err := own.Members(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(members, func(m cluster.Member) bool { return m.Name == own.Name() }) {
		members = append(members, cluster.Member{Name: own.Name()}) // it has just begun, and not yet told the others
	}
	done, large := new(Compacted), error(nil)
	full := false
	for i := range members {
		m := &members[i]
		space, err := s.spaceOf(ctx, m)
		switch {
		case err != nil:
			large = fmt.Errorf("peer: %s does not say how large its etcd is: start it, or remove it: %w", m.Name, err)
			continue
		case space.Bytes > largest(space):
			large = fmt.Errorf("peer: the file of etcd of %s has %d bytes, and may have %d: stop %[1]s, run arl cluster compact with its data directory, and start it again",
				m.Name, space.Bytes, largest(space))
		}
		full = full || space.Full
		done.Nodes = append(done.Nodes, NodeSpace{m.Name, *space})
	}
	if !full {
		return done, nil
	}
	if large != nil {
		return nil, large
	}
	done.Disarmed = true
	s.cfg.Logger.Warn("etcd was full, and takes batches again")
	return done, own.Disarm(ctx)
}

func (s *Server) spaceOf(ctx context.Context, m *cluster.Member) (*cluster.Space, error) {
	if m.Name == s.cfg.Node.Name() {
		return s.cfg.Node.Space(ctx)
	}
	space := new(cluster.Space)
	return space, s.peers.ask(ctx, http.MethodGet, m.Peer+pathSpace, nil, space)
}

// Upgraded is the format of batches before and behind [Client.Upgrade].
type Upgraded struct {
	Before int `json:"before"`
	Format int `json:"format"`
}

func (s *Server) upgrade(r *http.Request) (any, error) {
	before, after, err := s.cfg.Node.Upgrade(r.Context())
	if err == nil && before != after {
		s.cfg.Logger.Warn("the format of the cluster is raised", "before", before, "format", after)
	}
	return Upgraded{before, after}, err
}

// Compact has a node remove what the nodes keep, and let them take batches behind a full etcd.
func (c *Client) Compact(ctx context.Context, address string) (*Compacted, error) {
	done := new(Compacted)
	return done, c.ask(ctx, http.MethodPost, address+pathCompact, nil, done)
}

// Upgrade has a node raise the format of the cluster.
func (c *Client) Upgrade(ctx context.Context, address string) (*Upgraded, error) {
	done := new(Upgraded)
	return done, c.ask(ctx, http.MethodPost, address+pathUpgrade, nil, done)
}
