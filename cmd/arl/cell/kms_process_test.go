//go:build unix

package cell_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"recoveryledger/testdata/needs"
)

// kms puts a program for keys in a KMS into a directory of its own. The program does not answer
// while the file away stands in the directory.
func (m *machine) kms(name string) (dir string) {
	m.t.Helper()
	dir = m.Path(name)
	build := needs.Go(m.t.Context(), "build", "-o", filepath.Join(dir, "plugin"), "recoveryledger/testdata/kms/sigstore-kms-arltest")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ -e %[1]s/away ] && exec sleep 600 2>/dev/null\nexec %[1]s/plugin \"$@\"\n", dir)
	must(m.t, os.WriteFile(filepath.Join(dir, "sigstore-kms-arltest"), []byte(script), 0o700))
	return dir
}

// TestClusterOnKMS has the keys of ledger and coordinator in a KMS. Each node that joins signs with
// them. A leader that does not reach the KMS takes no entry. Once another node leads, an agent that
// waited meanwhile has its receipt, and all receipts verify at every node.
func TestClusterOnKMS(t *testing.T) {
	m := newMachine(t)
	path := os.Getenv("PATH")
	on := func(dir string) { m.env = []string{"PATH=" + dir + string(os.PathListSeparator) + path} }
	near, far := m.kms("near"), m.kms("far")
	m.arl("key", "generate", "--out", "ledger-in-kms.key")
	m.arl("key", "generate", "--out", "coordinator-in-kms.key")

	on(near)
	a := m.serve("a", "--peer-listen", m.own, "--etcd-listen", m.own, "--key", "arltest://sign"+m.Path("ledger-in-kms.key"),
		"--coordinator-key", "arltest://sign"+m.Path("coordinator-in-kms.key"))
	m.enrols(a.url)
	receipts := []string{a.submit("alone")}
	on(far)
	b := m.join("b", a)
	c := m.join("c", b)
	b.voters(3)
	receipts = append(receipts, b.submit("by-b"))

	m.arl("cluster", "lead", "n1", "--data", "a")
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	away := filepath.Join(near, "away")
	must(t, os.WriteFile(away, nil, 0o600))
	sent := m.Command("entry", "submit", "--url", b.url, "--kind", "execution", "--principal", "my-agent", "--key", m.Path("agent.key"),
		"--payload", m.payload("meanwhile"), "--out", m.Path("meanwhile.receipt"))
	said := &lines{}
	sent.Stdout, sent.Stderr = said, said
	must(t, sent.Start())
	a.says("/readyz", http.StatusServiceUnavailable)
	m.arl("cluster", "lead", "n2", "--data", "b")
	b.until("led by n2", func(_ map[string]member, leader string) bool { return leader == "n2" })
	if err := sent.Wait(); err != nil {
		t.Fatalf("an agent that waited for the next leader: %v: %s", err, said)
	}
	receipts = append(receipts, m.Path("meanwhile.receipt"), c.submit("led-by-b"))
	b.says("/readyz", http.StatusOK)

	must(t, os.Remove(away))
	m.arl("cluster", "lead", "n1", "--data", "b")
	a.until("led by n1 again", func(_ map[string]member, leader string) bool { return leader == "n1" })
	a.says("/readyz", http.StatusOK)
	receipts = append(receipts, a.submit("by-a"))
	m.check(receipts, a, b, c)
	a.kill()
	receipts = append(receipts, c.submit("without-a"))
	m.check(receipts, b, c)
}

// says waits until a node answers with a status.
func (n *node) says(path string, status int) {
	n.m.t.Helper()
	for began := time.Now(); ; time.Sleep(askEvery) {
		got, body := n.get(path)
		if got == status {
			return
		}
		if time.Since(began) > time.Minute {
			n.m.t.Fatalf("%s answers %s with %d: %s", n.data, path, got, body)
		}
	}
}
