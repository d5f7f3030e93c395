package cluster

import (
	"context"

	"go.etcd.io/etcd/server/v3/embed"
)

// SetRoom says how many bytes etcd may hold until no node is waited for.
func (n *Node) SetRoom(bytes int64) { n.room = bytes }

// Lag has another node keep nothing.
func (n *Node) Lag(ctx context.Context, name string) error {
	_, err := n.client.Put(ctx, n.key("n/"+name), "{}")
	return err
}

// ForgetCompared has the next batch of a term count as its first.
func (n *Node) ForgetCompared() { n.compared.Store(0) }

// ForceNew makes the files of a node that does not run a cluster of one, as etcd's tools do.
func ForceNew(c *Config) error {
	n := &Node{cfg: *c}
	config := n.embedded()
	config.ForceNewCluster = true
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	<-server.Server.ReadyNotify()
	server.Close()
	return nil
}
