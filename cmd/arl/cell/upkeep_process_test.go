//go:build unix

package cell_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/program"
)

// again starts a node that has ended, at its address, and waits until the cluster has settled.
func (c *crowd) again(n *node) {
	started := c.m.serve(n.data, "--listen", strings.TrimPrefix(n.url, "http://"))
	n.cmd, n.said = started.cmd, started.said
	c.settle()
}

// TestRollingUpgrade starts the nodes of a cluster with a newer program, one by one, while clients
// submit. The format is raised when the last node has the program, and not before. The older
// program is refused from then on, as a node and as one that joins. Nothing acknowledged is lost.
func TestRollingUpgrade(t *testing.T) {
	budget.Unraced(t, "nodes stop and start under clients as in TestClusterChaos")
	c := newCrowd(t)
	m, dir := c.m, filepath.Join(t.TempDir(), "bin")
	must(t, program.Build(dir, "newer"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	for id := range writersCount {
		writers.Go(func() { c.submits(ctx, id) })
	}
	c.settle()
	if said := m.arl("cluster", "upgrade", "--data", "a"); !strings.Contains(said, "has format 1, the newest") {
		t.Errorf("nothing to raise: %s", said)
	}
	m.newer = filepath.Join(dir, "arl")
	for i, at := range []int{1, 2, 0} {
		c.nodes[at].stop()
		c.again(c.nodes[at])
		if i < 2 { // n1 is the last one
			if said := m.refused(6, "cluster", "upgrade", "--data", c.nodes[at].data); !strings.Contains(said, "node n1") || !strings.Contains(said, "knows formats up to 1") {
				t.Errorf("a node lacks the format: %s", said)
			}
		}
	}
	c.nodes[0].until("of the newer version", func(all map[string]member, _ string) bool {
		newer := 0
		for _, one := range all {
			if one.Version == "newer" {
				newer++
			}
		}
		return newer == len(c.nodes)
	})
	if said := m.arl("cluster", "upgrade", "--data", "a"); !strings.Contains(said, "has format 2, and had format 1") {
		t.Errorf("raised: %s", said)
	}
	c.settle()

	m.newer = ""
	behind := c.nodes[1]
	behind.stop()
	if said := m.refused(78, "serve", "--data", behind.data, "--cluster", "--listen",
		strings.TrimPrefix(behind.url, "http://")); !strings.Contains(said, "too old for its cluster") ||
		!strings.Contains(said, "has format 2, and this program knows formats up to 1") {
		t.Errorf("the older program: %s", said)
	}
	token := m.token("a")
	if said := m.refused(4, "serve", "--data", "d", "--cluster", "--listen", "127.0.0.1:0", "--peer-listen", m.own, "--etcd-listen", m.own, "--join", token); !strings.Contains(said, "has format 2") {
		t.Errorf("the older program joins: %s", said)
	}
	m.newer = filepath.Join(dir, "arl")
	c.again(behind)
	cancel()
	writers.Wait()
	c.check(t)
}

// TestCompact: a node that runs shows the files of all nodes and forgets what they keep. The file
// of a node that does not run is made smaller, and the node goes on with it.
func TestCompact(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a := m.first()
	receipts := []string{a.submit("before")}
	if said := m.arl("cluster", "compact", "--data", "a"); !strings.Contains(said, "QUOTA") || !strings.Contains(said, "n1") || !strings.Contains(said, "4294967296") {
		t.Errorf("a node that runs: %s", said)
	}
	receipts = append(receipts, a.submit("between"))
	a.stop()
	if said := m.arl("cluster", "compact", "--data", "a"); !strings.Contains(said, "etcd of n1 has ") {
		t.Errorf("a node that does not run: %s", said)
	}
	m.refused(3, "cluster", "compact", "--data", "none")
	a = m.serve("a")
	receipts = append(receipts, a.submit("after"))
	m.check(receipts, a)
	a.stop()
}
