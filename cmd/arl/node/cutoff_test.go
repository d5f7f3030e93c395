package node_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/node"
)

// TestCutoff: a node that diverged closes every connection, also one on which a request waits. Once
// one has ended, none has an answer. The node shows its counter once. Its server does not take that
// for a failure, and ends in order.
func TestCutoff(t *testing.T) {
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, cutoff := metrics.New(), node.NewCutoff(inner)
	waits, over := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.Handler())
	mux.HandleFunc("/waits", func(http.ResponseWriter, *http.Request) { close(waits); <-over })
	server, served := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}, make(chan error, 1)
	go func() { served <- server.Serve(cutoff) }()
	base := "http://" + inner.Addr().String()
	if first := read(t, base+"/metrics"); !strings.Contains(first, `arl_invariant_violations_total{invariant="diverged"} 0`) {
		t.Fatal(first)
	}
	var idle []net.Conn
	for range 50 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := ask(conn, base+"/metrics"); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	answered, client := make(chan error, 1), &http.Client{Transport: &http.Transport{}} // it asks once on a connection of its own
	go func() {
		response, err := client.Get(base + "/waits")
		if err == nil {
			_, err = io.ReadAll(response.Body)
			err = errors.Join(err, response.Body.Close())
		}
		answered <- err
	}()
	<-waits
	said := make(chan struct{})
	go func() {
		defer close(said)
		cutoff.Diverge(context.WithoutCancel(t.Context()), m, nil, errors.New("diverged"))
	}()
	if err := <-answered; err == nil {
		t.Error("a request is answered behind the end")
	}
	for i, conn := range idle {
		if err := ask(conn, base+"/v1/log"); err == nil {
			t.Errorf("connection %d has an answer behind the end of another", i)
		}
	}
	if other := read(t, base+"/v1/log"); !strings.HasPrefix(other, "503 ") {
		t.Errorf("another request: %.200s", other)
	}
	if last := read(t, base+"/metrics"); !strings.Contains(last, `arl_invariant_violations_total{invariant="diverged"} 1`) {
		t.Errorf("the last metrics: %s", last)
	}
	<-said
	close(over)
	select {
	case err := <-served:
		t.Errorf("the server reports %v", err)
	default:
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ends with %v", err)
	}
	if err := cutoff.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// ask asks on a connection, and reads the answer to its end.
func ask(conn net.Conn, url string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
