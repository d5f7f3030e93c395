package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"recoveryledger/ledger/agreement"
	"recoveryledger/merkle"
)

// silentMax is the time after which the batches that a silent node lacks are kept no longer.
const silentMax = time.Hour

// roomMax is how many bytes etcd may hold, before the batches that fewer than half of the nodes
// lack are kept no longer. An etcd that reaches its quota takes no batch any more, for ever.
const roomMax = quota / 4

// kept is what a node says of itself: the value of its key.
type kept struct {
	Seq  uint64      `json:"seq"`
	Size uint64      `json:"size"`
	Root merkle.Hash `json:"root"`
}

// trimmer is the nodes that lack a batch, by key.
type trimmer map[string]heard

// heard is when a node that lacks a batch was heard of last. A node that has every batch is silent
// while nothing is registered, so its silence begins with the first batch that it lacks.
type heard struct {
	revision int64
	at       time.Time
}

// Kept implements [agreement.Sequencer]. One goroutine at a time may call it. On the node that
// leads Raft it removes what no node needs any more: see least.
// The error is [agreement.ErrDiverged] if another node has another head of the same number.
func (n *Node) Kept(ctx context.Context, seq uint64, head merkle.Head) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	value, err := json.Marshal(kept{seq, head.Size, head.Root})
	if err != nil {
		return err
	}
	if _, err := n.client.Put(ctx, n.key("n/"+n.cfg.Name), string(value)); err != nil {
		return fmt.Errorf("cluster: tell what is kept: %w", err)
	}
	nodes, err := n.client.Get(ctx, n.key("n/"), clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("cluster: read what the nodes keep: %w", err)
	}
	full := n.etcd.Server.Backend().SizeInUse() > n.room
	least, err := n.trim.least(time.Now(), nodes.Kvs, len(n.etcd.Server.Cluster().Members()), kept{seq, head.Size, head.Root}, full)
	if err != nil || least == 0 || !n.Leads() {
		return err
	}
	if _, err := n.client.Delete(ctx, n.batchKey(0), clientv3.WithRange(n.batchKey(least+1))); err != nil {
		return fmt.Errorf("cluster: remove what every node keeps: %w", err)
	}
	if _, err := n.client.Compact(ctx, nodes.Header.Revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("cluster: compact: %w", err)
	}
	return nil
}

// least returns the last number that each of so many nodes has; 0 if not all were heard of. own is
// what this node keeps. A node that has been silent for long, while it lacked a batch, counts no
// more. If etcd is full, least returns the last number that most nodes have.
func (t *trimmer) least(now time.Time, nodes []*mvccpb.KeyValue, members int, own kept, full bool) (least uint64, err error) {
	least = own.Seq
	var all []uint64
	for _, kv := range nodes {
		var node kept
		if err := json.Unmarshal(kv.Value, &node); err != nil {
			return 0, fmt.Errorf("cluster: key %s: %w", kv.Key, err)
		}
		if node.Seq == own.Seq && node != own {
			return 0, agreement.Diverged(own.Seq, "%s has root %s of size %d, and this node has root %s of size %d", kv.Key, node.Root, node.Size, own.Root, own.Size)
		}
		all = append(all, node.Seq)
		if node.Seq >= own.Seq {
			delete(*t, string(kv.Key))
			continue
		}
		last := (*t)[string(kv.Key)]
		if last.revision != kv.ModRevision {
			last = heard{kv.ModRevision, now}
			(*t)[string(kv.Key)] = last
		}
		if now.Sub(last.at) < silentMax {
			least = min(least, node.Seq)
		}
	}
	switch slices.Sort(all); {
	case full && len(all) > members/2:
		return all[len(all)-1-members/2], nil
	case len(all) < members:
		return 0, nil
	}
	return least, nil
}

// lastNumber reads the value of h, which is 0 where there is none.
func lastNumber(kvs []*mvccpb.KeyValue) (uint64, error) {
	if len(kvs) == 0 {
		return 0, nil
	}
	number, err := strconv.ParseUint(string(kvs[0].Value), 10, 64)
	if err != nil {
		return 0, errors.Join(errors.New("cluster: the last number in etcd is none"), err)
	}
	return number, nil
}
