package cell_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/cluster/site"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/overfill"
)

// flood runs the etcd of a node that does not run, and has it fill that of the cluster.
func (m *machine) flood(data string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 3*time.Minute)
	defer cancel()
	must(m.t, overfill.Etcd(ctx, m.Path(data)))
}

// finds asks a node until it says that a file of etcd is too large. A node that has just begun does
// not answer yet.
func (m *machine) finds(data string) {
	m.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * askEvery) {
		out, _ := m.Command("cluster", "compact", "--data", data).CombinedOutput()
		if tooLarge.Match(out) {
			return
		}
		if time.Since(began) > time.Minute {
			m.t.Fatalf("%s finds no file that is too large: %s", data, out)
		}
	}
}

// makesRoom does what docs/cluster.md says about a full etcd, at nodes that run. start starts one,
// and returns a function that waits until it serves.
func (m *machine) makesRoom(nodes []*node, start func(n *node) (serves func())) {
	m.t.Helper()
	m.finds(nodes[0].data)
	serves := map[*node]func(){}
	for _, n := range nodes {
		serves[n] = m.shrinks(n, start)
	}
	for began := time.Now(); ; time.Sleep(10 * askEvery) {
		out, _ := m.Command("cluster", "compact", "--data", nodes[1].data).CombinedOutput()
		if strings.Contains(string(out), "takes entries again") {
			break
		}
		// A busy node may not have removed the history yet when its file was made smaller.
		if found := tooLarge.FindSubmatch(out); found != nil {
			n := m.called(string(found[1]), nodes)
			serves[n] = m.shrinks(n, start)
		}
		if time.Since(began) > 2*time.Minute {
			m.t.Fatalf("no entries are taken: %s", out)
		}
	}
	for _, n := range nodes {
		serves[n]()
	}
}

// tooLarge finds the node that is to be stopped.
var tooLarge = regexp.MustCompile(`the file of etcd of (n[0-9]+) has`)

// called returns the node of a name.
func (m *machine) called(name string, nodes []*node) *node {
	m.t.Helper()
	for _, n := range nodes {
		s, err := site.Load(m.Path(n.data))
		if must(m.t, err); s.Name == name {
			return n
		}
	}
	m.t.Fatalf("no node is called %s", name)
	return nil
}

// shrinks makes the file of etcd of a node smaller, while the node does not run.
func (m *machine) shrinks(n *node, start func(n *node) (serves func())) (serves func()) {
	m.t.Helper()
	must(m.t, n.cmd.Process.Signal(os.Interrupt))
	_ = n.cmd.Wait() // a node that does not serve yet ends with an error
	if said := m.arl("cluster", "compact", "--data", n.data); !strings.Contains(said, "bytes, and had ") {
		m.t.Errorf("%s: %s", n.data, said)
	}
	return start(n)
}

// TestFullCluster fills the etcd of three nodes up to their quota, in spite of what they do against
// that. They take no entries, and say why. What the page says makes room: each file is made smaller
// while its node does not run, and one node is asked. Then entries are taken, and none is lost.
func TestFullCluster(t *testing.T) {
	budget.Unraced(t, "a node that has no room does less than the nodes of TestClusterChaos")
	m := newMachine(t)
	quota := []string{"--etcd-quota", fmt.Sprint(overfill.Quota)}
	serve := func(data string, args ...string) *node { return m.serve(data, append(args, quota...)...) }
	a := serve("a", "--peer-listen", m.own, "--etcd-listen", m.own)
	m.enrols(a.url)
	nodes := []*node{a}
	for _, data := range []string{"b", "c"} {
		token := m.token("a")
		nodes = append(nodes, serve(data, "--peer-listen", m.own, "--etcd-listen", m.own, "--join", token))
	}
	a.voters(3)
	receipts := []string{a.submit("before")}
	m.check(receipts, nodes...)
	nodes[2].stop()
	m.flood("c")

	for _, n := range nodes[:2] {
		n.answers("/readyz", http.StatusServiceUnavailable, "its database has reached its quota")
		m.check(receipts, n) // reads go on
	}
	payload := m.payload("refused")
	if said := m.refused(9, "entry", "submit", "--kind", "execution", "--principal", "my-agent", "--key", m.Path("agent.key"), "--payload", payload, "--url", a.url); !strings.Contains(said, "quota") {
		t.Errorf("a full etcd: %s", said)
	}
	if said := m.refused(6, "cluster", "compact", "--data", "a"); !strings.Contains(said, "n3 does not say how large its etcd is: start it, or remove it") {
		t.Errorf("a node is away: %s", said)
	}
	again := func(n *node) (serves func()) {
		started, wait := m.begin(n.data, quota...)
		n.cmd, n.said = started.cmd, started.said
		return func() { wait(); n.url = started.url }
	}
	again(nodes[2]) // it serves when the cluster takes entries
	m.makesRoom(nodes, again)
	for _, n := range nodes {
		n.answers("/readyz", http.StatusOK, "")
	}
	receipts = append(receipts, nodes[1].submit("after"))
	m.check(receipts, nodes...)
}
