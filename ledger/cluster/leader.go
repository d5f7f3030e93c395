package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

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
