package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"recoveryledger/api/server"
)

// caller opens connections from an address of loopback, which has many.
type caller struct {
	t       *testing.T
	from    string
	address string
}

// call opens a connection and reports whether the server answers on it.
func (c caller) call() (net.Conn, bool) {
	c.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
	conn, err := dialer.DialContext(c.t.Context(), "tcp", c.address)
	must(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	must(c.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err != nil {
		return conn, false
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return conn, false
	}
	_, err = io.Copy(io.Discard, response.Body)
	must(c.t, errors.Join(err, response.Body.Close()))
	return conn, true
}

// hangUp closes a connection and waits until the server has seen it.
func (c caller) hangUp(conn net.Conn) {
	c.t.Helper()
	tcp, _ := conn.(*net.TCPConn)
	must(c.t, tcp.CloseWrite())
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		c.t.Fatalf("%q, %v", rest, err)
	}
}

// One address gets half of the connections, and not one more; all together get
// as many as are set. A place is free when its connection is closed, and
// registration goes on.
func TestConnectionsAreBounded(t *testing.T) {
	n := start(t, nil)
	address, _ := n.serve(func(c *server.Config) { c.Connections = 4 })
	one, other, third := caller{t, "127.0.0.1", address}, caller{t, "127.0.0.2", address}, caller{t, "127.0.0.3", address}
	first, ok := one.call()
	if !ok {
		t.Fatal("the first connection was closed")
	}
	for _, c := range []struct {
		caller
		want bool
	}{{one, true}, {one, false}, {other, true}, {other, true}, {other, false}, {third, false}, {one, false}} {
		if _, ok := c.call(); ok != c.want {
			t.Fatalf("a connection from %s: %v, want %v", c.from, ok, c.want)
		}
	}
	one.hangUp(first)
	if _, ok := third.call(); !ok {
		t.Fatal("a place that became free was not given away")
	}
	n.register(n.good())
}
