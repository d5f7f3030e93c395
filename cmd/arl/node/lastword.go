package node

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"recoveryledger/api/certificate"
	"recoveryledger/api/metrics"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// lastWordMost is how long a ledger that halted shows its last metrics. A Prometheus that reads
// them at all reads them more often.
const lastWordMost = 2 * time.Minute

// LastWord shows the last metrics of a ledger that halted, so that the counter of the invariant
// that it broke is read once. Everything else is refused. The zero LastWord says nothing.
type LastWord struct {
	// mu is held by whoever ends the ledger: a witness, and readers of the log, may do so at one
	// time.
	mu   sync.Mutex
	last http.Handler
	at   net.Listener       // that the ledger had; it is closed
	tls  *certificate.Files // nil: plain HTTP
}

// Take takes the metrics as they are now, if somebody has read them before.
func (w *LastWord) Take(m *metrics.Metrics, at net.Listener, t *certificate.Files) {
	if m.Reads() > 0 {
		w.last, w.at, w.tls = m.Final(), at, t
	}
}

// Halting returns what ends a ledger that meets a tree head that is none of its log: it counts the
// fork, and takes the last metrics before fail ends the server, whose listener is at.
func (w *LastWord) Halting(m *metrics.Metrics, at net.Listener, t *certificate.Files, fail func(error)) func(error) {
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		m.Violated(metrics.Forked)
		w.Take(m, at, t)
		fail(err)
	}
}

// Damaged returns what is told of an error with which a ledger ends in order, before its server,
// whose listener is at, and its log are closed. It counts damage of the log, and takes the last
// metrics.
func (w *LastWord) Damaged(m *metrics.Metrics, at net.Listener, t *certificate.Files) func(error) {
	return func(err error) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		m.Damaged(err)
		w.Take(m, at, t)
	}
}

// listenAgain listens where a closed listener did. The service manager may have opened that one
// and holds its address, so that nobody can listen there but at its own socket.
func listenAgain(ctx context.Context, closed net.Listener) (net.Listener, error) {
	if c, cut := closed.(*Cutoff); cut {
		closed = c.Listener
	}
	if given, ok := closed.(interface{ Again() (net.Listener, error) }); ok {
		return given.Again()
	}
	var listen net.ListenConfig
	return listen.Listen(ctx, closed.Addr().Network(), closed.Addr().String())
}

// Say shows the metrics until they were read, ctx ends, or two minutes are over. It returns err:
// the address may be taken, and the ledger has ended in any case.
func (w *LastWord) Say(ctx context.Context, err error) error {
	if w.last == nil {
		return err
	}
	listener, failed := listenAgain(ctx, w.at)
	if failed != nil {
		return err
	}
	if w.tls != nil {
		listener = tls.NewListener(listener, w.tls.Config())
	}
	ctx, cancel := context.WithTimeout(ctx, lastWordMost)
	defer cancel()
	read := make(chan struct{}, 1)
	s := &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second, Handler: http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/metrics" {
			answerRefusal(to, entry.Refuse(entry.NotReady, "", "the ledger has halted").
				WithRemedy("the log of arl serve says why; a cluster has other nodes to ask"))
			return
		}
		w.last.ServeHTTP(to, r)
		select {
		case read <- struct{}{}:
		default:
		}
	})}
	go func() { _ = s.Serve(listener) }() // ends with Shutdown
	select {
	case <-read:
	case <-ctx.Done():
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_ = s.Shutdown(ending) // the answer that is under way is whole
	return err
}
