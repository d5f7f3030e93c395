//go:build unix

package cell_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/testdata/program"
)

// atOnce is how many tests run at once: they wait for elections, faults and processes most of the
// time. Under the race detector, which has -short, they work.
var atOnce = map[bool]string{false: "4", true: "2"}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce[testing.Short()]); err != nil {
		panic(err)
	}
	os.Exit(program.Main(m))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// machine has the data directories of some nodes, and runs commands.
type machine struct {
	t *testing.T
	program.Folder
	env   []string // more variables of the environment of serve
	newer string   // path of the program that serve starts; empty: arl
	own   string   // HOST:0, for the ports of the nodes: nobody else takes one while its node is away
}

// newMachine makes a machine of its own, beside those of other tests.
func newMachine(t *testing.T) *machine {
	t.Helper()
	t.Parallel()
	return &machine{t: t, Folder: program.NewFolder(t), own: net.JoinHostPort(hostOf(host(t)), "0")}
}

// arl runs a command that succeeds, and returns what it prints.
func (m *machine) arl(args ...string) string {
	m.t.Helper()
	out, _ := m.Arl(0, args...)
	return out
}

// refused runs a command that fails with an exit code, and returns what it says.
func (m *machine) refused(code int, args ...string) string {
	m.t.Helper()
	out, said := m.Arl(code, args...)
	return out + said
}

// node is a running node.
type node struct {
	m    *machine
	data string
	url  string
	cmd  *exec.Cmd
	said *lines
}

// lines is what a process says.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve starts a node and waits until it serves.
func (m *machine) serve(data string, args ...string) *node {
	m.t.Helper()
	n, serves := m.begin(data, args...)
	serves()
	return n
}

// begin starts a node, and returns a function that waits until it serves.
func (m *machine) begin(data string, args ...string) (n *node, serves func()) {
	m.t.Helper()
	return m.process(data, append([]string{"--cluster"}, args...)...)
}

// process starts a process that serves a data directory, and returns a function that waits until it
// serves.
func (m *machine) process(data string, args ...string) (n *node, serves func()) {
	m.t.Helper()
	args = append([]string{"serve", "--output", "json", "--data", data, "--listen", "127.0.0.1:0"}, args...)
	n = &node{m: m, data: data, cmd: m.Command(args...), said: &lines{}}
	n.cmd.Path = cmp.Or(m.newer, n.cmd.Path)
	n.cmd.Env = append(n.cmd.Env, m.env...)
	n.cmd.Stderr = n.said
	out, err := n.cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, n.cmd.Start())
	m.t.Cleanup(n.kill)
	return n, func() {
		m.t.Helper()
		var started struct{ URL string }
		if err := json.NewDecoder(out).Decode(&started); err != nil {
			_ = n.cmd.Wait() // it has ended
			m.t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, n.said)
		}
		n.url = started.URL
	}
}

// opens waits until a node says where it listens, which it does before it serves.
func (n *node) opens() (url string) {
	n.m.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(askEvery) {
		if found := regexp.MustCompile(`msg=opening .*address=(\S+)`).FindStringSubmatch(n.said.String()); found != nil {
			return "http://" + found[1]
		}
	}
	n.m.t.Fatalf("%s does not open: %s", n.data, n.said)
	return ""
}

// enrols makes the key of my-agent, and lets the agent in at a ledger.
func (m *machine) enrols(url string) {
	m.t.Helper()
	m.arl("key", "generate", "--out", "agent.key")
	m.arl("agent", "enrol", "--principal", "my-agent", "--key", "agent.key", "--domain", "my-team", "--url", url)
}

// found starts the first node, and join another one.
func (m *machine) found(data string) *node {
	return m.serve(data, "--peer-listen", m.own, "--etcd-listen", m.own)
}

func (m *machine) join(data string, by *node) *node {
	m.t.Helper()
	token := m.token(by.data)
	joined := m.serve(data, "--peer-listen", m.own, "--etcd-listen", m.own, "--join", token)
	if said := m.refused(4, "serve", "--data", data+"-again", "--listen", "127.0.0.1:0", "--cluster",
		"--peer-listen", m.own, "--etcd-listen", m.own, "--join", token); !strings.Contains(said, "it was used") {
		m.t.Errorf("a token counts twice: %s", said)
	}
	return joined
}

// token returns a token, which a node without a leader or a busy machine refuses for a while.
func (m *machine) token(data string) string {
	m.t.Helper()
	for began := time.Now(); ; time.Sleep(askEvery) {
		cmd := m.Command("cluster", "token", "--data", data)
		said := &lines{}
		cmd.Stderr = said
		out, err := cmd.Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
		if time.Since(began) > time.Minute {
			m.t.Fatalf("%s gives no token: %v: %s", data, err, said)
		}
	}
}

func (n *node) kill() {
	_ = n.cmd.Process.Kill() // it may have ended
	_ = n.cmd.Wait()
}

// stop ends a node in order.
func (n *node) stop() {
	n.m.t.Helper()
	must(n.m.t, n.cmd.Process.Signal(os.Interrupt))
	if err := n.cmd.Wait(); err != nil {
		n.m.t.Fatalf("%s: %v\n%s", n.data, err, n.said)
	}
}

// get returns the status and the body of an answer.
func (n *node) get(path string) (status int, body string) {
	n.m.t.Helper()
	response, err := http.Get(n.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(n.m.t, err)
	return response.StatusCode, string(text)
}

// member is a node as another one shows it.
type member = cluster.Member

// askEvery is the pause between two questions of a test that waits.
const askEvery = 20 * time.Millisecond

// until asks a node for the cluster until it is as wanted.
func (n *node) until(what string, wanted func(all map[string]member, leader string) bool) (leader string) {
	n.m.t.Helper()
	own, err := site.Load(n.m.Path(n.data))
	must(n.m.t, err)
	client, err := peer.NewClient(own)
	must(n.m.t, err)
	all := map[string]member{}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(askEvery) {
		clear(all)
		leader := ""
		status, err := client.Status(n.m.t.Context(), own.Peer)
		if err != nil {
			continue
		}
		for i := range status.Members {
			one := &status.Members[i]
			if all[one.Name] = *one; one.Leader {
				leader = one.Name
			}
		}
		if wanted(all, leader) {
			return leader
		}
	}
	n.m.t.Fatalf("%s: not %s within a minute: %v\n%s", n.data, what, all, n.said)
	return ""
}

// voters waits until so many nodes vote, and one leads.
func (n *node) voters(count int) (leader string) {
	n.m.t.Helper()
	return n.until(fmt.Sprint(count, " voters"), func(all map[string]member, leader string) bool {
		voters := 0
		for _, one := range all {
			if one.Voter {
				voters++
			}
		}
		return voters == count && len(all) == count && leader != ""
	})
}

// submit registers an entry through a node, as an agent does, and keeps its receipt.
func (n *node) submit(exec string) (receipt string) {
	n.m.t.Helper()
	receipt = n.m.Path(exec + ".receipt")
	n.m.arl("entry", "submit", "--url", n.url, "--kind", "execution", "--principal", "my-agent", "--key", n.m.Path("agent.key"), "--payload", n.m.payload(exec), "--out", receipt)
	return receipt
}

// payload writes the payload of an execution, and returns its file.
func (m *machine) payload(exec string) string {
	m.t.Helper()
	file := m.Path(exec + ".json")
	must(m.t, os.WriteFile(file, fmt.Appendf(nil, `{"wid":"w","exec":%q,"parents":[],"effect":"none","progress":"confirmed"}`, exec), 0o600))
	return file
}

// check wants every receipt to verify, and its entry at every node.
func (m *machine) check(receipts []string, nodes ...*node) {
	m.t.Helper()
	for _, receipt := range receipts {
		m.arl("verify", receipt)
		content, err := os.ReadFile(receipt)
		must(m.t, err)
		var r struct {
			Index uint64
			Leaf  json.RawMessage
		}
		must(m.t, json.NewDecoder(bytes.NewReader(content)).Decode(&r)) // the receipts of keys follow
		for _, n := range nodes {
			status, body := n.get(fmt.Sprintf("/v1/entries/%d/receipt", r.Index))
			var there struct{ Leaf json.RawMessage }
			if status != http.StatusOK || json.Unmarshal([]byte(body), &there) != nil || !bytes.Equal(there.Leaf, r.Leaf) {
				m.t.Fatalf("%s has not entry %d of %s: %d %s", n.data, r.Index, receipt, status, body)
			}
		}
	}
}

// knowOneLeader waits until all nodes name one leader and all voters, and that node alone says that
// it leads.
func (m *machine) knowOneLeader(nodes ...*node) {
	m.t.Helper()
	names := []string{"n1", "n2", "n3"}[:len(nodes)]
	for began := time.Now(); ; {
		var lead, named []string
		for i, n := range nodes {
			if status, _ := n.get("/leaderz"); status == http.StatusOK {
				lead = append(lead, names[i])
			}
			status, body := n.get("/v1/cluster")
			var known struct{ Leader string }
			if status == http.StatusOK && json.Unmarshal([]byte(body), &known) == nil && strings.Count(body, `"voter":true`) == len(nodes) && strings.Contains(body, nodes[0].url) {
				named = append(named, known.Leader)
			}
		}
		if len(lead) == 1 && slices.Equal(named, slices.Repeat(lead, len(nodes))) {
			return
		}
		if time.Since(began) > time.Minute {
			m.t.Fatalf("%q lead, and the nodes name %q", lead, named)
		}
		time.Sleep(askEvery)
	}
}

// TestOneThreeOne takes a ledger with entries from one node to three, through the loss of the
// leader, and back to one. Every receipt that an agent got verifies at every node afterwards, and
// at the nodes of another cluster that was restored from backups taken at two nodes.
func TestOneThreeOne(t *testing.T) {
	m := newMachine(t)
	a := m.first()
	receipts := []string{a.submit("alone")}
	b := m.join("b", a)
	c := m.join("c", b)
	b.voters(3)
	receipts = append(receipts, b.submit("by-b"), c.submit("by-c"), a.submit("by-a"))
	m.check(receipts, a, b, c)
	for _, n := range []*node{a, b, c} {
		if status, body := n.get("/readyz"); status != http.StatusOK {
			t.Errorf("%s is not ready: %d %s", n.data, status, body)
		}
		if status, body := n.get("/v1/entries/99"); status != http.StatusNotFound {
			t.Errorf("%s knows more than is registered: %d %s", n.data, status, body)
		}
	}
	m.knowOneLeader(a, b, c)
	m.arl("backup", "backup", "--data", "b", "--url", b.url)

	m.arl("cluster", "lead", "n1", "--data", "a") // a machine under load may have moved the lead
	a.kill()
	receipts = append(receipts, c.submit("without-a"))
	b.until("led by another", func(_ map[string]member, leader string) bool { return leader == "n2" || leader == "n3" })
	m.check(receipts, b, c)
	a = m.serve("a")
	m.check(receipts, a, b, c)

	a.voters(3)
	for _, data := range []string{"a", "b"} { // one of them asks the leader
		if said := m.refused(3, "cluster", "lead", "n9", "--data", data); !strings.Contains(said, "no node n9") {
			t.Errorf("a node leads that is none: %s", said)
		}
	}
	m.arl("cluster", "lead", "n1", "--data", "b")
	a.until("led by n1", func(_ map[string]member, leader string) bool { return leader == "n1" })
	receipts = append(receipts, b.submit("led-by-a"))

	if _, said := m.Arl(0, "cluster", "remove", "n3", "--data", "a"); !strings.Contains(said, "its data directory keeps the keys of the ledger") {
		t.Errorf("what is left of a removed node: %s", said)
	}
	if err := c.cmd.Wait(); err == nil {
		t.Error("a node that was removed ends as if nothing had happened")
	}
	if said := m.refused(3, "cluster", "remove", "n3", "--data", "a"); !strings.Contains(said, "no node n3") {
		t.Errorf("a node is removed twice: %s", said)
	}
	m.arl("cluster", "remove", "n2", "--data", "a")
	_ = b.cmd.Wait() // it was removed
	a.voters(1)
	receipts = append(receipts, a.submit("alone-again"))
	m.check(receipts, a)
	m.arl("backup", "backup", "--data", "a", "--url", a.url)
	a.stop()
	m.arl("log", "fsck", "--data", "a")
	m.arl("log", "audit", "--data", "a") // the node stands still, and is only read
	m.arl("log", "export", "export", "--data", "a")
	m.restored("backup", receipts)
}

// tries runs each line that arl cluster start prints to be tried, as they stand there.
func (m *machine) tries(text string) {
	m.t.Helper()
	var script []string
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			script = append(script, strings.Replace(command, "curl -i", "curl -sSi", 1))
		}
	}
	cmd := m.Command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-exc", strings.Join(script, "")}
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"leads", "agent  operator", "HTTP/1.1 "} {
		if err != nil || !strings.Contains(string(out), want) {
			m.t.Errorf("what to try of %s: %v: want %s in %s", text, err, want, out)
		}
	}
}

// TestStart starts three nodes with one command, tries what it prints, ends the nodes, and starts
// them again with their log.
func TestStart(t *testing.T) {
	m := newMachine(t)
	for round := range 2 {
		cmd := m.Command("cluster", "start", "--dir", "laptop", "--port", "0")
		out, err := cmd.StdoutPipe()
		must(t, err)
		said := &lines{}
		cmd.Stderr = said
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
		var text strings.Builder
		for buf := make([]byte, 4096); !strings.Contains(text.String(), "Ctrl-C"); {
			n, err := out.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				logs, _ := filepath.Glob(m.Path("laptop/*.log"))
				for _, name := range logs {
					content, _ := os.ReadFile(name)
					t.Logf("%s: %s", name, content)
				}
				t.Fatalf("round %d: %v: %s%s", round, err, text.String(), said)
			}
		}
		a := &node{m: m, data: "laptop/n1", said: said}
		a.voters(3)
		if round == 0 {
			m.tries(text.String())
		}
		profiles, err := filepath.Glob(m.Path("laptop/home/profiles/*.json"))
		must(t, err)
		if profile, err := os.ReadFile(profiles[0]); err != nil || bytes.Count(profile, []byte("http://127.0.0.1:")) != 3 {
			t.Errorf("the profile has not the URLs of all nodes: %s, %v", profile, err)
		}
		must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("round %d: %v: %s", round, err, said)
		}
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		said, err := os.ReadFile(m.Path("laptop/" + name + ".log"))
		must(t, err)
		if strings.Contains(string(said), "ID mismatch") {
			t.Errorf("%s knows a member that was refused:\n%s", name, said)
		}
		if strings.Count(string(said), "this node orders the log") > 20 {
			t.Errorf("%s begins terms without end:\n%.3000s", name, said)
		}
	}
	if said := m.refused(2, "cluster", "start", "--nodes", "0"); !strings.Contains(said, "--nodes 0") {
		t.Error(said)
	}
}
