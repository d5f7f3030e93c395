package cell_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/server"
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

// TestStopWithoutMajority stops a node whose entries nobody agrees on, as docs/cluster.md asks
// before a cluster is begun again. A submitter who would wait for a minute has an answer, and does
// not hold the node up.
func TestStopWithoutMajority(t *testing.T) {
	m := newMachine(t)
	a := m.found("a")
	b := m.join("b", a)
	a.voters(2)
	c := &crowd{m: m, nodes: []*node{a, b}}
	c.enrol(t)
	m.arl("cluster", "lead", "n1", "--data", "a")
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	b.kill()
	e, answers := c.signed(c.work()), make(chan *api.Problem, 1)
	go func() {
		_, problem := c.tries(a, e)
		answers <- problem
	}()
	a.answers(api.PathReady, 503, "have not agreed")
	began := time.Now()
	a.stop()
	if took := time.Since(began); took > server.Grace {
		t.Errorf("the node took %v to stop", took)
	}
	if problem := <-answers; problem == nil || problem.Status != http.StatusServiceUnavailable || !strings.Contains(problem.Detail, "have not agreed") {
		t.Errorf("the submitter hears %v", problem)
	}
	a, served := m.begin("a")
	m.serve("b")
	served()
	a.voters(2)
	if _, err := c.client(a.url).Submit(t.Context(), e); err != nil {
		t.Errorf("the same entry again: %v", err)
	}
}
