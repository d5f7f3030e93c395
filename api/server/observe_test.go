package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// lockedBuffer takes the log of a server that answers concurrently.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// records returns the log's records with this message.
func (b *lockedBuffer) records(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.buf.Bytes()) {
		record := map[string]any{}
		must(t, json.Unmarshal(line, &record))
		if record["msg"] == message {
			found = append(found, record)
		}
	}
	return found
}

// A caller's request id is in the answer and in the log; one that could do harm
// there is replaced.
func TestRequestIDs(t *testing.T) {
	n := start(t, nil)
	for id, kept := range map[string]bool{"abc-1._Z": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
		"": false, "a b": false, "a\"b": false, "a/b": false, "é": false} {
		request := n.request(http.MethodGet, "/v1/log", "", nil)
		request.Header.Set(api.HeaderRequestID, id)
		if got := n.do(request).Header.Get(api.HeaderRequestID); (got == id) != kept || got == "" {
			t.Errorf("id %q became %q", id, got)
		}
	}
}

// A refusal is one structured record with the request's id; requests are
// recorded for who wants to see them.
func TestRefusalIsLogged(t *testing.T) {
	var log lockedBuffer
	n := start(t, func(c *server.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	x := n.execution()
	x.Aud = "elsewhere\nINFO forged"
	request := n.request(http.MethodPost, "/v1/entries", api.MediaJSON, sign(t, n.agent, x).AppendEnvelope(nil))
	request.Header.Set(api.HeaderRequestID, "request-1")
	n.problem(n.do(request), entry.WrongAudience, http.StatusForbidden)
	refused := log.records(t, "refused")
	if len(refused) != 1 || refused[0]["request"] != "request-1" || refused[0]["problem"] != "wrong-audience" ||
		refused[0]["field"] != "aud" || refused[0]["level"] != "INFO" || refused[0]["client"] != "127.0.0.1" {
		t.Fatalf("records %v", refused)
	}
	requests := log.records(t, "request")
	if last := requests[len(requests)-1]; last["request"] != "request-1" || last["status"] != 403.0 || last["path"] != "/v1/entries" {
		t.Fatalf("record %v", last)
	}
}

// Every answer tells browsers to do nothing with it.
func TestSecurityHeaders(t *testing.T) {
	n := start(t, nil)
	for _, path := range []string{"/v1/log", "/nowhere", "/checkpoint", "/metrics"} {
		header := n.get(path).Header
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("X-Frame-Options") != "DENY" ||
			!strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("GET %s: %v", path, header)
		}
	}
}

// One address that sends too fast is told when to come again; what it claims to
// be forwarded for does not help it.
func TestRateLimit(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Rate = 20 })
	refused := false
	for i := range 200 {
		request := n.request(http.MethodGet, "/healthz", "", nil)
		request.Header.Set("X-Forwarded-For", "10.0.0."+strings.Repeat("1", 1+i%2))
		if a := n.do(request); a.StatusCode != http.StatusOK {
			p := n.problem(a, entry.RateLimited, http.StatusTooManyRequests)
			refused = p.RetryAfterMS > 0 && a.Header.Get("Retry-After") == "1"
			break
		}
	}
	if !refused {
		t.Fatal("200 requests at once were answered")
	}
}

// Metrics count requests by route and status, entries by kind, refusals by
// problem, and say how large the log is and what commits took.
func TestMetrics(t *testing.T) {
	n := start(t, nil)
	n.register(n.good(), n.good())
	n.get("/v1/entries/1")
	n.get("/v1/entries/99")
	n.get("/nowhere")
	n.do(n.request("BREW", "/v1/log", "", nil))
	for sample, want := range map[string]string{
		`arl_http_requests_total{code="201",method="POST",route="/v1/entries"}`:       "5",
		`arl_http_requests_total{code="200",method="GET",route="/v1/entries/:index"}`: "1",
		`arl_http_requests_total{code="404",method="GET",route="/v1/entries/:index"}`: "1",
		`arl_http_requests_total{code="404",method="GET",route="other"}`:              "1",
		`arl_http_requests_total{code="405",method="other",route="/v1/log"}`:          "1",
		`arl_http_request_seconds_count{route="/v1/entries"}`:                         "5",
		`arl_refusals_total{problem="not-found"}`:                                     "2",
		`arl_refusals_total{problem="405"}`:                                           "1",
		`arl_entries_total{kind="policy"}`:                                            "1",
		`arl_entries_total{kind="agent"}`:                                             "2",
		`arl_entries_total{kind="execution"}`:                                         "2",
		`arl_log_size`:                                                                "5",
		`arl_commit_seconds_count`:                                                    "5",
		`arl_commit_entries_sum`:                                                      "5",
		`arl_snapshots_damaged_total`:                                                 "0",
		`arl_event_streams`:                                                           "0",
	} {
		if got := n.metric(sample); got != want {
			t.Errorf("%s %q, want %s", sample, got, want)
		}
	}
	if n.metric("go_goroutines") == "" || n.metric("process_open_fds") == "" {
		t.Error("the process's own metrics are missing")
	}
}

// With a tracer every request is a span, named for its route, in the trace that
// the caller began.
func TestTraces(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	n := start(t, func(c *server.Config) {
		c.Tracer = trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	})
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	request := n.request(http.MethodGet, "/v1/entries/1", "", nil)
	request.Header.Set("Traceparent", "00-"+caller+"-00f067aa0ba902b7-01")
	n.do(request)
	spans := recorder.Ended()
	last := spans[len(spans)-1]
	if last.Name() != "GET /v1/entries/:index" || last.SpanContext().TraceID().String() != caller {
		t.Fatalf("span %q in trace %s", last.Name(), last.SpanContext().TraceID())
	}
	s := n.events("/v1/events?from=1", "") // the span's writer must not be in the way
	if s.next().Index != 1 {
		t.Fatal("not the first entry")
	}
}
