package cell_test

import (
	"encoding/json"
	"time"

	"recoveryledger/api"
)

// floods fills the etcd of the cluster up to its quota, and makes room as docs/cluster.md says: the
// file of each node is made smaller while the node does not run. The node that was away meanwhile
// lacks what etcd has dropped to make room: it ends, is removed, and joins anew.
func (c *campaign) floods(n *node) {
	n.kill()
	c.m.flood(n.data)
	others := c.others(n)
	for _, other := range others {
		other.answers(api.PathReady, 503, "its database has reached its quota")
	}
	by := c.removes(n)
	c.m.makesRoom(others, func(n *node) func() {
		serves := c.started(n)
		return func() { must(c.t, serves()) }
	})
	c.joins(n, by)
	by.voters(3)
}

// loses loses two nodes with all that they had, and begins the cluster again from the one that led.
// What no node but these had would be lost, so every node has everything at that moment.
func (c *campaign) loses() {
	leader, lost := c.whole()
	args := []string{"cluster", "reseed", "--data", leader.data, "--reason", "two machines have burnt"}
	for _, n := range lost {
		args = append(args, "--without", c.name(n, leader))
	}
	for _, n := range lost {
		n.kill()
	}
	c.still.Unlock()
	time.Sleep(c.while()) // clients wait meanwhile
	leader.stop()
	c.m.arl(args...)
	c.begun(leader)
	for _, n := range lost {
		c.joins(n, leader)
	}
	leader.voters(3)
}

// whole waits until every node has the same entries while no client asks, and returns the leader
// and the others. The caller lets the clients go on.
func (c *campaign) whole() (leader *node, others []*node) {
	for began := time.Now(); ; time.Sleep(askEvery) {
		leader = c.nodes[c.leader()]
		c.still.Lock()
		sizes := map[uint64]int{} // how many nodes have each
		var log struct{ Size uint64 }
		for _, n := range c.nodes {
			_, body := n.get(api.PathLog)
			if json.Unmarshal([]byte(body), &log) == nil {
				sizes[log.Size]++
			}
		}
		status, _ := leader.get(api.PathLeader)
		if sizes[log.Size] == len(c.nodes) && status == 200 {
			return leader, c.others(leader)
		}
		c.still.Unlock()
		if time.Since(began) > time.Minute {
			c.t.Fatalf("the nodes have the sizes %v for a minute", sizes)
		}
	}
}
