//go:build unix

package cell_test

import (
	"os"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
)

// first starts the first node, a, and lets an agent in.
func (m *machine) first() (a *node) {
	m.t.Helper()
	a = m.found("a")
	m.enrols(a.url)
	return a
}

// three makes a cluster of three nodes, in which agents may submit.
func (m *machine) three() (a, b, c *node) {
	m.t.Helper()
	a = m.first()
	b, c = m.join("b", a), m.join("c", a)
	a.voters(3)
	return a, b, c
}

// evidence keeps what a node shows of itself in a file.
func (m *machine) evidence(data string) (file string) {
	m.t.Helper()
	file = m.Path(data + ".json")
	must(m.t, os.WriteFile(file, []byte(m.arl("cluster", "evidence", "--data", data)), 0o600))
	return file
}

// restored restores a backup, and founds a new cluster from it. The receipts stay valid there.
func (m *machine) restored(backup string, receipts []string) {
	m.t.Helper()
	m.arl("restore", backup, "--data", "restored", "--newest", backup+"/log/checkpoint")
	first := m.found("restored")
	second := m.join("restored-2", first)
	first.voters(2)
	m.check(append(receipts, second.submit("restored")), first, second)
}

// TestReseedAndLeave loses the majority of three nodes. The node with the longest log begins the
// cluster again, unless somebody is ahead or has not said what it has. Then it becomes a single
// ledger again. Every receipt verifies at each step.
func TestReseedAndLeave(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a, b, c := m.three()
	receipts := []string{a.submit("of-three")}
	m.check(receipts, c)
	if shown := m.arl("cluster", "evidence", "--data", "c"); !strings.Contains(shown, `"node"`) || !strings.Contains(shown, "n3") {
		t.Errorf("a running node shows %s", shown)
	}
	c.stop()
	receipts = append(receipts, a.submit("without-c"))
	m.check(receipts, a, b)
	a.stop()
	b.kill()

	ofA, ofC := m.evidence("a"), m.evidence("c")
	if said := m.refused(6, "cluster", "reseed", "--data", "c", "--head", ofA, "--without", "n2", "--reason", "lost"); !strings.Contains(said, "n1 is ahead") && !strings.Contains(said, ofA+" is ahead") {
		t.Errorf("a node that is behind: %s", said)
	}
	if said := m.refused(9, "cluster", "reseed", "--data", "a", "--head", ofC); !strings.Contains(said, "n2 at") {
		t.Errorf("a node is not asked: %s", said)
	}
	m.refused(2, "cluster", "reseed", "--data", "a", "--without", "n2")
	m.refused(3, "cluster", "reseed", "--data", "a", "--head", ofC, "--without", "n2", "--without", "n9", "--reason", "lost")
	if said := m.refused(6, "cluster", "leave", "--data", "a"); !strings.Contains(said, "not the last node") {
		t.Errorf("a node of three leaves: %s", said)
	}
	m.arl("cluster", "reseed", "--data", "a", "--head", ofC, "--without", "n2", "--reason", "its disk is gone")
	note, err := os.ReadFile(m.Path("a/cluster/reseeded.json"))
	if err != nil || !strings.Contains(string(note), "its disk is gone") {
		t.Errorf("the note is %s, %v", note, err)
	}
	a = m.serve("a")
	a.voters(1)
	receipts = append(receipts, a.submit("begun-again"))
	d := m.join("d", a)
	a.voters(2)
	m.check(receipts, a, d)

	m.arl("cluster", "remove", "n2", "--data", "a")
	_ = d.cmd.Wait() // it was removed
	receipts = append(receipts, a.submit("alone"))
	if said := m.refused(6, "cluster", "leave", "--data", "a"); !strings.Contains(said, "a") {
		t.Errorf("a node that runs leaves: %s", said)
	}
	a.stop()
	m.arl("cluster", "leave", "--data", "a")
	m.refused(3, "cluster", "leave", "--data", "a")
	m.arl("log", "fsck", "--data", "a")
	a = m.serve("a", "--cluster=false")
	receipts = append(receipts, a.submit("single-again"))
	m.check(receipts, a)
	a.stop()
}

// TestKeysPush gives a ledger its next key. A policy that names the key is refused while a node
// that votes does not sign with it. Then the nodes change keys, and old receipts still verify.
func TestKeysPush(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a := m.first()
	b := m.join("b", a)
	a.voters(2)
	receipts := []string{a.submit("before")}
	lines := m.arl("key", "next", "--data", "a")
	rules := m.arl("policy", "show", "--url", a.url) + lines
	must(t, os.WriteFile(m.Path("keys.yaml"), []byte(rules), 0o600))
	a.stop()
	a = m.serve("a")
	a.voters(2)
	m.arl("cluster", "lead", "n1", "--data", "a")
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	if said := m.refused(6, "policy", "apply", "keys.yaml", "--reason", "the next key", "--yes", "--url", a.url); !strings.Contains(said, "node n2 does not sign with") {
		t.Errorf("a policy with a key that a node lacks: %s", said)
	}
	if said := m.arl("cluster", "keys", "push", "--data", "a"); !strings.Contains(said, "ledger-2.key") || !strings.Contains(said, "n2") {
		t.Errorf("pushed: %s", said)
	}
	if said := m.arl("cluster", "keys", "push", "--data", "a"); strings.Contains(said, "ledger-2.key") {
		t.Errorf("pushed again: %s", said)
	}
	m.refused(6, "policy", "apply", "keys.yaml", "--reason", "the next key", "--yes", "--url", a.url) // it has the file, and does not sign with it
	b.stop()
	b = m.serve("b")
	a.voters(2)
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	m.arl("policy", "apply", "keys.yaml", "--reason", "the next key", "--yes", "--url", a.url)
	receipts = append(receipts, a.submit("after"), b.submit("through-b"))
	m.check(receipts, a, b)

	must(t, os.WriteFile(m.Path("b/keys/ledger-2.key"), []byte("another"), 0o600))
	if said := m.refused(6, "cluster", "keys", "push", "--data", "a"); !strings.Contains(said, "another ledger-2.key") {
		t.Errorf("a key that differs: %s", said)
	}
}

// TestRemoveTheLeader removes nodes that lead: one that was killed, and one that runs. A node does
// not remove itself. The command succeeds, and the nodes that remain take entries. A removal that
// ended half-way left a node that nobody removes in the count of those that must agree.
func TestRemoveTheLeader(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a, b, c := m.three()
	m.arl("cluster", "lead", "n2", "--data", "a")
	receipts := []string{a.submit("before")}
	said := m.refused(6, "cluster", "remove", "n2", "--data", "b")
	if !strings.Contains(said, "remove it at another node") {
		t.Errorf("a node removes itself: %s", said)
	}
	b.kill()
	m.arl("cluster", "remove", "n2", "--data", "a")
	a.voters(2)
	receipts = append(receipts, a.submit("two"))
	m.arl("cluster", "lead", "n3", "--data", "a")
	m.arl("cluster", "remove", "n3", "--data", "a")
	_ = c.cmd.Wait() // it was removed
	a.voters(1)
	if said := m.refused(6, "cluster", "remove", "n1", "--data", "a"); !strings.Contains(said, "only node") {
		t.Errorf("the only node removes itself: %s", said)
	}
	receipts = append(receipts, a.submit("one"))
	m.check(receipts, a)
}
