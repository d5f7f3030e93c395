package metrics

import (
	"context"
	"errors"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/agreement"
)

// membersTime is for how long a reading of the metrics waits for the nodes of the cluster.
const membersTime = time.Second

func ofCluster() []Metric {
	return group("The cluster",
		Metric{Name: "arl_cluster_leader", Type: Gauge, pulled: true,
			Meaning: "1 if this node orders the log, and a majority of the nodes follows it; 0: another node does, or none. A ledger of one node has " +
				"no metrics of a cluster."},
		Metric{Name: "arl_cluster_lag_entries", Type: Gauge, Unit: "entries", pulled: true, Labels: []Label{{Name: "node", Bound: "the nodes of the cluster"}},
			Meaning: "Entries that another node has on its disk and this one lacks, as the node that is asked knows it."},
		Metric{Name: "arl_cluster_agreement_seconds", Type: Histogram, Unit: "seconds", buckets: []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10},
			Meaning: "Time from the first offer of a batch of entries to its place in the order, at the node that leads."},
		Metric{Name: "arl_cluster_overtaken_total", Type: Counter, Meaning: "Batches that this node offered and took back, because another node had " +
			"begun to lead. Their submitters heard that the ledger was not ready."},
		Metric{Name: "arl_cluster_paused", Type: Gauge, pulled: true, Meaning: "1 if this node takes no more of what the others register, because its disk is at its reserve."},
		Metric{Name: "arl_cluster_etcd_bytes", Type: Gauge, Unit: "bytes", pulled: true, Meaning: "Size of etcd's database at this node. At the quota the cluster takes no writes."},
		Metric{Name: "arl_cluster_etcd_used_bytes", Type: Gauge, Unit: "bytes", pulled: true,
			Meaning: "Bytes in use in etcd's database at this node. Entries are slow from half of the quota on, and refused from three quarters on."},
		Metric{Name: "arl_cluster_etcd_quota_bytes", Type: Gauge, Unit: "bytes", pulled: true, Meaning: "Quota of etcd's database."})
}

// Agreed counts a batch that this node offered. It is meant for [agreement.Observe].
func (m *Metrics) Agreed(took time.Duration, err error) {
	if errors.Is(err, agreement.ErrOvertaken) {
		m.counter("arl_cluster_overtaken_total").Inc()
		return
	}
	m.histogram("arl_cluster_agreement_seconds").Observe(took.Seconds())
}

// Cluster shows the nodes of a cluster. leads says whether this one orders the log, for all that it
// knows. A node that lost the majority is not told so, but knows no leader any more.
func (m *Metrics) Cluster(leads func() bool, nodes func(context.Context) (*api.Cluster, error)) {
	m.add("cluster", func(emit emit) {
		ctx, cancel := context.WithTimeout(context.Background(), membersTime)
		defer cancel()
		c, err := nodes(ctx)
		emit("arl_cluster_leader", truth(leads() && err == nil && c.Leader == c.Node))
		if err != nil {
			return // an absent series of the lag says that this node cannot tell
		}
		for _, one := range c.Members {
			emit("arl_cluster_lag_entries", float64(one.Lag), one.Name)
		}
	})
}

// Room shows whether a node of a cluster follows no further, and what its etcd holds: the size of
// the database, how much of it is in use, and its quota, in bytes.
func (m *Metrics) Room(paused func() bool, etcd func() (size, used, quota int64)) {
	m.add("room", func(emit emit) {
		emit("arl_cluster_paused", truth(paused()))
		size, used, quota := etcd()
		emit("arl_cluster_etcd_bytes", float64(size))
		emit("arl_cluster_etcd_used_bytes", float64(used))
		emit("arl_cluster_etcd_quota_bytes", float64(quota))
	})
}
