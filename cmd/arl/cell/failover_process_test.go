//go:build unix

package cell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// pause is how long a node hangs.
const pause = 3 * time.Second

// crowd is clients of a cluster, and what they heard.
type crowd struct {
	m      *machine
	nodes  []*node
	root   verify.Root
	signer *keys.Signer
	base   uint64
	seed   uint64
	began  time.Time

	// still is held by each operation for reading, so that who has it finds none under way.
	still sync.RWMutex

	top  atomic.Uint64 // behind the largest index that was acknowledged
	acks atomic.Int64  // nanoseconds since began of the newest acknowledgement

	// mu guards the rest.
	mu       sync.Mutex
	history  []porcupine.Operation
	accepted map[uint64]string // jti by index
	times    map[uint64]int64  // when each was registered, by index
	roots    map[uint64]string // by size, of all tree heads that anybody was shown
	longest  [2]time.Duration  // between two acknowledgements to any client, and to the last one
	last     time.Duration     // when the last one had one
	failed   []error
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, err)
}

// add notes an operation and its answer.
func (c *crowd) add(id int, asked operation, answer any, from time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: id, Input: asked, Output: answer, Call: int64(from), Return: int64(time.Since(c.began))})
}

// urls names all nodes, the one at first before the others.
func (c *crowd) urls(first int) string {
	var all []string
	for i := range c.nodes {
		all = append(all, c.nodes[(first+i)%len(c.nodes)].url)
	}
	return strings.Join(all, ",")
}

func (c *crowd) client(urls string) *client.Client {
	made, err := client.New(urls, c.root, &client.Config{Attempts: 60, Timeout: 2 * time.Second})
	must(c.m.t, err)
	return made
}

// writersCount is the number of clients that submit: one at each node, which has that node's URL
// alone, and one with the URLs of all.
const writersCount = 4

// submits registers one entry after another, each until it is acknowledged.
func (c *crowd) submits(ctx context.Context, id int) {
	urls := c.urls(0)
	if id < len(c.nodes) {
		urls = c.nodes[id].url
	}
	ledger := c.client(urls)
	for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		if !c.submitOne(ctx, id, ledger) {
			return
		}
	}
}

// work is an execution of the agent, of which nothing is to be undone.
func (c *crowd) work() *entry.Execution {
	x := &entry.Execution{Header: keys.NewHeader("my-agent", c.root.Origin), Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	x.Wid, x.Exec = writersFlow, x.JTI
	return x
}

// submitOne registers an entry. It returns false if the client gives up.
func (c *crowd) submitOne(ctx context.Context, id int, ledger *client.Client) bool {
	c.still.RLock()
	defer c.still.RUnlock()
	x := c.work()
	e, err := entry.New(x)
	if err == nil {
		err = c.signer.Sign(e)
	}
	from := time.Since(c.began)
	registered := (*client.Registration)(nil)
	for err == nil && registered == nil {
		registered, err = ledger.Submit(context.WithoutCancel(ctx), e)
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status == http.StatusInsufficientStorage {
			err = nil // the disks are full for a while
		}
	}
	if err != nil {
		c.fail(fmt.Errorf("submit %s: %w", x.JTI, err))
		return false
	}
	c.showed(registered.Head)
	c.acknowledge(id, registered, x.JTI, from)
	return true
}

// writersFlow is the workflow of what the crowd submits.
const writersFlow = "w"

// showed notes a signed tree head. No two have one size and two roots.
func (c *crowd) showed(head string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, root := uint64(0), ""
	if parts := strings.SplitN(head, "\n", 4); len(parts) == 4 {
		size, _ = strconv.ParseUint(parts[1], 10, 64)
		root = parts[2]
	}
	if was, ok := c.roots[size]; root == "" || ok && was != root {
		c.failed = append(c.failed, fmt.Errorf("two roots of one size, %s and %q", was, head))
	}
	c.roots[size] = root
}

func (c *crowd) acknowledge(id int, registered *client.Registration, jti string, from time.Duration) {
	index := registered.Index
	c.add(id, operation{write: true}, index, from)
	now := time.Since(c.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, taken := c.accepted[index]; taken {
		c.failed = append(c.failed, fmt.Errorf("index %d is acknowledged for %s and for %s", index, was, jti))
	}
	c.accepted[index], c.times[index] = jti, registered.RegisteredAt
	c.top.Store(max(c.top.Load(), index+1))
	c.longest[0] = max(c.longest[0], now-time.Duration(c.acks.Swap(int64(now))))
	if id == writersCount-1 {
		c.longest[1], c.last = max(c.longest[1], now-c.last), now
	}
}

// reads asks one node whether it has indexes about the end of the log. An answer that comes late,
// or is not-ready, says nothing.
func (c *crowd) reads(ctx context.Context, id int, n *node) {
	random := rand.New(rand.NewPCG(c.seed, uint64(id)))
	impatient := &http.Client{Timeout: time.Second}
	defer impatient.CloseIdleConnections()
	for tick := time.NewTicker(15 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		c.readOne(id, n, random, impatient)
	}
}

func (c *crowd) readOne(id int, n *node, random *rand.Rand, impatient *http.Client) {
	c.still.RLock()
	defer c.still.RUnlock()
	if random.IntN(8) == 0 {
		if response, err := impatient.Get(n.url + api.PathCheckpoint); err == nil {
			head, err := io.ReadAll(response.Body)
			if must(c.m.t, response.Body.Close()); err == nil && response.StatusCode == http.StatusOK {
				c.showed(string(head))
			}
		}
		return
	}
	index := max(c.base, c.top.Load()+random.Uint64N(4)-min(2, c.top.Load()))
	from := time.Since(c.began)
	response, err := impatient.Get(n.url + fmt.Sprintf("/v1/entries/%d", index))
	if err != nil {
		return
	}
	must(c.m.t, response.Body.Close())
	switch response.StatusCode {
	case http.StatusOK, http.StatusNotFound:
		c.add(id, operation{index: index}, response.StatusCode == http.StatusOK, from)
	case http.StatusServiceUnavailable:
	default:
		c.fail(fmt.Errorf("%s answers %s", n.data, response.Status))
	}
}

// follows reads the log as it grows, over whichever node answers, until it has seen everything that
// was acknowledged. The client proves every entry, and that every head continues the one before.
func (c *crowd) follows(ctx context.Context, over <-chan struct{}, next uint64, first int) {
	for e, err := range c.client(c.urls(first)).Events(ctx, next) {
		if err != nil || e.Index != next {
			c.fail(fmt.Errorf("the stream at %d: %v", next, err))
			return
		}
		next++
		c.mu.Lock()
		if jti, ok := c.accepted[e.Index]; ok && jti != e.Header.JTI {
			c.failed = append(c.failed, fmt.Errorf("the stream has %s at %d, and %s was acknowledged", e.Header.JTI, e.Index, jti))
		}
		c.mu.Unlock()
		select {
		case <-over:
			if next >= c.top.Load() {
				return
			}
		default:
		}
	}
}

// leader returns the place of the node that orders the log, as it says itself.
func (c *crowd) leader() int { return slices.Index(c.nodes, c.leads(c.nodes...)) }

// leads returns the one of some nodes that orders the log, as it says itself.
func (c *crowd) leads(nodes ...*node) *node {
	c.m.t.Helper()
	impatient := &http.Client{Timeout: time.Second}
	defer impatient.CloseIdleConnections()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(askEvery) {
		for _, n := range nodes {
			response, err := impatient.Get(n.url + api.PathLeader)
			if err != nil {
				continue
			}
			must(c.m.t, response.Body.Close())
			if response.StatusCode == http.StatusOK {
				return n
			}
		}
	}
	c.m.t.Fatal("nobody leads within a minute")
	return nil
}

// settle waits until every node takes entries again, and two acknowledgements have come since.
func (c *crowd) settle() {
	for _, n := range c.nodes {
		began := time.Now()
		for status := 0; status != http.StatusOK; status, _ = n.get(api.PathReady) {
			if time.Sleep(askEvery); time.Since(began) > time.Minute {
				c.m.t.Fatalf("%s is not ready within a minute\n%s", n.data, n.said)
			}
		}
	}
	for range 2 {
		last, began := c.acks.Load(), time.Now()
		for c.acks.Load() == last {
			if time.Sleep(askEvery); time.Since(began) > time.Minute {
				c.m.t.Fatal("nothing is acknowledged within a minute")
			}
		}
	}
}

// fault kills a node and starts it again, or lets it hang, and returns the longest times without an
// acknowledgement: of all clients, and of the one that has the URLs of all nodes.
func (c *crowd) fault(kills bool, at int) [2]time.Duration {
	c.mu.Lock()
	c.longest = [2]time.Duration{}
	c.mu.Unlock()
	if n := c.nodes[at]; kills {
		n.kill()
		again := c.m.serve(n.data, "--listen", strings.TrimPrefix(n.url, "http://"))
		n.cmd, n.said = again.cmd, again.said
	} else {
		must(c.m.t, n.cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(pause) // that is the fault
		must(c.m.t, n.cmd.Process.Signal(syscall.SIGCONT))
	}
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest
}

// hostOf returns the host of an address.
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// host returns an address where nobody else takes a port while a node is away.
func host(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if runtime.GOOS == "linux" { // whose loopback has an address for every process and port
		taken, pid := listener.Addr().(*net.TCPAddr).Port, os.Getpid()
		must(t, listener.Close())
		listener, err = net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 2+pid%200, taken>>8, 1+taken%250))
		must(t, err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// newCrowd starts three nodes, which keep their addresses, and an agent.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	m := newMachine(t)
	a := m.serve("a", "--listen", host(t), "--peer-listen", m.own, "--etcd-listen", m.own)
	c := &crowd{m: m, nodes: []*node{a}}
	for _, data := range []string{"b", "c"} {
		token := m.token(a.data)
		c.nodes = append(c.nodes, m.serve(data, "--listen", host(t), "--peer-listen", m.own, "--etcd-listen", m.own, "--join", token))
	}
	a.voters(3)
	c.enrol(t)
	return c
}

// enrol enrols the agent of the clients, at nodes that run.
func (c *crowd) enrol(t *testing.T) {
	t.Helper()
	m := c.m
	c.began, c.seed = time.Now(), budget.Seed(t)
	c.accepted, c.times, c.roots = map[uint64]string{}, map[uint64]int64{}, map[uint64]string{}
	m.enrols(c.urls(1))
	profile, err := (&trust.Store{Home: func() (string, error) { return m.Path("home"), nil }}).Select("")
	must(t, err)
	c.root = trust.WithCosigner(profile.Root)
	c.signer, err = keys.Load(m.Path("agent.key"), nil)
	must(t, err)
	_, body := c.nodes[0].get(api.PathLog)
	var log struct{ Size uint64 }
	must(t, json.Unmarshal([]byte(body), &log))
	c.base = log.Size
	c.top.Store(c.base)
}

// faultsOf returns how many faults a test has.
func faultsOf(t *testing.T, usual budget.Budget) int {
	t.Helper()
	text, given := os.LookupEnv("FAULTS")
	if !given {
		return usual.Now()
	}
	faults, err := strconv.Atoi(text)
	must(t, err)
	return faults
}

// TestFailoverChaos kills the leader and lets it hang, and followers, while clients submit, read
// and follow. Clients have the URLs of all nodes. Nothing acknowledged is lost, no two have one
// index, what clients saw is linearizable, streams go on at another node without a gap, and every
// node has the same log afterwards. FAULTS says how many faults there are, for make bench.
func TestFailoverChaos(t *testing.T) {
	budget.Unraced(t, "TestClusterChaos has the same processes and clients, and more kinds of faults")
	faults := faultsOf(t, budget.Budget{Short: 1, Usual: 2, Chaos: 200})
	c := newCrowd(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	var writers, others sync.WaitGroup
	for id := range writersCount {
		writers.Go(func() { c.submits(ctx, id) })
	}
	for i, n := range c.nodes {
		others.Go(func() { c.reads(ctx, writersCount+i, n) })
	}
	for first := range 2 {
		others.Go(func() { c.follows(t.Context(), over, c.base, first) })
	}
	c.settle()
	random := rand.New(rand.NewPCG(c.seed, 1))
	var outages [2][]time.Duration
	for i := range faults {
		leader := c.leader()
		at := leader
		if i >= 2 && random.IntN(4) == 0 {
			at = (at + 1) % len(c.nodes) // a follower
		}
		longest := c.fault(i%2 == 0, at)
		t.Logf("fault %d, a kill %v, of the leader %v: %v", i, i%2 == 0, at == leader, longest)
		outages[0], outages[1] = append(outages[0], longest[0]), append(outages[1], longest[1])
	}
	cancel()
	writers.Wait()
	close(over)
	c.closes()
	others.Wait()
	c.check(t)
	for i, of := range []string{"of all clients", "of a client with all URLs"} {
		slices.Sort(outages[i])
		t.Logf("%d faults, %d entries: longest times without an acknowledgement, %s: %v", faults, len(c.accepted), of, outages[i])
	}
}

// closes registers an entry, behind which the streams end.
func (c *crowd) closes() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	time.AfterFunc(100*time.Millisecond, cancel)
	c.submits(ctx, 3)
}

// check holds what the clients heard to what every node has. Nothing is under way meanwhile.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	if err := errors.Join(c.failed...); err != nil {
		t.Fatal(err)
	}
	log, foreign := []string(nil), map[uint64]bool{}
	for i, n := range c.nodes {
		next, own, last, at := c.base, 0, int64(0), c.client(n.url)
		if _, err := at.Entry(t.Context(), c.top.Load()-1); err != nil { // waits until the node has all
			t.Fatalf("%s: %v", n.data, err)
		}
		for e, err := range at.Entries(t.Context(), api.ListQuery{From: c.base}) {
			must(t, err)
			jti, acknowledged := c.accepted[e.Index]
			switch {
			case e.Index != next || e.RegisteredAt < last || acknowledged && c.times[e.Index] != e.RegisteredAt:
				t.Fatalf("%s has entry %d behind %d, of %d behind %d", n.data, e.Index, next, e.RegisteredAt, last)
			case acknowledged && jti != e.Header.JTI, !acknowledged && e.Header.Wid == writersFlow:
				t.Fatalf("%s has %s at %d, and %q was acknowledged", n.data, e.Header.JTI, e.Index, jti)
			case i > 0 && next-c.base < uint64(len(log)) && log[next-c.base] != e.Header.JTI:
				t.Fatalf("%s has %s at %d, another node %s", n.data, e.Header.JTI, e.Index, log[next-c.base])
			case acknowledged:
				own++
			default:
				foreign[e.Index] = true
			}
			if i == 0 {
				log = append(log, e.Header.JTI)
			}
			next, last = next+1, e.RegisteredAt
		}
		if next < c.top.Load() || own != len(c.accepted) {
			t.Fatalf("%s has %d entries of the clients, and %d were acknowledged", n.data, own, len(c.accepted))
		}
	}
	if verdict := porcupine.CheckOperationsTimeout(model(c.base, foreign), c.history, time.Minute); verdict != porcupine.Ok {
		t.Fatalf("the history of %d operations is not linearizable: %s", len(c.history), verdict)
	}
}

// forget begins a new history behind what was checked.
func (c *crowd) forget() {
	c.base, c.history = c.top.Load(), nil
	clear(c.accepted)
	clear(c.times)
}
