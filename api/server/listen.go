package server

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"recoveryledger/ledger/fair"
)

// bounded is a listener that bounds the open connections, of all clients and of one client. It
// closes a connection over a bound at once. Without a bound a client could use up the file
// descriptors of the process. A database that cannot open a file has to stop.
type bounded struct {
	net.Listener
	open    *fair.Budget // of connections
	count   prometheus.Gauge
	refused prometheus.Counter
}

// Accept implements [net.Listener].
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientAt(conn.RemoteAddr().String())
		if !b.open.Take(client, 1) {
			b.refused.Inc()
			_ = conn.Close() // the error has no reader
			continue
		}
		b.count.Inc()
		return &boundedConn{conn, sync.OnceFunc(func() {
			b.open.Give(client, 1)
			b.count.Dec()
		})}, nil
	}
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn]. It frees the place first, so that the place is free when the
// client sees the close.
func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
