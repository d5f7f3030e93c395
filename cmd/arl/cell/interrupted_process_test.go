//go:build unix

package cell_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"recoveryledger/ledger/cluster/site"
	"recoveryledger/testdata/budget"
)

// killedAt runs a command, or starts a node, and kills it when reached says so. It reports false if
// the process ended before.
func (m *machine) killedAt(reached func() bool, args ...string) bool {
	m.t.Helper()
	cmd, said := m.Command(args...), &lines{}
	cmd.Stderr = said
	must(m.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !reached() {
		select {
		case err := <-ended:
			if err != nil {
				m.t.Fatalf("arl %q: %v\n%s", args, err, said)
			}
			return false
		default: // no pause: what is to be hit takes less than a millisecond
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	return <-ended != nil
}

// TestInterruptedReseed kills arl cluster reseed behind each of its steps. The next run ends what
// the first one began: meanwhile no node starts, and no other command takes the directory for that
// of a node. A reseed that was ended is not done again.
func TestInterruptedReseed(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a := m.first()
	receipts := []string{a.submit("before")}
	gone := func(name string) func() bool {
		return func() bool { _, err := os.Stat(m.Path(name)); return errors.Is(err, fs.ErrNotExist) }
	}
	decided := func() bool {
		s, err := site.Load(m.Path("a"))
		return err == nil && s.Reseeds
	}
	began := func() bool { return gone("a/cluster/etcd.started")() }
	for _, step := range []struct {
		name    string
		reached func() bool
	}{{"the decision", decided}, {"the files of etcd are gone", gone("a/cluster/etcd")}, {"the note is gone", began}} {
		a.stop()
		hit := m.killedAt(step.reached, "cluster", "reseed", "--data", "a")
		if s, err := site.Load(m.Path("a")); err != nil || hit && step.name == "the decision" && !s.Reseeds {
			t.Fatalf("%s: %+v, %v", step.name, s, err)
		}
		if decided() {
			for _, args := range [][]string{{"serve", "--cluster", "--data", "a"}, {"cluster", "leave", "--data", "a"}, {"cluster", "evidence", "--data", "a"}} {
				if said := m.refused(6, args...); !strings.Contains(said, "end that with arl cluster reseed --data a") {
					t.Errorf("%s: arl %q: %s", step.name, args, said)
				}
			}
			m.arl("cluster", "reseed", "--data", "a")
		}
		if said := m.refused(6, "cluster", "reseed", "--data", "a"); !strings.Contains(said, "has begun its cluster again") {
			t.Errorf("%s: reseeded twice: %s", step.name, said)
		}
		a = m.found("a") // nobody knows it yet, so it may have other addresses
		a.voters(1)
		receipts = append(receipts, a.submit("behind-"+strings.ReplaceAll(step.name, " ", "-")))
		m.check(receipts, a)
		t.Logf("%s: hit %t", step.name, hit)
	}
}

// TestInterruptedJoin kills a node that joins when its etcd has begun. It goes on at the next
// start, though it had no anchor of its own yet. Later a missing anchor is refused.
func TestInterruptedJoin(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a := m.first()
	receipts := []string{a.submit("before")}
	started := func() bool { _, err := os.Stat(m.Path("b/cluster/etcd.started")); return err == nil }
	if !m.killedAt(started, "serve", "--cluster", "--data", "b", "--listen", "127.0.0.1:0", "--peer-listen", m.own, "--etcd-listen", m.own, "--join", m.token("a")) {
		t.Fatal("the node ended by itself")
	}
	b := m.serve("b")
	a.voters(2)
	receipts = append(receipts, b.submit("by-b"))
	m.check(receipts, a, b)
	b.stop()
	must(t, os.Remove(m.Path("b.anchor")))
	if said := m.refused(10, "serve", "--cluster", "--data", "b", "--listen", "127.0.0.1:0"); !strings.Contains(said, "anchor") {
		t.Errorf("a node without the anchor that it had: %s", said)
	}
}

// TestContradictions gives a node flags that say what it is not, or that make it another ledger.
func TestContradictions(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	single := m.serve("a", "--cluster=false")
	m.refused(6, "serve", "--cluster", "--data", "a", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:1", "--etcd-listen", "127.0.0.1:2")
	if _, err := os.Stat(m.Path("a/cluster/cluster.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ledger that runs is founded as a cluster: %v", err)
	}
	single.stop()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	if said := m.refused(78, "serve", "--cluster", "--data", "a", "--listen", "127.0.0.1:0", "--peer-listen", taken.Addr().String()); !strings.Contains(said, "pass --peer-listen with another address") {
		t.Errorf("the port is taken: %s", said)
	}
	a := m.found("a") // under other addresses
	for flag, value := range map[string]string{"--node": "n7", "--peer-listen": "192.0.2.1:1", "--peer-advertise": "noport", "--etcd-listen": "foo:bar:1"} {
		if said := m.refused(2, "serve", "--cluster", "--data", "a", "--listen", "127.0.0.1:0", flag, value); !strings.Contains(said, flag+" "+value+": this node has") {
			t.Errorf("%s %s: %s", flag, value, said)
		}
	}
	token := m.token("a")
	parts := strings.Split(token, ".")
	parts[2] = strings.Repeat("A", len(parts[2]))
	if said := m.refused(4, "serve", "--cluster", "--data", "b", "--listen", "127.0.0.1:0", "--peer-listen", m.own, "--etcd-listen", m.own, "--join",
		strings.Join(parts, ".")); !strings.Contains(said, "not of the cluster that the token names") {
		t.Errorf("a token of another cluster: %s", said)
	}
	if said := m.refused(6, "serve", "--cluster", "--data", "b", "--listen", "127.0.0.1:0", "--peer-listen", m.own, "--etcd-listen", m.own); !strings.Contains(said, "was to join a cluster") {
		t.Errorf("a node that was not admitted founds a cluster: %s", said)
	}
	b := m.serve("b", "--peer-listen", m.own, "--etcd-listen", m.own, "--join", token)
	a.voters(2)
	b.stop()
	b = m.serve("b", "--peer-listen", m.own) // a port 0 is any
	a.voters(2)
	if status, body := b.get("/readyz"); status != 200 {
		t.Errorf("b is not ready: %d %s", status, body)
	}
}
