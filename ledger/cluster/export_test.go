package cluster

import "context"

// SetRoom says how many bytes etcd may hold until no node is waited for.
func (n *Node) SetRoom(bytes int64) { n.room = bytes }

// Lag has another node keep nothing.
func (n *Node) Lag(ctx context.Context, name string) error {
	_, err := n.client.Put(ctx, n.key("n/"+name), "{}")
	return err
}

// ForgetCompared has the next batch of a term count as its first.
func (n *Node) ForgetCompared() { n.compared.Store(0) }
