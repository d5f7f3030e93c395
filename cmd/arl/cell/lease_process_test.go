//go:build unix

package cell_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// leaseMS is the term of the lease: longer than the test takes.
const leaseMS = 600_000

// held is a task of the agent of a crowd.
type held struct {
	c    *crowd
	task entry.Ref
	seq  int64
}

// holds gives the agent of a crowd a task.
func (c *crowd) holds() *held {
	c.m.t.Helper()
	h, all := &held{c: c, task: "operator#report"}, c.urls(0)
	c.m.arl("task", "create", "report", "--lease-ms", "600000", "--reason", "the weekly report", "--url", all)
	c.m.arl("task", "reassign", string(h.task), "--agent", "my-agent", "--reason", "it is free", "--yes", "--url", all)
	return h
}

// lease reads the lease at a node.
func (h *held) lease(n *node) *api.Lease {
	h.c.m.t.Helper()
	task, err := h.c.client(n.url).Task(h.c.m.t.Context(), h.task)
	must(h.c.m.t, err)
	if task.Lease == nil {
		h.c.m.t.Fatalf("%s: nobody holds %s", n.data, h.task)
	}
	return task.Lease
}

// renewal returns the next renewal in a session of the leases.
func (h *held) renewal(session string) []byte {
	h.c.m.t.Helper()
	h.seq++
	signed, err := h.c.signer.SignRenewal(&entry.Renewal{Aud: h.c.root.Origin, Iss: "my-agent", Seq: h.seq, Session: session,
		Leases: []entry.Lease{{Epoch: 1, Task: h.task}}})
	must(h.c.m.t, err)
	body, err := entry.EncodeRenewal(signed)
	must(h.c.m.t, err)
	return body
}

// answered is what a node answers to a renewal.
type answered struct {
	status int
	body   string
	err    error
}

// post sends a renewal to a node.
func (h *held) post(n *node, renewal []byte) answered {
	return h.send(n, bytes.NewReader(renewal), nil)
}

// postLate sends a renewal to a node, and its body once the node reads it and late is closed.
// begun is closed when the node reads it.
func (h *held) postLate(n *node, renewal []byte, begun chan<- struct{}, late <-chan struct{}) answered {
	body, sends := io.Pipe()
	go func() {
		<-late
		_, err := sends.Write(renewal)
		_ = sends.CloseWithError(err)
	}()
	return h.send(n, body, func(r *http.Request) *http.Request {
		r.Header.Set("Expect", "100-continue")
		return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(begun) }}))
	})
}

func (h *held) send(n *node, body io.Reader, change func(*http.Request) *http.Request) (a answered) {
	request, err := http.NewRequestWithContext(h.c.m.t.Context(), http.MethodPost, n.url+api.URL(api.PathLease, nil, h.task), body)
	if err != nil {
		return answered{err: err}
	}
	request.Header.Set("Content-Type", api.MediaJSON)
	if change != nil {
		request = change(request)
	}
	response, err := patient.Do(request)
	if err != nil {
		return answered{err: err}
	}
	text, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, string(text), errors.Join(err, response.Body.Close())}
}

// renews wants a node to renew the lease in a session.
func (h *held) renews(n *node, session string) {
	h.c.m.t.Helper()
	if a := h.post(n, h.renewal(session)); a.status != http.StatusOK {
		h.c.m.t.Fatalf("%s renews nothing: %d %s %v\n%s", n.data, a.status, a.body, a.err, n.said)
	}
}

// patient waits for the answer to "Expect: 100-continue".
var patient = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}

// stops lets a node hang. It returns when no thread of the node runs.
func (n *node) stops() {
	n.m.t.Helper()
	must(n.m.t, n.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(n.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if must(n.m.t, err); !status.Stopped() {
			n.m.t.Fatalf("%s does not hang: %v", n.data, status)
		}
		return
	}
}

// wakes lets the leader hang until another node leads. One renewal is under way then, and others
// wait at the leader's port. It must confirm none of them when it wakes. It returns how many of the
// others it answered with 503.
func (h *held) wakes(session string) (turnedAway int) {
	t, at := h.c.m.t, h.c.leader()
	t.Helper()
	leader, answers := h.c.nodes[at], make(chan answered, 8)
	late, begun, arrives := make(chan answered), make(chan struct{}), make(chan struct{})
	renewal := h.renewal(session)
	go func() { late <- h.postLate(leader, renewal, begun, arrives) }()
	select {
	case <-begun:
	case a := <-late:
		t.Fatalf("a renewal without its end is answered: %d %s %v", a.status, a.body, a.err)
	}
	leader.stops()
	for range cap(answers) {
		renewal := h.renewal(session)
		go func() { answers <- h.post(leader, renewal) }()
	}
	for h.c.leader() == at { // the one that hangs does not answer
		time.Sleep(askEvery)
	}
	must(t, leader.cmd.Process.Signal(syscall.SIGCONT))
	close(arrives)
	if a := <-late; a.status != http.StatusServiceUnavailable {
		t.Fatalf("a renewal reached a leader, and its end came after another had led: %d %s %v", a.status, a.body, a.err)
	}
	for range cap(answers) {
		switch a := <-answers; {
		case a.status == http.StatusServiceUnavailable:
			turnedAway++
		case a.status == http.StatusConflict && strings.Contains(a.body, "session"): // it passed the renewal on
		case a.status == http.StatusConflict && strings.Contains(a.body, "was heard already"): // a later one came first
		default:
			t.Fatalf("a leader that wakes answers a renewal: %d %s %v", a.status, a.body, a.err)
		}
	}
	return turnedAway
}

// TestLeaseAcrossFailover kills the leader under a lease: at the next leader the lease has a full
// term, in a new session, which the agent reads. Then a leader hangs. When it wakes it confirms no
// renewal.
func TestLeaseAcrossFailover(t *testing.T) {
	c := newCrowd(t)
	h := c.holds()
	leader := c.nodes[c.leader()]
	before := h.lease(leader)
	h.renews(leader, before.Session)
	renewed := h.lease(c.nodes[(c.leader()+1)%len(c.nodes)]) // a follower asks the leader
	if before.TermMS != leaseMS || renewed.Session != before.Session || renewed.Seq != 1 || renewed.ExpiresAt < before.ExpiresAt {
		t.Fatalf("renewed: %+v, was %+v", renewed, before)
	}

	leader.kill()
	next := c.nodes[c.leader()]
	if a := h.post(next, h.renewal(before.Session)); a.status != http.StatusConflict || !strings.Contains(a.body, "read the session with the task") {
		t.Errorf("a renewal in the session of the leader before: %d %s %v", a.status, a.body, a.err)
	}
	after := h.lease(next)
	if left := time.Duration(after.ExpiresAt-renewed.ExpiresAt) * time.Millisecond; after.Session == before.Session || after.Seq != 0 || after.Epoch != before.Epoch || left <= 0 {
		t.Errorf("at the next leader the lease is %+v, at the one before it was %+v", after, renewed)
	}
	h.renews(next, after.Session)

	again := c.m.serve(leader.data, "--listen", strings.TrimPrefix(leader.url, "http://"))
	leader.cmd, leader.said = again.cmd, again.said
	next.voters(3)
	turnedAway, began := 0, time.Now()
	for turnedAway == 0 { // it may hear of the next leader before it looks at a renewal
		if time.Since(began) > time.Minute {
			t.Fatal("a leader that wakes passes every renewal on")
		}
		turnedAway = h.wakes(h.lease(c.nodes[c.leader()]).Session)
	}
	current := c.nodes[c.leader()]
	h.renews(current, h.lease(current).Session)
}
