package cluster

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// etcd raises an alarm when its database has reached the quota: from then on it takes no write, so
// nothing is registered and no node begins to lead, until the database was compacted while the node
// did not run. So the nodes stop before that. From a quarter of the quota on, they wait for fewer
// nodes (remove). From the half on, batches are offered slowly, and from three quarters on no
// entries are taken. What is removed makes room again, but the database keeps its size.
const (
	slowMost = 400 * time.Millisecond // before a whole batch is offered, at three quarters of the quota
	growMost = 4 << 20                // bytes by which the database grows with a batch: it copies the pages beside the batch
)

// compactRemedy is the remedy for a database that has reached its quota.
const compactRemedy = "run arl cluster compact at a node while all nodes run, and do what it says: it names each node that has to be stopped, " +
	"compacted with its data directory and started again (docs/cluster.md#a-full-etcd)"

// used returns how many bytes of etcd's database are in use.
func (n *Node) used() int64 { return n.etcd.Server.Backend().SizeInUse() }

// Database returns the size of etcd's database here, how much of it is in use, and its quota, in
// bytes.
func (n *Node) Database() (size, used, quota int64) {
	return n.etcd.Server.Backend().Size(), n.used(), n.cfg.Quota
}

// slow waits before a batch of so many bytes is offered: the longer, the less room etcd has.
func (n *Node) slow(ctx context.Context, bytes int) {
	pause := slowed(n.used(), n.cfg.Quota, bytes)
	if pause == 0 {
		return
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// slowed returns the time to wait before a batch of so many bytes is offered.
func slowed(used, quota int64, bytes int) time.Duration {
	over := float64(min(max(0, used-quota/2), quota/4)) / float64(quota/4)
	part := max(float64(bytes)/agreement.MaxBytes, 1.0/16)
	return time.Duration(float64(slowMost) * over * part)
}

// Unable returns why no entries are taken anywhere in the cluster; nil: this node knows no reason.
// It is Unable of agreement.Member.
func (n *Node) Unable() *entry.Refusal {
	for _, alarm := range n.etcd.Server.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return entry.Refuse(entry.NotReady, "", "etcd of the cluster takes no writes: its database has reached its quota of %d bytes", n.cfg.Quota).
				WithRemedy(compactRemedy)
		}
	}
	return cmp.Or(unable(n.Database()), n.roomless.Load(), n.unled.Load())
}

// unable returns why a database of etcd takes no entries; nil: it takes them.
func unable(size, used, quota int64) *entry.Refusal {
	switch {
	case used >= quota/4*3:
		return entry.Refuse(entry.InsufficientStorage, "", "etcd holds %d bytes, and its quota is %d: too few nodes have taken the newest entries", used, quota).
			WithRemedy("start the nodes that lag, or free their disks (arl cluster status): the cluster then takes entries again without a restart")
	case size+min(growMost, quota/8) >= quota:
		return entry.Refuse(entry.InsufficientStorage, "", "the database of etcd has %d bytes, and its quota is %d", size, quota).WithRemedy(compactRemedy)
	}
	return nil
}

// Roomless says which nodes have no room on their disks, if too few nodes have room to take
// entries; none: enough have room.
func (n *Node) Roomless(nodes []string) {
	if len(nodes) == 0 {
		n.roomless.Store(nil)
		return
	}
	n.roomless.Store(entry.Refuse(entry.InsufficientStorage, "", "fewer than a majority of the nodes have room on their disks: %s have none", strings.Join(nodes, ", ")).
		WithRemedy("free disk space at these nodes: the cluster then takes entries again without a restart"))
}
