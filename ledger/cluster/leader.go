package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"recoveryledger/ledger/agreement"
)

// passing are the errors of etcd while nobody leads, or a machine is busy.
var passing = []error{rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrTimeout,
	rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutWaitAppliedIndex,
	rpctypes.ErrUnhealthy, rpctypes.ErrTooManyRequests, agreement.ErrNotLeading, errNotReached, ErrNoVote, context.DeadlineExceeded}

// Passes reports whether what failed may succeed later, though nobody does anything: nobody leads
// at the moment, or etcd has not answered in time.
func Passes(err error) bool {
	return slices.ContainsFunc(passing, func(one error) bool { return errors.Is(err, one) })
}

// Leader returns the name of the node that began the newest term that this node knows of; empty:
// Raft has no leader, or one that has not begun a term yet. The node that led before it may hang.
func (n *Node) Leader(ctx context.Context) (string, error) {
	leads := n.etcd.Server.Leader()
	if leads == 0 {
		return "", nil
	}
	found, err := n.client.Get(ctx, n.key("t"), clientv3.WithSerializable())
	if err != nil || len(found.Kvs) == 0 {
		return "", err
	}
	name := string(found.Kvs[0].Value)
	c, err := n.Contact(ctx, name)
	if err != nil || c != nil && n.idOf(c.Etcd) != uint64(leads) {
		return "", err
	}
	return name, nil
}

// LeaderChanged returns a channel that is closed when Raft has another leader than now.
func (n *Node) LeaderChanged() <-chan struct{} { return n.etcd.Server.LeaderChangedNotify() }

// vacantMax is how long Raft may have no leader before nobody waits for one. An election takes up
// to twice electionTime.
const vacantMax = 2 * time.Second

// noteVacant notes since when this node knows of no leader of Raft.
func (n *Node) noteVacant() {
	if n.etcd.Server.Leader() != 0 {
		n.vacant.Store(nil)
	} else if n.vacant.Load() == nil {
		now := time.Now()
		n.vacant.Store(&now)
	}
}

// Vacant reports whether Raft has had no leader for so long, as far as this node knows, that it may
// have none for longer: the majority is away.
func (n *Node) Vacant() bool {
	since := n.vacant.Load()
	return since != nil && time.Since(*since) > vacantMax
}

// Begins reports whether this node leads Raft, or no node does yet.
func (n *Node) Begins() bool {
	leads := n.etcd.Server.Leader()
	return leads == 0 || leads == n.etcd.Server.MemberID()
}

// HandOver has another node lead. This node must lead.
func (n *Node) HandOver(ctx context.Context, name string) error {
	// etcd waits until it sees the other node lead, and would wait on if the lead has moved again.
	ctx, cancel := context.WithTimeout(ctx, electionTime)
	defer cancel()
	c, err := n.Contact(ctx, name)
	if err != nil {
		return err
	}
	if c == nil || n.idOf(c.Etcd) == 0 {
		return fmt.Errorf("%w: there is no node %s", ErrNoNode, name)
	}
	id := n.idOf(c.Etcd)
	if slices.ContainsFunc(n.etcd.Server.Cluster().Members(), func(m *membership.Member) bool { return uint64(m.ID) == id && m.IsLearner }) {
		return fmt.Errorf("%w: %s joins, and can lead once it follows", ErrNoVote, name)
	}
	if err := n.etcd.Server.MoveLeader(ctx, uint64(n.etcd.Server.MemberID()), id); err != nil {
		return fmt.Errorf("cluster: hand over to %s: %w", name, err)
	}
	return nil
}

// GiveUp has another node lead, if this one does and there is another.
func (n *Node) GiveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	members, err := n.Members(ctx)
	if err != nil || !n.Leads() {
		return
	}
	var heir Member
	for _, m := range members {
		if m.Name != n.cfg.Name && m.Voter && m.Batch >= heir.Batch {
			heir = m
		}
	}
	if heir.Name == "" {
		return
	}
	if err := n.HandOver(ctx, heir.Name); err != nil {
		n.cfg.Logger.Warn("the lead is not handed over", "to", heir.Name, "error", err.Error())
	}
}
