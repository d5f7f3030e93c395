//go:build unix

package cell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// witness starts a witness of the log of a node, and returns the text that names it in a policy.
func (m *machine) witness(of *node) (policy string) {
	m.t.Helper()
	_, body := of.get("/v1/log")
	var log struct {
		VerifierKeys []string `json:"verifier_keys"`
	}
	must(m.t, json.Unmarshal([]byte(body), &log))
	cmd := m.Command("witness", "--state", "witness", "--name", "one.example", "--log", log.VerifierKeys[0], "--listen", "127.0.0.1:0", "--output", "json")
	out, err := cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, cmd.Start())
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it may have ended
	var started struct{ Policy []string }
	must(m.t, json.NewDecoder(out).Decode(&started))
	return fmt.Sprintf("witnesses: |\n  %s\n  group all all one.example\n  quorum all\n", strings.Join(started.Policy, "\n  "))
}

// witnessed waits until a node shows a tree head with an entry that the quorum has cosigned.
func (n *node) witnessed(size uint64) {
	n.m.t.Helper()
	for began := time.Now(); ; time.Sleep(askEvery) {
		_, body := n.get("/v1/log")
		var log struct{ Witnessed struct{ Size uint64 } }
		if json.Unmarshal([]byte(body), &log) == nil && log.Witnessed.Size >= size {
			return
		}
		if time.Since(began) > time.Minute {
			n.m.t.Fatalf("%s: want a cosigned head of %d entries: %s\n%s", n.data, size, body, n.said)
		}
	}
}

// TestWitnessedCluster: a witness cosigns the heads of a cluster through a change of the leader,
// and every node shows the cosignatures. A node that was away meanwhile goes on.
func TestWitnessedCluster(t *testing.T) {
	m := newMachine(t)
	a := m.first()
	b := m.join("b", a)
	a.voters(2)
	must(t, os.WriteFile(m.Path("policy.yaml"), []byte(m.arl("policy", "show", "--url", a.url)+m.witness(a)), 0o600))
	m.arl("policy", "apply", "policy.yaml", "--reason", "a witness", "--yes", "--url", a.url)
	size := func(n *node) (size uint64) {
		_, body := n.get("/v1/log")
		var log struct{ Size uint64 }
		must(t, json.Unmarshal([]byte(body), &log))
		return log.Size
	}
	receipts := []string{}
	for i, leader := range []string{"n1", "n2", "n1"} {
		m.arl("cluster", "lead", leader, "--data", "a")
		receipts = append(receipts, b.submit(fmt.Sprint("led-by-", leader, i)))
		for _, n := range []*node{a, b} {
			n.witnessed(size(a))
		}
	}
	b.kill()
	b = m.serve("b")
	receipts = append(receipts, b.submit("again"))
	b.witnessed(size(b))
	m.check(receipts, a, b)
}
