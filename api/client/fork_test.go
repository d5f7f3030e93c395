package client_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/verify"
)

// TestForkOfTwoSizesConvicts: the tiles of the second log show that it began otherwise, so that the
// evidence convicts by itself. Without them there is a false proof and no evidence: the client
// believes nothing of that node, and goes on with one that answers truly.
func TestForkOfTwoSizesConvicts(t *testing.T) {
	for name, hide := range map[string]bool{"with tiles": false, "without": true} {
		id := newIdentity(t)
		one, two := id.start(t, nil), id.start(t, nil)
		one.add(one.enrol("agent-1", id.agent))
		two.add(two.enrol("agent-1", id.agent))
		one.add(one.goods(300)...)
		two.add(two.goods(600)...)
		c := one.client(&client.Config{Attempts: 1})
		must(t, second(c.Receipt(t.Context(), 0)))
		one.pass(func(w http.ResponseWriter, r *http.Request) {
			if hide && strings.HasPrefix(r.URL.Path, "/tile/") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			two.handler.ServeHTTP(w, r)
		})
		two.clock.Store(int64(2 * time.Second))
		err := second(c.Head(t.Context()))
		if hide {
			if isFork(err) || !errors.Is(err, client.ErrMalformed) {
				t.Fatalf("%s: %v", name, err)
			}
			one.pass(one.handler.ServeHTTP)
			must(t, second(c.Receipt(t.Context(), 0)))
			continue
		}
		convicts(t, one, err)
		if !strings.Contains(err.Error(), " at size 302, where the ledger signed ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// convicts checks that the evidence of a fork of two sizes convicts the ledger by itself.
func convicts(t *testing.T, n *node, err error) {
	t.Helper()
	fork, ok := errors.AsType[*verify.ForkError](err)
	if !ok {
		t.Fatalf("no fork: %v", err)
	}
	var m verify.Material
	must(t, m.AddEvidence(*fork.Evidence()))
	again, ok := errors.AsType[*verify.ForkError](second(n.root().Verify(m)))
	heads := []string{fork.First, fork.Second}
	if !ok || !slices.Contains(heads, again.First) || !slices.Contains(heads, again.Second) || again.First == again.Second || fork.Root != nil && *again.Root != *fork.Root {
		t.Errorf("%v, and the evidence shows %+v", err, again)
	}
}

// lies is a node whose proofs of consistency are false, and which may show an older head.
type lies struct {
	*node
	older string       // the published head that it shows; empty: the true one
	asked atomic.Int64 // proofs
}

// serve answers as another node, with the lies.
func (l *lies) serve(honest http.Handler, lie bool) {
	l.pass(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.PathCheckpoint && l.older != "" {
			_, _ = w.Write([]byte(l.older)) // a client that has enough goes away
			return
		}
		if strings.HasPrefix(r.URL.Path, "/v1/consistency/") {
			l.asked.Add(1)
		}
		honest.ServeHTTP(w, r)
	})
	if !lie {
		return
	}
	truth := *l.front.Load()
	l.tamper("/v1/consistency", func(body []byte) []byte {
		l.asked.Add(1)
		var proof verify.Consistency
		must(l.t, json.Unmarshal(body, &proof))
		proof.Path[0][0] ^= 1
		body, err := json.Marshal(&proof)
		must(l.t, err)
		return body
	})
	tampered := *l.front.Load()
	l.pass(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/consistency") {
			tampered(w, r)
			return
		}
		truth(w, r)
	})
}

// TestFalseProofIsNoFork: a node that gives a false proof of two heads of one log, whether it shows
// the newer or the older one, is refused and convicts nobody. The client goes on with true answers.
func TestFalseProofIsNoFork(t *testing.T) {
	l := &lies{node: start(t)}
	l.add(l.goods(3)...)
	older := l.log.Head().Note
	c := l.client(&client.Config{Attempts: 1})
	must(t, second(c.Receipt(t.Context(), 0)))
	l.add(l.goods(2)...)
	later := l.client(&client.Config{Attempts: 1, Accepted: l.log.Head().Note})
	newest := l.log.Head().Note

	l.serve(l.handler, true)
	newer := second(c.Receipt(t.Context(), 6))
	between := second(c.Consistency(t.Context(), older, newest))
	l.older = older
	for name, err := range map[string]error{"newer": newer, "between": between, "older": second(later.Head(t.Context()))} {
		if isFork(err) || !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.asked.Load() != 3 {
		t.Errorf("%d false proofs", l.asked.Load())
	}
	l.serve(l.handler, false)
	must(t, second(c.Receipt(t.Context(), 6)))
	must(t, second(later.Head(t.Context())))
}

// TestForkBehindASharedHead: a node of another log shows a head that both logs have. Its proof is
// false, and its newest head convicts the ledger, whether that has the accepted size or more.
func TestForkBehindASharedHead(t *testing.T) {
	for _, more := range []int{1, 3} {
		l := &lies{node: start(t)}
		l.add(l.goods(3)...)
		other := l.copied()
		l.older = l.log.Head().Note
		l.add(l.goods(1)...)
		c := l.client(&client.Config{Attempts: 1, Accepted: l.log.Head().Note})
		other.add(l.goods(more)...)
		l.serve(other.handler, false)
		convicts(t, l.node, second(c.Head(t.Context())))
		l.older = ""
		l.serve(l.handler, false)
		if err := second(c.Head(t.Context())); !isFork(err) {
			t.Errorf("after a fork: %v", err)
		}
	}
}

// TestHeadsAreProvenOnce: a head that was proven needs no proof again, under other signatures too.
func TestHeadsAreProvenOnce(t *testing.T) {
	l := &lies{node: start(t)}
	l.add(l.goods(3)...)
	c := l.client(&client.Config{Attempts: 1})
	must(t, second(c.Receipt(t.Context(), 0)))
	older := c.Accepted()
	l.add(l.goods(2)...)
	must(t, second(c.Receipt(t.Context(), 0)))
	l.older = older.Note + "\u2014 other.example AAAAAAAA\n"
	l.serve(l.handler, true)
	head, err := c.Head(t.Context())
	must(t, err)
	if head.Head != older.Head || !strings.Contains(head.Note, "other.example") || l.asked.Load() != 0 {
		t.Errorf("%+v, after %d proofs", head, l.asked.Load())
	}
}
