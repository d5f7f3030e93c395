package cell_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
)

// registered returns the instant at which the entry of a receipt was registered.
func (n *node) registered(receipt string) time.Time {
	n.m.t.Helper()
	content, err := os.ReadFile(receipt)
	must(n.m.t, err)
	var r struct{ Index uint64 }
	must(n.m.t, json.NewDecoder(bytes.NewReader(content)).Decode(&r)) // the receipts of keys follow
	status, body := n.get("/v1/entries/" + strconv.FormatUint(r.Index, 10))
	var e struct {
		RegisteredAt int64 `json:"registered_at"`
	}
	if status != http.StatusOK || json.Unmarshal([]byte(body), &e) != nil || e.RegisteredAt == 0 {
		n.m.t.Fatalf("entry %d: %d %s", r.Index, status, body)
	}
	return time.UnixMilli(e.RegisteredAt)
}

// TestWrongClock gives the lead to a node whose clock is an hour ahead. The node hands the lead on,
// and nothing is registered by its clock. With two nodes nobody knows which clock is wrong: both
// say so.
func TestWrongClock(t *testing.T) {
	budget.Unraced(t, "the processes are those of TestClusterChaos; a clock differs")
	m := newMachine(t)
	skewed := buildSkewed(t)
	a, b, c := m.three()
	a.stop()
	clock := m.Path("clock")
	must(t, os.WriteFile(clock, []byte("1h"), 0o600))
	m.newer, m.env = skewed, []string{clockVariable + "=" + clock}
	a = m.serve("a")
	m.newer, m.env = "", nil
	var receipts []string
	tellLast(t, a, b, c)
	for i := range 3 {
		b.voters(3)
		if out, err := m.Command("cluster", "lead", "n1", "--data", "b").CombinedOutput(); err != nil {
			t.Logf("the lead does not move: %s", out) // it came back at once
		}
		receipt := a.submit("by-clock-" + strconv.Itoa(i))
		receipts = append(receipts, receipt)
		if at := b.registered(receipt); time.Until(at).Abs() > time.Minute {
			t.Fatalf("an entry is registered at %v", at)
		}
		b.until("led by another", func(_ map[string]member, leader string) bool { return leader == "n2" || leader == "n3" })
	}
	if !strings.Contains(a.said.String(), "from the median of the nodes") {
		t.Errorf("the node with the wrong clock does not say why it does not lead:\n%s", a.said)
	}
	c.kill()
	for began := time.Now(); !strings.Contains(b.said.String(), "nobody knows which one is wrong"); time.Sleep(askEvery) {
		if time.Since(began) > time.Minute {
			t.Fatalf("two clocks differ, and a node does not say so:\n%s", b.said)
		}
	}
	must(t, os.Remove(clock))
	m.check(receipts, a, b)
}
