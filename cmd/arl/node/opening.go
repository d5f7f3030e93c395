package node

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/netutil"

	"recoveryledger/api"
	"recoveryledger/api/certificate"
	"recoveryledger/cmd/arl/service"
	"recoveryledger/ledger/entry"
)

// OpeningMost is how long connections wait for a ledger that opens. A restart is quicker, and no
// client hears of it.
const OpeningMost = 10 * time.Second

// openingConnections is how many connections are answered at once. The database needs the files.
const openingConnections = 64

// AnswerOpening answers requests at the address of a ledger that opens for longer than after, so
// that clients ask another node, and whoever watches the process knows that it lives. Each request
// is refused, but for GET /healthz. t is nil for plain HTTP.
//
// end leaves the listener to the ledger: AnswerOpening takes no connection any more, and answers
// those that it has. It can be called again.
func AnswerOpening(at service.Listener, t *certificate.Files, after time.Duration) (end func()) {
	server := &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second, Handler: http.HandlerFunc(refuseOpening),
		ErrorLog: log.New(io.Discard, "", 0)} // what clients do wrong
	server.SetKeepAlivesEnabled(false) // the next request may find the ledger
	opened, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-time.After(after):
		case <-opened:
			return
		}
		listener := netutil.LimitListener(&lent{at, opened}, openingConnections)
		if t != nil {
			listener = tls.NewListener(listener, t.Config())
		}
		_ = server.Serve(listener) // ends with opened, or with at
	}()
	return sync.OnceFunc(func() {
		close(opened)
		_ = at.SetDeadline(time.Unix(1, 0)) // for an Accept that waits; an error says that at is closed
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(now) // for one that waits for the end of another connection
		<-over
		_ = at.SetDeadline(time.Time{})
	})
}

// lent is a listener that is another's, who has it back once opened is closed.
type lent struct {
	net.Listener
	opened <-chan struct{}
}

// Accept implements [net.Listener].
func (l *lent) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		return conn, nil
	}
	select {
	case <-l.opened:
		return nil, net.ErrClosed // a server tries again after the error of a deadline
	default:
		return nil, err
	}
}

// Close implements [net.Listener].
func (l *lent) Close() error { return nil }

// refuseOpening answers as the server of the ledger would.
func refuseOpening(to http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == api.PathHealth {
		answerJSON(to, http.StatusOK, api.MediaJSON, &api.Status{Status: "ok"})
		return
	}
	refusal := entry.Refuse(entry.NotReady, "", "the ledger opens its database, or waits for other nodes of its cluster").
		WithRemedy("send the same request again, to this node later or to another one; the log of arl serve says how far the ledger is")
	refusal.RetryAfterMS = time.Second.Milliseconds()
	to.Header().Set("Retry-After", "1")
	answerRefusal(to, refusal)
}

func answerRefusal(to http.ResponseWriter, refusal *entry.Refusal) {
	p := api.NewProblem(refusal)
	answerJSON(to, p.Status, api.MediaProblem, p)
}

func answerJSON(to http.ResponseWriter, status int, media string, answer any) {
	to.Header().Set("Content-Type", media)
	to.WriteHeader(status)
	_ = json.MarshalWrite(to, answer) // an error is the client's
}
