package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

// pair is a ledger, a read replica that lags behind it, and a client that asks one after the other
// of them, as behind a load balancer.
type pair struct {
	*node
	replica *node
	turns   atomic.Int64
	old     atomic.Bool // the replica is of a version that knows no sizes
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{node: start(t)}
	p.add(p.goods(3)...)
	p.replica = p.copied()
	p.add(p.goods(3)...)
	p.pass(func(w http.ResponseWriter, r *http.Request) {
		if p.turns.Add(1)%2 == 1 {
			p.handler.ServeHTTP(w, r)
			return
		}
		p.answer(w, r)
	})
	return p
}

// answer is the answer of the replica.
func (p *pair) answer(w http.ResponseWriter, r *http.Request) {
	if !p.old.Load() {
		p.replica.handler.ServeHTTP(w, r)
		return
	}
	r.Header.Del(api.HeaderMinLogSize)
	p.replica.handler.ServeHTTP(&forgetful{w}, r)
}

// forgetful leaves the size of the log out of an answer.
type forgetful struct{ http.ResponseWriter }

func (w *forgetful) WriteHeader(status int) {
	w.Header().Del(api.HeaderLogSize)
	w.ResponseWriter.WriteHeader(status)
}

// TestLaggingReplicaIsNoFork: every call succeeds that one of the two nodes can answer, no answer
// is from a log before the accepted one, and nothing is a fork.
// Draft: HTTP-2.
func TestLaggingReplicaIsNoFork(t *testing.T) {
	p := newPair(t)
	c := p.client(&client.Config{Attempts: 3, MaxWait: time.Second})
	_, err := c.Receipt(t.Context(), 6) // of the ledger
	must(t, err)
	size := c.Accepted().Size
	_, err = c.Entry(t.Context(), size-1) // of the replica first
	must(t, err)
	log, err := c.Log(t.Context())
	must(t, err)
	if log.Size < size {
		t.Errorf("a log of size %d after one of %d", log.Size, size)
	}
	if c.Accepted().Size < size {
		t.Errorf("accepted %d after %d", c.Accepted().Size, size)
	}
}

// TestLaggingReplicaIsStale: a node that shows an older head under the ledger's signature is stale,
// with both heads, whether it knows sizes or not. The client goes on with another node.
func TestLaggingReplicaIsStale(t *testing.T) {
	for _, old := range []bool{false, true} {
		p := newPair(t)
		p.old.Store(old)
		c := p.client(&client.Config{Attempts: 1})
		must(t, second(c.Receipt(t.Context(), 6)))
		accepted := c.Accepted()
		p.pass(p.answer)
		stale, ok := errors.AsType[*client.StaleError](second(c.Head(t.Context())))
		if !ok || stale.URL != p.url || stale.Size != 5 || stale.Least != accepted.Size || stale.Accepted != accepted.Note {
			t.Fatalf("old %t: %+v", old, stale)
		}
		head, err := p.root().Head([]byte(stale.Published))
		if err != nil || head.Size != 5 {
			t.Errorf("old %t: the published head: %v, %v", old, head, err)
		}
		problem, ok := errors.AsType[*api.Problem](error(stale))
		if !ok || problem.Name() != entry.NotReady || !problem.Temporary() {
			t.Errorf("old %t: %+v", old, problem)
		}
		p.pass(p.handler.ServeHTTP)
		if err := second(c.Head(t.Context())); err != nil {
			t.Errorf("old %t: after a stale node: %v", old, err)
		}
	}
}

// TestReplicaWithAnotherLogIsAFork: a copy that signs entries of its own is found out by its first
// larger head, and nothing reconciles it.
func TestReplicaWithAnotherLogIsAFork(t *testing.T) {
	p := newPair(t)
	c := p.client(&client.Config{Attempts: 1})
	must(t, second(c.Receipt(t.Context(), 6)))
	p.replica.add(p.replica.goods(4)...)
	p.pass(p.answer)
	if err := second(c.Receipt(t.Context(), 0)); !isFork(err) {
		t.Fatalf("error %v", err)
	}
	p.pass(p.handler.ServeHTTP)
	if err := second(c.Head(t.Context())); !isFork(err) {
		t.Errorf("after a fork: %v", err)
	}
}

// TestNextNode: a client with several URLs asks the next node where one is not reachable, not ready
// or behind, stays with the one that answers, and gives up if none does.
func TestNextNode(t *testing.T) {
	p := newPair(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var refused atomic.Int64
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	p.pass(p.handler.ServeHTTP)
	c, err := client.New(gone.URL+", "+busy.URL+","+p.replica.url+","+p.url, p.root(), &client.Config{Attempts: 1})
	must(t, err)
	must(t, c.Ready(t.Context())) // of the replica
	added := p.good()
	p.add(added)
	must(t, second(c.Receipt(t.Context(), 0)))
	if c.Accepted().Size != 5 || refused.Load() != 1 {
		t.Errorf("the replica answers first: %d, after %d refusals", c.Accepted().Size, refused.Load())
	}
	later, err := client.New(p.replica.url+","+p.url, p.root(), &client.Config{Attempts: 1, Accepted: p.accepted()})
	must(t, err)
	must(t, second(later.Entry(t.Context(), 8)))
	must(t, second(later.Submit(t.Context(), p.good())))
	for _, err := range later.Events(t.Context(), 8) {
		must(t, err)
		break
	}
	none, err := client.New(gone.URL+","+busy.URL, p.root(), &client.Config{Attempts: 1})
	must(t, err)
	if err := second(none.Head(t.Context())); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("no node answers: %v", err)
	}
	for _, wrong := range []string{"", p.url + ",", "," + p.url, p.url + ",ftp://a", p.url + "?a"} {
		if _, err := client.New(wrong, p.root(), nil); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

// accepted returns the newest signed head of the log.
func (n *node) accepted() string { return n.log.Head().Note }
