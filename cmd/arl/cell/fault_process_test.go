//go:build unix

package cell_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
