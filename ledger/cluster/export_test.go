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

// Tell has the cluster know another node.
func (n *Node) Tell(ctx context.Context, name string, c Contact) error { return n.tell(ctx, name, c) }

// SetFormat writes the format of the cluster.
func (n *Node) SetFormat(ctx context.Context, format string) error {
	_, err := n.client.Put(ctx, n.key("f"), format)
	return err
}

// End ends etcd of a node whose goroutines hang in [Config.Fatal].
func (n *Node) End() {
	n.end()
	n.halt()
}
