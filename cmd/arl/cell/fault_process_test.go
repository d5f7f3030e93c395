//go:build unix

package cell_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/testdata/budget"
)

// TestDivergedNode gives a node another secret than the others have. The node takes no batch of
// theirs: it answers no client any more, shows the counter once, and ends. The other node goes on.
func TestDivergedNode(t *testing.T) {
	m := newMachine(t)
	a := m.first()
	b := m.join("b", a)
	a.voters(2)
	b.stop()
	m.edit("b/cluster/cluster.json", "secret", `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`)
	b = m.serve("b")
	a.voters(2)
	m.arl("cluster", "lead", "n1", "--data", "a")
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	const counter = `arl_invariant_violations_total{invariant="diverged"} `
	if _, text := b.get("/metrics"); !strings.Contains(text, counter+"0\n") {
		t.Fatalf("before: %s", text)
	}
	receipts := []string{a.submit("refused-by-b")}
	for began := time.Now(); ; time.Sleep(askEvery) {
		status, body := b.get("/v1/log")
		if status == 503 && strings.Contains(body, "has halted") {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the node goes on: %d %s\n%s", status, body, b.said)
		}
	}
	if _, text := b.get("/metrics"); !strings.Contains(text, `arl_invariant_violations_total{invariant="diverged"} 1`+"\n") {
		t.Errorf("the last metrics: %s", text)
	}
	_ = b.cmd.Wait() // its exit code follows
	if code := b.cmd.ProcessState.ExitCode(); code != 10 || !strings.Contains(b.said.String(), "its MAC does not fit") {
		t.Errorf("exit code %d: %s", code, b.said)
	}
	m.check(receipts, a)
}

// edit changes a member of a file of JSON.
func (m *machine) edit(name, member, value string) {
	m.t.Helper()
	content, err := os.ReadFile(m.Path(name))
	must(m.t, err)
	all := map[string]jsontext.Value{}
	must(m.t, json.Unmarshal(content, &all))
	all[member] = jsontext.Value(value)
	content, err = json.Marshal(all)
	must(m.t, err)
	must(m.t, os.WriteFile(m.Path(name), content, 0o600))
}

// TestCutOff: a node that no majority answers reads on, and neither denies an entry nor takes one.
// One that starts then refuses requests, so that clients go on to another node. Both resume by
// themselves.
func TestCutOff(t *testing.T) {
	budget.Unraced(t, "TestClusterChaos cuts nodes off, too")
	m := newMachine(t)
	a := m.first()
	b := m.join("b", a)
	b.voters(2)
	receipts := []string{b.submit("before")}
	m.check(receipts, a, b)
	a.kill()
	for path, want := range map[string]int{"/v1/entries/0": 200, "/v1/entries/99": 503, "/v1/consistency/1/99": 503, "/v1/agents/nobody": 503, "/readyz": 503, "/healthz": 200, "/v1/tasks": 503} {
		if status, body := b.get(path); status != want {
			t.Errorf("GET %s of a node that is cut off: %d, want %d: %s", path, status, want, body)
		}
	}
	response, err := http.Post(b.url+"/v1/entries", "application/json", strings.NewReader("{}"))
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a write gets %d", response.StatusCode)
	}
	if said := m.refused(9, "cluster", "token", "--data", "b"); !strings.Contains(said, "run the command again") {
		t.Errorf("a token of a node that is cut off: %s", said)
	}
	b.kill()
	b, serves := m.begin("b")
	b.url = b.opens()
	if status, body := b.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "waits for other nodes") {
		t.Errorf("a node that waits for others: %d %s", status, body)
	}
	a = m.serve("a")
	serves()
	b.voters(2)
	receipts = append(receipts, b.submit("after"))
	m.check(receipts, a, b)
	if status, body := b.get("/v1/entries/99"); status != http.StatusNotFound {
		t.Errorf("what nobody registered: %d %s", status, body)
	}
}
