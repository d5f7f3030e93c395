package peer

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/site"
)

// headerClient names the address of the client whose request a node passes on.
const headerClient = "Arl-Client"

// reachTime is how long a node waits for what the others have registered.
const reachTime = 2 * time.Second

// readyMax is for how long a node that has reached the others counts as ready without asking again.
const readyMax = time.Second

const (
	// electionMax is how long a request waits for a new leader before it is refused.
	electionMax = 2 * time.Second
	// electionLook is the time between two looks for it.
	electionLook = 20 * time.Millisecond
)

// Router passes requests on from this node, and says what it may answer.
type Router struct {
	node  *cluster.Node
	proxy *httputil.ReverseProxy
	wait  func(ctx context.Context, size uint64) error

	reached atomic.Pointer[time.Time] // when Reach returned nil last
}

// NewRouter returns the router of a node. wait returns when the log of this node has a size.
func NewRouter(n *cluster.Node, s *site.Site, logger *slog.Logger, wait func(ctx context.Context, size uint64) error) (*Router, error) {
	c, err := NewClient(s)
	if err != nil {
		return nil, err
	}
	r := &Router{node: n, wait: wait}
	r.proxy = &httputil.ReverseProxy{Rewrite: rewrite, Transport: c.http.Transport, ErrorHandler: failed, ErrorLog: log.New(discard{logger}, "", 0)}
	return r, nil
}

// discard takes the messages of the proxy, which its ErrorHandler tells, too.
type discard struct{ *slog.Logger }

// Write implements [io.Writer].
func (d discard) Write(text []byte) (int, error) {
	d.Debug("pass on", "message", strings.TrimSpace(string(text)))
	return len(text), nil
}

type passing struct {
	leader *cluster.Contact
	answer http.ResponseWriter
	err    error
}

type passingKey struct{}

func rewrite(r *httputil.ProxyRequest) {
	p, _ := r.In.Context().Value(passingKey{}).(*passing)
	r.Out.URL.Scheme, r.Out.URL.Host = "https", p.leader.Peer
	r.Out.URL.Path, r.Out.URL.RawPath = pathAPI+r.In.URL.Path, ""
	if r.In.URL.RawPath != "" {
		r.Out.URL.RawPath = pathAPI + r.In.URL.RawPath
	}
	r.Out.Header.Set(headerClient, r.In.RemoteAddr)
	r.Out.Header.Del("Accept-Encoding") // this node compresses
	for name := range p.answer.Header() {
		if name != "Vary" {
			p.answer.Header().Del(name) // the leader's count
		}
	}
}

func failed(_ http.ResponseWriter, r *http.Request, err error) {
	p, _ := r.Context().Value(passingKey{}).(*passing)
	p.err = err
}

// errNewLeader reports a request whose leader did not answer before another node began to lead. It
// is an [agreement.ErrOvertaken].
var errNewLeader = fmt.Errorf("%w: it leads now, and the one that was asked has not answered", agreement.ErrOvertaken)

// errNoLeader reports a request whose leader did not answer while no other node could lead.
var errNoLeader = errors.New("peer: the node that was asked has not answered, and no majority does")

// Await returns whether this node leads, as leads says. While it begins to, or nobody leads, Await
// waits for a moment: a client that is refused would wait longer than an election takes.
func (r *Router) Await(ctx context.Context, leads func() bool) bool {
	r.await(ctx, func() bool { return leads() || !r.node.Begins() })
	return leads()
}

// await waits until done, for electionMax at most, or until there is nothing to wait for.
func (r *Router) await(ctx context.Context, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, electionMax)
	defer cancel()
	tick := time.NewTicker(electionLook)
	defer tick.Stop()
	for !done() && !r.node.Vacant() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// leader returns the node that leads, and a channel that is closed when another one does. It waits
// for one that begins to.
func (r *Router) leader(ctx context.Context) (leader *cluster.Contact, changed <-chan struct{}, err error) {
	r.await(ctx, func() bool {
		changed = r.node.LeaderChanged()
		leader, err = leaderOf(ctx, r.node)
		return err == nil
	})
	return leader, changed, err
}

// Forward passes a request on to the node that orders the log. After an error nothing is answered.
// A leader that hangs holds the request only until Raft has another one, or has none for so long
// that it may have none for longer. If the leader cannot be reached, the error comes when Raft has
// another one, too, so that the next attempt finds it.
func (r *Router) Forward(w http.ResponseWriter, request *http.Request) error {
	leader, changed, err := r.leader(request.Context())
	if err != nil {
		return err
	}
	p := &passing{leader: leader, answer: w}
	kept := w.Header().Clone()
	ctx, cancel := context.WithCancelCause(context.WithValue(request.Context(), passingKey{}, p))
	defer cancel(nil)
	go r.lose(ctx, changed, cancel)
	r.proxy.ServeHTTP(w, request.WithContext(ctx))
	if p.err != nil {
		maps.Copy(w.Header(), kept)
		if cause := context.Cause(ctx); errors.Is(cause, errNewLeader) || errors.Is(cause, errNoLeader) {
			return cause
		}
		select {
		case <-changed:
			return fmt.Errorf("%w: %v", errNewLeader, p.err)
		case <-time.After(electionMax):
		case <-request.Context().Done():
		}
	}
	return p.err
}

// lose cancels a request when Raft has another leader, or none for long.
func (r *Router) lose(ctx context.Context, changed <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-changed:
			cancel(errNewLeader)
			return
		case <-tick.C:
			if r.node.Vacant() {
				cancel(errNoLeader)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// Reach returns nil when this node has everything that was registered when the call began.
func (r *Router) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	size, err := r.node.Reached(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.wait(ctx, size); err != nil {
		return err
	}
	r.reached.Store(&began)
	return nil
}

// Ready returns nil if this node had what was registered lately, and knows who orders the log.
func (r *Router) Ready(ctx context.Context) error {
	if at := r.reached.Load(); at == nil || time.Since(*at) > readyMax {
		if err := r.Reach(ctx); err != nil {
			return err
		}
	}
	_, err := leaderOf(ctx, r.node)
	return err
}

// Status returns the cluster as this node sees it.
func (r *Router) Status(ctx context.Context) (*Status, error) { return clusterOf(ctx, r.node) }

// Passed returns a handler of requests that other nodes pass on to this one. next sees the client's
// address as that of the request.
func Passed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, nil)) // the client reached another node
		r.RemoteAddr, r.TLS = r.Header.Get(headerClient), nil
		r.Header.Del(headerClient)
		next.ServeHTTP(w, r)
	})
}
