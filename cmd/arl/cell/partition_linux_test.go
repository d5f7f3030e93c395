package cell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/testdata/budget"
)

// newLinked returns three nodes behind proxies, none of which runs.
func newLinked(t *testing.T) *campaign {
	t.Helper()
	base := hostOf(host(t))
	base = base[:strings.LastIndex(base, ".")]
	c := &campaign{crowd: &crowd{m: newMachine(t)}, links: newLinks(), t: t}
	for i, data := range []string{"a", "b", "c"} {
		n := &node{m: c.m, data: data, url: fmt.Sprintf("http://%s.%d:%s", base, 64+i, clientPort), said: &lines{}}
		c.nodes = append(c.nodes, n)
		own, shown := c.place(n)
		for _, port := range []string{peerPort, etcdPort} {
			c.serve(t, n.data, shown+":"+port, own+":"+port)
		}
	}
	tellLast(t, c.nodes...)
	return c
}

// founds starts the nodes, and enrols an agent.
func (c *campaign) founds() {
	c.t.Helper()
	c.begun(c.nodes[0], c.starting(c.nodes[0], "")...)
	for _, n := range c.nodes[1:] {
		c.begun(n, c.starting(n, c.m.token("a"))...)
	}
	c.nodes[0].voters(3)
	c.enrol(c.t)
}

// signed returns an entry of the agent.
func (c *crowd) signed(body entry.Body) *entry.Entry {
	c.m.t.Helper()
	e, err := entry.New(body)
	must(c.m.t, err)
	must(c.m.t, c.signer.Sign(e))
	return e
}

// tries submits an entry at one node, once. It returns the index, or what the node refuses.
func (c *crowd) tries(n *node, e *entry.Entry) (uint64, *api.Problem) {
	c.m.t.Helper()
	var registered *client.Registration
	ledger, err := client.New(n.url, c.root, &client.Config{Attempts: 1})
	if err == nil {
		registered, err = ledger.Submit(context.Background(), e)
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return 0, problem
	}
	if err != nil {
		c.m.t.Errorf("%s: %v", n.data, err)
		return 0, nil
	}
	c.showed(registered.Head)
	return registered.Index, nil
}

// takes wants a node to register an entry.
func (c *crowd) takes(n *node, e *entry.Entry) uint64 {
	c.m.t.Helper()
	index, problem := c.tries(n, e)
	if problem != nil {
		c.m.t.Fatalf("%s refuses an entry: %v\n%s", n.data, problem, n.said)
	}
	return index
}

// limited is an agent that has used up its signals.
type limited struct {
	*campaign
	first, next *entry.Entry // the first signal that it sent, and one more
	index       uint64       // of the first
}

// signalsMost is how many signals the policy lets an agent send in an hour.
const signalsMost = 2

// limits allows few signals, and has the agent use them up, each at another node.
func (c *campaign) limits() *limited {
	c.t.Helper()
	policy := c.m.arl("policy", "show", "--url", c.urls(0))
	const usual = "signals_per_hour: 3600"
	if !strings.Contains(policy, usual) {
		c.t.Fatalf("no %s in %s", usual, policy)
	}
	must(c.t, os.WriteFile(c.m.Path("policy.yaml"), []byte(strings.Replace(policy, usual, fmt.Sprint("signals_per_hour: ", signalsMost), 1)), 0o600))
	c.m.arl("policy", "apply", "policy.yaml", "--reason", "few signals", "--yes", "--url", c.urls(0))
	l := &limited{campaign: c}
	for i := range signalsMost + 1 {
		x := c.work()
		c.takes(c.nodes[i], c.signed(x))
		l.next = c.signed(&entry.Signal{Header: c.work().Header, Subject: x.Ref(), Class: "output", Code: "ungrounded", Standing: entry.StandingExecutor,
			Effects: entry.EffectsComplete, ReplaySafety: entry.ReplaySafe, ObservedAt: x.Iat})
		if i == signalsMost {
			return l
		}
		if index := c.takes(c.nodes[i], l.next); i == 0 {
			l.first, l.index = l.next, index
		}
	}
	return l
}

// hold wants the nodes to refuse one signal more, and to know the first one.
func (l *limited) hold(nodes ...*node) {
	l.t.Helper()
	for _, n := range nodes {
		if _, problem := l.tries(n, l.next); problem == nil || problem.Status != http.StatusTooManyRequests || !strings.Contains(problem.Detail, "has used its 2 signals an hour") {
			l.t.Errorf("%s: a signal beyond the quota: %v", n.data, problem)
		}
		if index := l.takes(n, l.first); index != l.index {
			l.t.Errorf("%s has the first signal at %d, which was at %d", n.data, index, l.index)
		}
	}
}

// narrows sends what nobody has signed, from an address of its own and by way of another node,
// until the leader has that address wait. The others, who use the same node, do not wait.
func (c *campaign) narrows(leader, by *node) {
	c.t.Helper()
	leader.answers(api.PathMetrics, http.StatusOK, "\narl_lanes_narrow 0\n")
	own, _ := c.place(by)
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own[:strings.LastIndex(own, ".")] + ".200")}}
	stranger := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
	defer stranger.CloseIdleConnections()
	for range fair.LaneDebt {
		e := c.signed(c.work())
		e.Sig[0] ^= 1
		response, err := stranger.Post(by.url+api.PathEntries, api.MediaJSON, bytes.NewReader(e.AppendEnvelope(nil)))
		must(c.t, err)
		if must(c.t, response.Body.Close()); response.StatusCode != http.StatusBadRequest {
			c.t.Fatalf("%s answers %s to a stranger", by.data, response.Status)
		}
	}
	for range fair.LaneDebt {
		c.takes(by, c.signed(c.work()))
	}
	leader.answers(api.PathMetrics, http.StatusOK, "\narl_lanes_narrow 1\n")
}

// TestPartitionedLeader cuts the leader off from the other nodes, while clients reach it. It takes
// nothing, denies nothing, confirms no renewal, and says why. Another node leads meanwhile, with
// the same quotas, and has a flood wait as the leader before did. When the cut is mended, the node
// follows by itself: what it had offered is there once, or not at all, and no size has two roots.
func TestPartitionedLeader(t *testing.T) {
	budget.Unraced(t, "TestClusterChaos cuts leaders off, too")
	c := newLinked(t)
	c.founds()
	h, l := c.holds(), c.limits()
	old := c.leads(c.nodes...)
	others := c.others(old)
	session := h.lease(old).Session
	h.renews(old, session)
	l.hold(c.nodes...)
	c.narrows(old, others[0])
	last := c.takes(old, c.signed(c.work()))

	for _, n := range others {
		c.set(old.data, n.data, stalled)
	}
	offered := c.signed(c.work())
	answers := make(chan *api.Problem, 1)
	go func() {
		_, problem := c.tries(old, offered)
		answers <- problem
	}()
	next := c.leads(others...)
	for path, want := range map[string]string{
		api.PathLeader: "orders the log no more", api.PathReady: "the nodes of the cluster have not agreed for 2s",
		api.PathTasks: "orders the log no more", fmt.Sprintf("/v1/entries/%d", last+1): "no majority of the cluster answers this node",
	} {
		old.answers(path, http.StatusServiceUnavailable, want)
	}
	if problem := <-answers; problem == nil || problem.Status != http.StatusServiceUnavailable || !strings.Contains(problem.Remedy, "look whether it is there") {
		t.Errorf("the entry that was under way: %v", problem)
	}
	if status, body := old.get(fmt.Sprintf("/v1/entries/%d", last)); status != http.StatusOK {
		t.Errorf("what the node has: %d %s", status, body)
	}
	if index := c.takes(old, l.first); index != l.index {
		t.Errorf("an entry that the node has at %d is at %d", l.index, index)
	}
	for _, e := range []*entry.Entry{offered, c.signed(c.work())} {
		if index, problem := c.tries(old, e); problem == nil || problem.Status != http.StatusServiceUnavailable {
			t.Errorf("a leader that is cut off registers an entry at %d: %v", index, problem)
		}
	}
	if a := h.post(old, h.renewal(session)); a.status != http.StatusServiceUnavailable {
		t.Errorf("a leader that is cut off answers a renewal: %d %s %v", a.status, a.body, a.err)
	}

	l.hold(others...)
	if a := h.post(next, h.renewal(session)); a.status != http.StatusConflict || !strings.Contains(a.body, "read the session with the task") {
		t.Errorf("a renewal in the session before: %d %s %v", a.status, a.body, a.err)
	}
	h.renews(next, h.lease(next).Session)
	by := others[0]
	if by == next {
		by = others[1]
	}
	c.narrows(next, by)

	for _, n := range others {
		c.set(old.data, n.data, whole)
	}
	old.answers(api.PathReady, http.StatusOK, "")
	there := c.takes(old, offered)
	for _, n := range c.nodes {
		if index := c.takes(n, offered); index != there {
			t.Errorf("%s has the entry at %d, and %s at %d", n.data, index, old.data, there)
		}
	}
	l.hold(c.nodes...)
}
