package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger"
	"recoveryledger/testdata/damage"
)

// read reads the metrics of a handler, as a Prometheus does.
func read(t *testing.T, url string) string {
	t.Helper()
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
			continue // it does not listen yet
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return answer.Status + "\n" + string(body)
	}
}

// TestDamageEndsTheLedgerInOrder runs a ledger whose dedup keys are gone, which is found behind the
// opening. The ledger ends in order, and the counter is shown once, behind its end.
func TestDamageEndsTheLedgerInOrder(t *testing.T) {
	s := newScene(t)
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if err := damage.Forget(s.dir); err != nil {
		t.Fatal(err)
	}
	var last node.LastWord
	m, listener := metrics.New(), bound(t)
	o := s.options()
	o.Decides, o.Serves, o.Failed = true, true, last.Damaged(m, listener, nil)
	n, err := node.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	n.Show(m, "v0", "r0")
	m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, ended := n.Run(t.Context(), true, func(ctx context.Context) error {
		<-ctx.Done()
		return listener.Close()
	})
	if exit.Code(ended) != exit.Inconsistent || !errors.Is(ended, ledger.ErrCorrupt) {
		t.Errorf("the ledger ended with %v", ended)
	}
	said := make(chan error, 1)
	go func() { said <- last.Say(context.WithoutCancel(t.Context()), ended) }()
	if final := read(t, "http://"+listener.Addr().String()+"/metrics"); !strings.Contains(final, violations(metrics.CorruptRead, 1)) ||
		!strings.Contains(final, "\narl_log_size 3\n") {
		t.Errorf("the last metrics: %s", final)
	}
	if err := <-said; !errors.Is(err, ended) {
		t.Errorf("error %v, want the damage", err)
	}
}

// TestLastWord has a ledger halt whose metrics somebody reads. The counter of the fork is read once
// more, everything else is refused, and the error stays what it was.
func TestLastWord(t *testing.T) {
	forked := errors.New("the log has forked")
	var silent node.LastWord
	m := metrics.New()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent.Take(m, listener, nil)
	if err := silent.Say(t.Context(), forked); !errors.Is(err, forked) {
		t.Errorf("nobody reads the metrics: %v", err)
	}
	before := &http.Server{Handler: m.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = before.Serve(listener) }() // ends with Close
	address := listener.Addr().String()
	if first := read(t, "http://"+address+"/metrics"); !strings.Contains(first, `arl_invariant_violations_total{invariant="forked"} 0`) {
		t.Fatal(first)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	m.Violated(metrics.Forked)
	var last node.LastWord
	last.Take(m, listener, nil)
	said := make(chan error, 1)
	go func() { said <- last.Say(context.WithoutCancel(t.Context()), forked) }()
	if other := read(t, "http://"+address+"/v1/log"); !strings.HasPrefix(other, "503 ") || !strings.Contains(other, "problem:not-ready") {
		t.Errorf("another request: %.200s", other)
	}
	if final := read(t, "http://"+address+"/metrics"); !strings.Contains(final, `arl_invariant_violations_total{invariant="forked"} 1`) {
		t.Errorf("the last metrics: %s", final)
	}
	if err := <-said; !errors.Is(err, forked) {
		t.Errorf("error %v, want the fork", err)
	}
}
