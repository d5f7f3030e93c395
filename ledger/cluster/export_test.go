package cluster

import (
	"context"

	"go.etcd.io/etcd/server/v3/embed"
)

// RemoveKept removes what no node needs any more.
func (n *Node) RemoveKept(ctx context.Context) error { return n.remove(ctx) }

// Say has another node keep what text says.
func (n *Node) Say(ctx context.Context, name, text string) error {
	_, err := n.client.Put(ctx, n.key("n/"+name), text)
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
