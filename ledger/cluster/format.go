package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	clientv3 "go.etcd.io/etcd/client/v3"

	"recoveryledger/ledger/agreement"
)

// ErrUpgrade reports that the format of a cluster is not raised.
var ErrUpgrade = errors.New("cluster: the format is not raised")

// firstFormat is that of a cluster that was never upgraded.
const firstFormat = 1

// Format returns the format of batches that this node knows the cluster to have. It only grows, so
// a node that has not heard of the newest one offers batches that all nodes read.
func (n *Node) Format() int { return int(max(firstFormat, n.format.Load())) }

// CheckFormat reads the format of the cluster at this node. The error is [agreement.ErrFormat] if
// the program does not know the format.
func (n *Node) CheckFormat(ctx context.Context) error {
	found, err := n.client.Get(ctx, n.key("f"), clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("cluster: read the format: %w", err)
	}
	format := firstFormat
	if len(found.Kvs) > 0 {
		if format, err = strconv.Atoi(string(found.Kvs[0].Value)); err != nil {
			return fmt.Errorf("cluster: the format in etcd is no number: %w", err)
		}
	}
	if format > agreement.Newest() {
		return agreement.FormatError("the cluster", format)
	}
	n.format.Store(int64(format))
	return nil
}

// watchFormat ends the node if the cluster has a format that the program does not know.
func (n *Node) watchFormat(ctx context.Context) {
	if err := n.CheckFormat(ctx); errors.Is(err, agreement.ErrFormat) {
		n.cfg.Fatal(err)
	}
}

// knows returns the newest format that a node said that it knows.
func (c *Contact) knows() int { return cmp.Or(c.Format, firstFormat) }

// Upgrade raises the format to the newest one that any node knows, and returns the format before
// and behind that. A node that does not know it is named by the error, which is [ErrUpgrade].
//
// The format is raised only if no node has started or gone since the nodes were asked. A node that
// comes with an older program ends by itself ([Node.CheckFormat]).
func (n *Node) Upgrade(ctx context.Context) (before, after int, err error) {
	if err := n.tellOwn(ctx); err != nil { // this one counts as it is now
		return 0, 0, fmt.Errorf("cluster: upgrade: %w", err)
	}
	// A transaction that writes reads what stood when the call began.
	read, err := n.client.Txn(ctx).
		Then(clientv3.OpPut(n.key("c"), n.cfg.Name), clientv3.OpGet(n.key("f")), clientv3.OpGet(n.key("a/"), clientv3.WithPrefix())).
		Commit()
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: upgrade: %w", err)
	}
	before, revision := firstFormat, int64(0)
	if found := read.Responses[1].GetResponseRange().Kvs; len(found) > 0 {
		if before, err = strconv.Atoi(string(found[0].Value)); err != nil {
			return 0, 0, fmt.Errorf("cluster: the format in etcd is no number: %w", err)
		}
		revision = found[0].ModRevision
	}
	unchanged := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(n.key("f")), "=", revision)}
	nodes, newest := map[string]*Contact{}, before
	var names []string
	for _, kv := range read.Responses[2].GetResponseRange().Kvs {
		c := new(Contact)
		if err := json.Unmarshal(kv.Value, c); err != nil {
			return 0, 0, fmt.Errorf("cluster: key %s: %w", kv.Key, err)
		}
		name := strings.TrimPrefix(string(kv.Key), n.key("a/"))
		names, nodes[name], newest = append(names, name), c, max(newest, c.knows())
		unchanged = append(unchanged, clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
	}
	for _, name := range names {
		if c := nodes[name]; c.knows() < newest {
			return 0, 0, fmt.Errorf("%w to %d: node %s, which has version %q, knows formats up to %d: start the node with a newer version of arl, or remove it from the cluster",
				ErrUpgrade, newest, name, c.Version, c.knows())
		}
	}
	if newest == before {
		return before, before, nil
	}
	written, err := n.client.Txn(ctx).If(unchanged...).Then(clientv3.OpPut(n.key("f"), strconv.Itoa(newest))).Commit()
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("cluster: upgrade: %w", err)
	case !written.Succeeded:
		return 0, 0, fmt.Errorf("%w to %d: a node has started or gone meanwhile: try again", ErrUpgrade, newest)
	}
	return before, newest, nil
}
