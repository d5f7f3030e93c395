package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/api/certificate"
	"recoveryledger/api/metrics"
	"recoveryledger/ledger/agreement"
)

// Cutoff is a listener whose connections can be closed all at once, when no request more may be
// answered.
type Cutoff struct {
	net.Listener
	ended chan struct{} // closed by Close
	cut   atomic.Bool   // set under mu

	// mu guards the rest.
	mu   sync.Mutex
	over bool // ended is closed
	open map[net.Conn]struct{}
}

// NewCutoff returns a listener that takes the connections of l.
func NewCutoff(l net.Listener) *Cutoff {
	return &Cutoff{Listener: l, ended: make(chan struct{}), open: map[net.Conn]struct{}{}}
}

// Accept implements [net.Listener]. Behind [Cutoff.Cut] it waits for Close, so that a server does
// not report that its listener failed.
func (c *Cutoff) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		if held := c.hold(conn); held != nil {
			return held, nil
		}
		err = net.ErrClosed
	}
	if c.cut.Load() {
		<-c.ended
	}
	return nil, err
}

// hold notes a connection. It closes the connection and returns nil if the listener is cut.
func (c *Cutoff) hold(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut.Load() {
		_ = conn.Close() // nobody has heard of it
		return nil
	}
	c.open[conn] = struct{}{}
	return &cutoffConn{conn, c}
}

// Cut closes the listener and every connection.
func (c *Cutoff) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut.Store(true)
	_ = c.Listener.Close() // it may be closed
	for conn := range c.open {
		_ = conn.Close() // it may be closed
	}
}

// Close implements [net.Listener].
func (c *Cutoff) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.ended)
	}
	if c.cut.Load() {
		return nil
	}
	return c.Listener.Close()
}

type cutoffConn struct {
	net.Conn
	of *Cutoff
}

// Write implements [io.Writer]. Cut closes one connection after the other. A client that saw the
// end of one must not have an answer on another.
func (c *cutoffConn) Write(b []byte) (int, error) {
	if c.of.cut.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// Close implements [net.Conn].
func (c *cutoffConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// gatherMost is how long a ledger that ends at once waits for its last metrics.
const gatherMost = 5 * time.Second

// Halt counts the invariant that err breaks, and shows the last metrics at the address at which
// clients reached the ledger, like [LastWord]. No request of theirs is answered any more. t is nil
// for plain HTTP.
//
// Some metrics read the log, which may be damaged. So metrics that do not come in time are given
// up, and the ledger ends without a last word.
func (c *Cutoff) Halt(ctx context.Context, m *metrics.Metrics, t *certificate.Files, err error) {
	c.Cut()
	if errors.Is(err, agreement.ErrDiverged) {
		m.Violated(metrics.Diverged)
	} else {
		m.Damaged(err)
	}
	last, taken := new(LastWord), make(chan struct{})
	go func() {
		defer close(taken)
		last.Take(m, c, t)
	}()
	select {
	case <-taken:
		_ = last.Say(ctx, err) // its error is err
	case <-time.After(gatherMost):
	}
}
