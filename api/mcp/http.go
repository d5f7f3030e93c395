package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionHeader names the session of a request over HTTP.
const sessionHeader = "Mcp-Session-Id"

// Handler serves clients over streamable HTTP. Each session has a session of the server of its own.
type Handler struct {
	proxy *Proxy
	guard *http.CrossOriginProtection

	mu       sync.Mutex // guards all below
	sessions map[string]*served
	running  sync.WaitGroup
	closed   bool
}

// served is a session over HTTP.
type served struct {
	transport *sdk.StreamableServerTransport
	idle      *time.Timer
	stop      context.CancelFunc
}

// NewHandler returns a handler of a proxy.
func NewHandler(p *Proxy) *Handler {
	return &Handler{proxy: p, guard: http.NewCrossOriginProtection(), sessions: map[string]*served{}}
}

// ServeHTTP implements [http.Handler]. A page of another origin is refused.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.guard.Check(r); err != nil {
		http.Error(w, "a page of another origin may not call this server", http.StatusForbidden)
		return
	}
	id := r.Header.Get(sessionHeader)
	r.Body = http.MaxBytesReader(w, r.Body, sdk.DefaultMaxLineLength)
	if id == "" && r.Method == http.MethodPost {
		if !initializes(r) {
			http.Error(w, sessionHeader+" is missing: begin with initialize", http.StatusBadRequest)
			return
		}
		h.begin(w, r)
		return
	}
	h.mu.Lock()
	s := h.sessions[id]
	h.mu.Unlock()
	switch {
	case id == "":
		http.Error(w, sessionHeader+" is missing: begin with initialize", http.StatusBadRequest)
	case s == nil:
		http.Error(w, "the session is over: begin another one with initialize", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.stop()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.idle.Reset(idleTime)
		s.transport.ServeHTTP(w, r)
	}
}

// initializes reports whether a request is to begin a session. The body can be read again.
func initializes(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var request struct {
		Method string `json:"method"`
	}
	return err == nil && json.Unmarshal(body, &request) == nil && request.Method == "initialize"
}

// begin begins a session with its first request.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
	id := h.proxy.cfg.NewID()
	s := &served{transport: &sdk.StreamableServerTransport{SessionID: id, EventStore: sdk.NewMemoryEventStore(nil)}, idle: time.AfterFunc(idleTime, stop), stop: stop}
	h.mu.Lock()
	if h.closed || len(h.sessions) >= maxSessions {
		h.mu.Unlock()
		stop()
		http.Error(w, "no session is free: end one with DELETE", http.StatusServiceUnavailable)
		return
	}
	h.sessions[id] = s
	h.mu.Unlock()
	connection, err := s.transport.Connect(ctx)
	if err != nil {
		h.end(id)
		http.Error(w, "the session does not begin", http.StatusInternalServerError)
		return
	}
	h.running.Go(func() {
		defer h.end(id)
		if err := h.proxy.Serve(ctx, connection); err != nil {
			h.proxy.cfg.Tell("session %s: %v", id, err)
		}
	})
	s.transport.ServeHTTP(w, r)
}

// end forgets a session.
func (h *Handler) end(id string) {
	h.mu.Lock()
	s := h.sessions[id]
	delete(h.sessions, id)
	h.mu.Unlock()
	if s != nil {
		s.stop()
		s.idle.Stop()
	}
}

// Close ends all sessions, and waits for their ends.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		s.stop()
	}
	h.mu.Unlock()
	h.running.Wait()
}
