package cell_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// onSmallDisk moves the database of a node that does not run to a file system of 64 MiB in memory.
func (m *machine) onSmallDisk(data string) {
	m.t.Helper()
	db, was := m.Path(data+"/db"), m.Path(data+"/db.was")
	must(m.t, os.Rename(db, was))
	must(m.t, os.Mkdir(db, 0o700))
	if err := syscall.Mount("tmpfs", db, "tmpfs", 0, "size=64m"); err != nil {
		needs.Missing(m.t, "the right to mount", "run the test as root: "+err.Error(), "no small disk is filled")
	}
	m.t.Cleanup(func() { must(m.t, syscall.Unmount(db, syscall.MNT_DETACH)) })
	must(m.t, os.CopyFS(db, os.DirFS(was)))
}

// fill leaves 4 MiB of the small disk of a node, and empty gives the rest back.
func (n *node) fill() {
	n.m.t.Helper()
	file, err := os.Create(n.m.Path(n.data + "/db/junk"))
	must(n.m.t, err)
	defer file.Close()
	for {
		var at syscall.Statfs_t
		must(n.m.t, syscall.Statfs(file.Name(), &at))
		if int64(at.Bavail)*at.Bsize < 4<<20 {
			return
		}
		if _, err := file.Write(make([]byte, 1<<20)); err != nil && !errors.Is(err, syscall.ENOSPC) {
			n.m.t.Fatal(err)
		}
	}
}

func (n *node) empty() { must(n.m.t, os.Remove(n.m.Path(n.data+"/db/junk"))) }

// answers waits until a node answers a path with a status, and a body that contains a text.
func (n *node) answers(path string, status int, text string) {
	n.m.t.Helper()
	for began := time.Now(); ; time.Sleep(askEvery) {
		got, body := n.get(path)
		if got == status && strings.Contains(body, text) {
			return
		}
		if time.Since(began) > time.Minute {
			n.m.t.Fatalf("%s: GET %s answers %d, want %d with %s: %.2000s\n%s", n.data, path, got, status, text, body, n.said)
		}
	}
}

// TestFullDisks fills the disks of nodes, one after another. A follower follows no further, and
// says so; a leader lets another node lead; where no majority has room, entries are refused. Every
// node catches up by itself when it has room, and nothing acknowledged is lost.
func TestFullDisks(t *testing.T) {
	budget.Unraced(t, "a node that has no room does less than the nodes of TestClusterChaos")
	m := newMachine(t)
	a, b, c := m.three()
	nodes := []*node{a, b, c}
	for i := range nodes { // one at a time, so that the others go on
		nodes[i].stop()
		m.onSmallDisk(nodes[i].data)
		nodes[i] = m.serve(nodes[i].data, "--reserve", "16777216")
		nodes[i].voters(3)
	}
	at := map[string]*node{"n1": nodes[0], "n2": nodes[1], "n3": nodes[2]}
	leads := func(but ...string) (name string) {
		return nodes[0].until("led by another", func(_ map[string]member, leader string) bool {
			return leader != "" && !strings.Contains(strings.Join(but, " "), leader)
		})
	}
	first := leads()
	leader := at[first]
	delete(at, first)
	var rest []string
	for name := range at {
		rest = append(rest, name)
	}
	follower, third := at[rest[0]], at[rest[1]]
	for _, n := range nodes {
		n.answers("/readyz", http.StatusOK, "")
	}
	receipts := []string{leader.submit("with-room")}
	m.check(receipts, nodes...)
	_, shown := leader.get("/metrics")
	for _, name := range []string{"arl_cluster_etcd_bytes", "arl_cluster_etcd_used_bytes", "arl_cluster_etcd_quota_bytes"} {
		if !regexp.MustCompile(`(?m)^` + name + ` [1-9]`).MatchString(shown) {
			t.Errorf("%s is 0 or missing", name)
		}
	}

	follower.fill()
	follower.answers("/readyz", http.StatusInsufficientStorage, "the reserve is 16777216")
	follower.answers("/metrics", http.StatusOK, "arl_cluster_paused 1")
	size := func(n *node) int {
		_, body := n.get("/v1/log")
		var log struct{ Size int }
		must(t, json.Unmarshal([]byte(body), &log))
		return log.Size
	}
	// It may take the batch that it already waits for, and no other.
	for began := time.Now(); size(follower)+2 > size(third); {
		if receipts = append(receipts, third.submit(fmt.Sprintf("one-full-%d", len(receipts)))); time.Since(began) > time.Minute {
			t.Fatalf("a node without room follows: %d entries of %d", size(follower), size(third))
		}
	}
	m.check(receipts, leader, third)

	leader.fill()
	third.answers("/readyz", http.StatusInsufficientStorage, "fewer than a majority of the nodes have room")
	third.answers("/leaderz", http.StatusOK, "")
	payload := m.Path("refused.json")
	must(t, os.WriteFile(payload, []byte(`{"wid":"w","exec":"refused","parents":[],"effect":"none","progress":"confirmed"}`), 0o600))
	submit := []string{"entry", "submit", "--kind", "execution", "--principal", "my-agent", "--key", m.Path("agent.key"), "--payload", payload, "--url"}
	for _, n := range []*node{leader, third} { // the other one is behind, so the client leaves it
		if said := m.refused(9, append(submit, n.url)...); !strings.Contains(said, "insufficient-storage") {
			t.Errorf("without room %s says: %s", n.data, said)
		}
	}
	m.check(receipts, third)
	if size(follower) >= size(third) {
		t.Errorf("a node without room follows: %d entries of %d", size(follower), size(third))
	}

	follower.empty()
	for _, n := range []*node{follower, third} {
		n.answers("/readyz", http.StatusOK, "")
	}
	receipts = append(receipts, follower.submit("one-empty"))
	m.check(receipts, follower, third)
	leader.empty()
	leader.answers("/metrics", http.StatusOK, "arl_cluster_paused 0")
	receipts = append(receipts, leader.submit("all-empty"))
	m.check(receipts, nodes...)
	for _, n := range nodes {
		n.answers("/readyz", http.StatusOK, "")
	}
	for _, n := range nodes {
		n.stop()
		m.arl("log", "fsck", "--data", n.data)
	}
}
