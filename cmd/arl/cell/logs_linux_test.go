package cell_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/testdata/budget"
)

// tenant is a log of a cell, with a node at each machine of the cell.
type tenant struct {
	*machine
	origin, profile string
	nodes           []*node
}

// tenant founds a log at the machines of a cell, at ports of its own: port for clients, and the
// next two for other nodes.
func (m *machine) tenant(name string, port int, hosts ...string) *tenant {
	m.t.Helper()
	l := &tenant{machine: m, origin: name + ".example/log"}
	at := func(host string, which int) string { return net.JoinHostPort(host, fmt.Sprint(port+which)) }
	for i, host := range hosts {
		data := fmt.Sprintf("m%d/%s", i+1, name)
		args := []string{"--listen", at(host, 0), "--peer-listen", at(host, 1), "--etcd-listen", at(host, 2)}
		if i == 0 {
			args = append(args, "--origin", l.origin)
		} else {
			args = append(args, "--join", m.token(l.nodes[0].data))
		}
		must(m.t, os.MkdirAll(m.Path(filepath.Dir(data)), 0o700))
		l.nodes = append(l.nodes, m.serve(data, args...))
	}
	l.nodes[0].voters(len(hosts))
	for line := range strings.Lines(m.arl("profile", "list", "--output", "json")) {
		var p struct{ Name, Origin string }
		if must(m.t, json.Unmarshal([]byte(line), &p)); p.Origin == l.origin {
			l.profile = p.Name
		}
	}
	return l
}

// leads returns how many nodes of the log say that they order it, by their metrics.
func (l *tenant) leads() (leaders int) {
	l.t.Helper()
	for _, n := range l.nodes {
		_, text := n.get("/metrics")
		if !strings.Contains(text, fmt.Sprintf("arl_log_info{origin=%q} 1\n", l.origin)) {
			l.t.Errorf("the metrics of %s do not name %s", n.data, l.origin)
		}
		if strings.Contains(text, "\narl_cluster_leader 1\n") {
			leaders++
		}
	}
	return leaders
}

// TestTwoLogsInACell runs two logs on the same two machines, a process each. Keys, profiles,
// certificates, ports, metrics and commands are those of an origin. What one log suffers leaves the
// other one as it is.
func TestTwoLogsInACell(t *testing.T) {
	budget.Unraced(t, "each process is a node as in TestOneThreeOne")
	m := newMachine(t)
	hosts := []string{hostOf(host(t)), hostOf(host(t))}
	one, two := m.tenant("one", 7101, hosts...), m.tenant("two", 7201, hosts...)
	for _, l := range []*tenant{one, two} {
		key := l.profile + ".key"
		m.arl("key", "generate", "--out", key)
		m.arl("agent", "enrol", "--principal", "my-agent", "--key", key, "--domain", "my-team", "--profile", l.profile)
		m.arl("entry", "submit", "--kind", "execution", "--principal", "my-agent", "--key", key, "--payload", m.payload(l.profile), "--profile", l.profile, "--out", l.profile+".receipt")
		m.arl("verify", l.profile+".receipt", "--profile", l.profile)
		if leaders := l.leads(); leaders != 1 {
			t.Errorf("%d nodes lead %s", leaders, l.origin)
		}
		if said := m.arl("cluster", "status", "--data", l.nodes[1].data, "--output", "json"); !strings.Contains(said, l.nodes[0].url) || strings.Count(said, `"name"`) != 2 {
			t.Errorf("the nodes of %s: %s", l.origin, said)
		}
	}
	m.refused(5, "verify", one.profile+".receipt", "--profile", two.profile)
	for _, file := range []string{"keys/ledger.key", "cluster/ca.crt"} {
		of := func(l *tenant) string {
			content, err := os.ReadFile(m.Path(l.nodes[1].data + "/" + file))
			must(t, err)
			return string(content)
		}
		if of(one) == of(two) {
			t.Errorf("both logs have one %s", file)
		}
	}
	own, err := site.Load(m.Path(one.nodes[0].data))
	must(t, err)
	other, err := site.Load(m.Path(two.nodes[0].data))
	must(t, err)
	nodeOfOne, err := peer.NewClient(own)
	must(t, err)
	if _, err := nodeOfOne.Status(t.Context(), other.Peer); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a node of one log asks a node of the other: %v", err)
	}

	for _, n := range one.nodes {
		n.kill()
	}
	receipt := two.profile + "-again.receipt"
	m.arl("entry", "submit", "--kind", "execution", "--principal", "my-agent", "--key", two.profile+".key", "--payload", m.payload("again"), "--profile", two.profile, "--out", receipt)
	m.arl("profile", "use", two.profile)
	m.check([]string{m.Path(receipt)}, two.nodes...)
}
