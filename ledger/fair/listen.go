package fair

import (
	"net"
	"sync"
)

// Listener is a listener that bounds the open connections, of all clients and of one client. It
// closes a connection over a bound at once. Without a bound a client could use up the file
// descriptors of the process. A database that cannot open a file has to stop.
type Listener struct {
	net.Listener
	// Open is the budget of connections, by client.
	Open *Budget
	// Client returns the client at a remote address.
	Client func(address string) string
	// Opened, Closed and Refused are told of each connection.
	Opened, Closed, Refused func()
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := l.Client(conn.RemoteAddr().String())
		if !l.Open.Take(client, 1) {
			l.Refused()
			_ = conn.Close() // the error has no reader
			continue
		}
		l.Opened()
		return &boundedConn{conn, sync.OnceFunc(func() {
			l.Open.Give(client, 1)
			l.Closed()
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
