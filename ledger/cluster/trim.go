package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// kept is what a node says of itself: the value of its key.
type kept struct {
	Seq  uint64      `json:"seq"`
	Size uint64      `json:"size"`
	Root merkle.Hash `json:"root"`
}

// compactEvery is the number of changes of etcd after which their history is removed, though no
// batch is: the leader confirms its term each second.
const compactEvery = 100

// trim is what this node knows of what the nodes keep.
type trim struct {
	own atomic.Pointer[kept] // what this node keeps; nil: it has not said so yet

	// mu lets one goroutine at a time remove. It guards the rest.
	mu        sync.Mutex
	lacking   lacking
	last      uint64 // number of the last batch that this node removed
	compacted int64  // revision up to which the history is removed
}

// lacking is the nodes that lack a batch, by key.
type lacking map[string]heard

// heard is when a node that lacks a batch was heard of last. A node that has every batch is silent
// while nothing is registered, so its silence begins with the first batch that it lacks.
type heard struct {
	revision int64
	at       time.Time
}

// Kept implements [agreement.Sequencer]. The error is [agreement.ErrDiverged] if another node has
// another head of the same number.
func (n *Node) Kept(ctx context.Context, seq uint64, head merkle.Head) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	own := kept{seq, head.Size, head.Root}
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	n.trim.own.Store(&own)
	if _, err := n.client.Put(ctx, n.key("n/"+n.cfg.Name), string(value)); err != nil {
		return fmt.Errorf("cluster: tell what is kept: %w", err)
	}
	nodes, _, err := n.keeps(ctx)
	if err != nil {
		return err
	}
	for key, node := range nodes {
		if node.Seq == own.Seq && node.kept != own {
			return agreement.Diverged(own.Seq, "%s has root %s of size %d, and this node has root %s of size %d", key, node.Root, node.Size, own.Root, own.Size)
		}
	}
	return nil
}

// keep is what a node has said that it keeps.
type keep struct {
	kept
	revision int64 // of etcd, when the node said so
}

// keeps returns what the nodes keep, by key, and the revision of etcd.
func (n *Node) keeps(ctx context.Context) (nodes map[string]keep, revision int64, err error) {
	found, err := n.client.Get(ctx, n.key("n/"), clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return nil, 0, fmt.Errorf("cluster: read what the nodes keep: %w", err)
	}
	nodes = map[string]keep{}
	for _, kv := range found.Kvs {
		k := keep{revision: kv.ModRevision}
		if err := json.Unmarshal(kv.Value, &k.kept); err != nil {
			return nil, 0, fmt.Errorf("cluster: key %s: %w", kv.Key, err)
		}
		nodes[string(kv.Key)] = k
	}
	return nodes, found.Header.Revision, nil
}

// remove removes what no node needs any more (see least), and the history of etcd. The node that
// leads Raft calls it each second, also where nothing is registered: a node that catches up may
// be what makes room. etcd removes at its quota, too.
func (n *Node) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	t, own := &n.trim, n.trim.own.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes, revision, err := n.keeps(ctx)
	if err != nil || own == nil {
		return err
	}
	full := n.used() > n.cfg.Quota/4
	least := t.lacking.least(time.Now(), nodes, len(n.etcd.Server.Cluster().Members()), own.Seq, full)
	if least > t.last {
		if revision, err = n.drop(ctx, least); err != nil {
			return err
		}
	} else if revision < t.compacted+compactEvery {
		return nil
	}
	if err := n.forgetHistory(ctx, revision); err != nil {
		return err
	}
	t.last, t.compacted = max(t.last, least), revision
	return nil
}

// drop removes the batches up to a number, and returns the revision of etcd at which they are
// history: before that one they are not yet.
func (n *Node) drop(ctx context.Context, last uint64) (revision int64, err error) {
	removed, err := n.client.Delete(ctx, n.batchKey(0), clientv3.WithRange(n.batchKey(last+1)))
	if err != nil {
		return 0, fmt.Errorf("cluster: remove what the nodes keep: %w", err)
	}
	return removed.Header.Revision, nil
}

// forgetHistory removes the history of etcd before a revision.
func (n *Node) forgetHistory(ctx context.Context, revision int64, options ...clientv3.CompactOption) error {
	if _, err := n.client.Compact(ctx, revision, options...); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("cluster: compact: %w", err)
	}
	return nil
}

// least returns the last number that each of so many nodes has; 0 if not all were heard of. own is
// the number that this node has. A node that has been silent for long, while it lacked a batch,
// counts no more. If etcd is full, least returns the last number that most nodes have.
func (l lacking) least(now time.Time, nodes map[string]keep, members int, own uint64, full bool) uint64 {
	least := own
	var all []uint64
	for key, node := range nodes {
		all = append(all, node.Seq)
		if node.Seq >= own {
			delete(l, key)
			continue
		}
		last := l[key]
		if last.revision != node.revision {
			last = heard{node.revision, now}
			l[key] = last
		}
		if now.Sub(last.at) < silentMax {
			least = min(least, node.Seq)
		}
	}
	switch slices.Sort(all); {
	case full && len(all) > members/2:
		return all[len(all)-1-members/2]
	case len(all) < members:
		return 0
	}
	return least
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
