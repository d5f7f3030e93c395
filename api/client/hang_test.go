package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/api/client"
)

// hanging is a listener of a process that can be stopped: its kernel keeps the connections, and
// nothing is read or written any more until end is closed.
type hanging struct {
	net.Listener
	stopped atomic.Bool
	end     chan struct{}
}

func (h *hanging) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	return &held{c, h}, err
}

func (h *hanging) hold() {
	if h.stopped.Load() {
		<-h.end
	}
}

type held struct {
	net.Conn
	by *hanging
}

func (h *held) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.by.hold()
	return n, err
}

func (h *held) Write(b []byte) (int, error) {
	h.by.hold()
	return h.Conn.Write(b)
}

// TestHangingNode: of two nodes one hangs with its connection open. A request goes to the other
// node long before the time of an attempt is over.
func TestHangingNode(t *testing.T) {
	n := start(t)
	trusted := x509.NewCertPool()
	serve := func() *hanging {
		s := httptest.NewUnstartedServer(n.handler)
		s.EnableHTTP2 = true
		h := &hanging{Listener: s.Listener, end: make(chan struct{})}
		s.Listener = h
		s.StartTLS()
		trusted.AddCert(s.Certificate())
		t.Cleanup(func() { close(h.end); s.Close() })
		return h
	}
	first, second := serve(), serve()
	urls := "https://" + first.Addr().String() + ",https://" + second.Addr().String()
	transport := client.Transport(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted}, urls)
	c, err := client.New(urls, n.root(), &client.Config{HTTP: &http.Client{Transport: transport}})
	must(t, err)
	must(t, c.Ready(t.Context()))
	first.stopped.Store(true)
	began := time.Now()
	must(t, c.Ready(t.Context()))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the other node was asked after %v", took)
	}
}
