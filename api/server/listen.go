package server

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// bounded is a listener that hands out so many connections at a time, and to
// one client half of them; what is too many is closed at once. Without a bound
// whoever opens connections takes the process its file descriptors, and a
// database that cannot open a file has to stop.
type bounded struct {
	net.Listener
	open    *budget // of connections
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
		if !b.open.take(client, 1) {
			b.refused.Inc()
			_ = conn.Close() // nobody waits for it
			continue
		}
		b.count.Inc()
		return &boundedConn{conn, sync.OnceFunc(func() {
			b.open.give(client, 1)
			b.count.Dec()
		})}, nil
	}
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn]. Whoever sees that the connection is closed finds
// its place free.
func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
