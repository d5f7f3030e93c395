// Package server answers HTTP for a ledger: entries in, receipts and proofs
// out, tiles for auditors, a stream of events, health and metrics. The types of
// its JSON are in package api; GET /openapi.json describes every path.
//
// A request passes, in this order: request id, log and metrics; security headers; recovery from
// panics; the rate limit of its address; the size of the log that it needs; its route. The routes
// are those of [api.Routes]; each has one handler, bound by its name. The write path, POST
// /v1/entries, writes its answers by hand, since the ledger is as fast as its slowest step.
//
// Writes carry their authority in the signature. A refused request appends nothing. The server
// logs and counts it, and answers with problem details. Handlers never commit: the ledger's
// order commits, in its own goroutine. A commit that fails ends the process, and no handler
// can recover from that.
//
// [Server.Run] must end before the ledger's Run ends, so that entries under way get answers.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"recoveryledger/api"
	"recoveryledger/api/attempts"
	"recoveryledger/api/certificate"
	"recoveryledger/api/metrics"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/fair"
	"recoveryledger/ledger/witness"
)

// Config says what a server serves, and within which bounds. New copies and checks it once.
type Config struct {
	// Origin and VerifierKeys are shown by GET /v1/log. It shows VerifierKeys until a policy
	// names keys (TRU-5). Required.
	Origin       string
	VerifierKeys []string
	// Log takes entries and answers reads. Required. The server does not call its Run.
	Log *ledger.Log
	// Replica knows the committed principals and keys. Required.
	Replica *coordinator.Replica

	// Peers are the other nodes of the cluster. Nil: the ledger is a single one.
	Peers Peers
	// Cluster returns the nodes of the cluster, as this node knows them. Nil: the ledger is a
	// single one.
	Cluster func(ctx context.Context) (*api.Cluster, error)
	// Witnesses collect cosignatures on tree heads. The server does not call their Run. Nil:
	// the server asks no witness.
	Witnesses *witness.Rounds
	// Index answers complete histories. The server does not call its Run. Nil: there are none.
	Index *complete.Index
	// WitnessWait is how long a bundle waits for a tree head that the witnesses have
	// cosigned, and a receipt whose request names no wait. 0: [api.WitnessedDefault].
	WitnessWait time.Duration
	// COSE makes the COSE receipt of an entry of Log. Nil: there are none.
	COSE func(index uint64) ([]byte, error)
	// IndexWait is how long a bundle or a history waits for an index entry. 0:
	// [api.WitnessedDefault].
	IndexWait time.Duration
	// ReachWait is how long a request waits for the size of the log that it needs. 0:
	// [api.MinLogSizeWait].
	ReachWait time.Duration
	// Evidence keeps objects with a valid signature and an id that is taken. Nil: the server
	// only logs them.
	Evidence *Evidence
	// Attempts records what the server decides about cases. Nil: the server has no key for that.
	Attempts *attempts.Recorder
	// Logger takes refusals (info) and failures (error): the first of each sort from one
	// client, and then a count every 10 minutes. At debug it takes all refusals, and requests.
	// Nil: silence.
	Logger *slog.Logger
	// Metrics counts requests, and commits if its Commit is the ledger's
	// Observe. Nil: new ones.
	Metrics *metrics.Metrics
	// Tracer makes a span of every request. Nil: no traces.
	Tracer trace.TracerProvider
	// TLS, from [certificate.Load], encrypts. With client certificates it also admits clients. Nil:
	// plain HTTP.
	TLS *certificate.Files
	// Hosts are further names, beside localhost, of a server that listens on loopback without
	// TLS. A proxy on the same host passes such names on.
	Hosts []string
	// Pages answers GET of its paths. No path of the API is among them. Nil: there are no pages.
	Pages Pages
	// Version is the version in the OpenAPI document. Empty: "devel".
	Version string

	// Rate is the number of requests a second that one address may send on average. A burst
	// may have a second's worth. An IPv6 address counts by its /64. Behind a proxy all clients
	// have one address. 0: 5,000; negative: no limit.
	Rate float64
	// Connections is the number of open connections; one address may have half of them. The
	// server closes further connections at once. Each connection takes a file descriptor, and
	// the ledger needs descriptors too. 0: [DefaultConnections].
	Connections int
	// HeaderTimeout bounds the time for a request's header, and ReadTimeout the time for the
	// whole request. WriteTimeout bounds the time for the answer, or for each write of an event
	// stream. IdleTimeout bounds the time between two requests. 0: 5 s, 1 min, 1 min, 2 min.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// Grace is how long requests under way may go on after Run is told to end. 0: 30 s.
	Grace time.Duration
	// Heartbeat is the longest silence of an event stream. 0: 15 s.
	Heartbeat time.Duration
}

// Pages are the pages that a server shows people beside its API.
type Pages interface {
	http.Handler
	// Paths returns the paths that the handler answers, a parameter in braces.
	Paths() []string
	// Streams returns those of the paths that send events for as long as the client stays. The
	// handler ends such a stream with the context of its request.
	Streams() []string
}

func (c *Config) withDefaults() (*Config, error) {
	d := *c
	if d.Origin == "" || len(d.VerifierKeys) == 0 || d.Log == nil || d.Replica == nil {
		return nil, errors.New("server: new: Origin, VerifierKeys, Log and Coordinator are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = metrics.New()
	}
	if d.Version == "" {
		d.Version = "devel"
	}
	if d.Rate == 0 {
		d.Rate = rateDefault
	}
	if d.Connections <= 0 {
		d.Connections = DefaultConnections
	}
	for _, bound := range []struct {
		set      *time.Duration
		fallback time.Duration
	}{
		{&d.HeaderTimeout, headerTimeoutDefault}, {&d.ReadTimeout, readTimeoutDefault}, {&d.WriteTimeout, writeTimeoutDefault},
		{&d.IdleTimeout, idleTimeoutDefault}, {&d.Grace, Grace}, {&d.WitnessWait, api.WitnessedDefault}, {&d.IndexWait, api.WitnessedDefault},
		{&d.ReachWait, api.MinLogSizeWait}, {&d.Heartbeat, heartbeatDefault},
	} {
		if *bound.set == 0 {
			*bound.set = bound.fallback
		}
	}
	return &d, nil
}

// Server answers requests. Its handler works without Run.
type Server struct {
	cfg     *Config
	log     *ledger.Log
	coord   *coordinator.Replica
	metrics *metrics.Metrics
	router  *echo.Echo
	handler http.Handler // router, and what is around it
	buffers sync.Pool    // of *[]byte

	batches *fair.Budget        // bytes of batches under way
	streams *fair.Budget        // event streams under way
	lanes   *fair.Lanes[string] // of clients
	samples *sampler
	rules   atomic.Pointer[rules]

	plans chan *computed // holds the last plan; a request takes it to compute a plan

	bundles chan struct{} // filled while authorization bundles are made
	maker   assemble.Maker

	// draining is closed when the server is about to end: it is not ready then, and streams end.
	draining chan struct{}
	drain    func()
}

// New returns the server of a ledger.
func New(c *Config) (*Server, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, coord: cfg.Replica, metrics: cfg.Metrics,
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
		batches:  fair.NewBudget(maxBatchMemory, maxClientBatchMemory),
		streams:  fair.NewBudget(maxStreams, maxClientStreams),
		lanes:    fair.NewLanes[string](maxLanes),
		samples:  newSampler(cfg.Logger),
		draining: make(chan struct{}),
		plans:    make(chan *computed, 1),
		bundles:  make(chan struct{}, maxBundles),
	}
	s.plans <- &computed{}
	s.drain = sync.OnceFunc(func() { close(s.draining) })
	s.metrics.Ledger(s.log, s.coord)
	s.metrics.Lanes(s.lanes.State)
	if cfg.Index != nil {
		s.metrics.Index(cfg.Index)
	}
	if cfg.Cluster != nil {
		s.metrics.Cluster(s.log.Leads, cfg.Cluster)
	}
	if cfg.Witnesses != nil {
		s.metrics.Witnesses(cfg.Witnesses, time.Now)
	}
	return s, s.routes()
}

// Handler returns the handler of all paths.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves on the listener until ctx ends. Then it takes no more connections, answers the
// requests that it has accepted, and returns. The error says that the listener failed, or that
// requests were still under way after Grace.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.cfg.HeaderTimeout, ReadTimeout: s.cfg.ReadTimeout,
		WriteTimeout: s.cfg.WriteTimeout, IdleTimeout: s.cfg.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	if s.cfg.TLS != nil {
		h.TLSConfig = s.cfg.TLS.Config()
	}
	most := int64(s.cfg.Connections)
	count := s.metrics.Connections()
	listener = &fair.Listener{Listener: listener, Open: fair.NewBudget(most, max(1, most/2)), Client: clientAt,
		Opened: count.Inc, Closed: count.Dec, Refused: s.metrics.ConnectionsRefused().Inc}
	counting, counted := context.WithCancel(ctx)
	defer func() { counted(); s.samples.flush(time.Now()) }()
	go s.samples.run(counting)
	served := make(chan error, 1)
	go func() {
		if s.cfg.TLS != nil {
			served <- h.ServeTLS(listener, "", "")
			return
		}
		served <- h.Serve(listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("server: serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.cfg.Logger.Info("stopping", slog.Any("reason", context.Cause(ctx)))
	s.drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	if err := h.Shutdown(stop); err != nil {
		return errors.Join(fmt.Errorf("server: shut down: %w", err), h.Close())
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("server: serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// buffer returns an empty buffer; put gives it back.
func (s *Server) buffer() *[]byte { return s.buffers.Get().(*[]byte) }

func (s *Server) put(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		s.buffers.Put(b)
	}
}
