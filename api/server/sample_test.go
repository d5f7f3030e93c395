package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// logged is a node whose server writes to a log at this level, and that server.
func logged(t *testing.T, log *lockedBuffer, level slog.Level) (*node, *server.Server) {
	t.Helper()
	n := start(t, nil)
	cfg := *n.cfg
	cfg.Metrics, cfg.Rate, cfg.Logger = metrics.New(), -1, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: level}))
	s, err := server.New(&cfg)
	must(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	n.url = web.URL
	return n, s
}

// What a client is refused again and again is one record, and then a count: of
// each route, problem and enrolled key for itself. Every refusal is counted in the
// metrics, and after the interval the first is a record again.
func TestRefusalsAreSampled(t *testing.T) {
	var log lockedBuffer
	n, s := logged(t, &log, slog.LevelInfo)
	bad := n.execution()
	bad.Aud = "elsewhere"
	other := n.header("monitor-1", "flow-1")
	other.Aud = "elsewhere"
	flood := func() {
		for range 20 {
			n.problem(n.post(api.MediaJSON, sign(t, n.agent, bad).AppendEnvelope(nil)), entry.WrongAudience, http.StatusForbidden)
			n.problem(n.post(api.MediaJSON, sign(t, n.monitor, &entry.Execution{Header: other, Exec: "x", Parents: []entry.Parent{},
				Effect: entry.EffectNone, Progress: entry.Planned}).AppendEnvelope(nil)), entry.WrongAudience, http.StatusForbidden)
			n.problem(n.get("/v1/log?x=1"), entry.Malformed, http.StatusBadRequest)
		}
	}
	flood()
	if got := log.records(t, "refused"); len(got) != 3 || got[0]["key"] != n.agent.Public().KeyID() || got[1]["key"] != n.monitor.Public().KeyID() ||
		got[2]["key"] != nil {
		t.Errorf("records %v", got)
	}
	s.FlushRefusals(time.Now())
	again := log.records(t, "refused again")
	if len(again) != 3 {
		t.Fatalf("counts %v", again)
	}
	for _, r := range again {
		if r["count"] != 19.0 || r["client"] != "127.0.0.1" || r["level"] != "INFO" || r["last_request"] == "" {
			t.Errorf("count %v", r)
		}
	}
	if got := n.metric(`arl_refusals_total{problem="wrong-audience"}`); got != "40" {
		t.Errorf("%s counted", got)
	}
	flood()
	if got := log.records(t, "refused"); len(got) != 6 {
		t.Errorf("%d records after the interval", len(got))
	}
	s.FlushRefusals(time.Now().Add(time.Hour))
	s.FlushRefusals(time.Now().Add(2 * time.Hour))
	if got := log.records(t, "refused again"); len(got) != 6 {
		t.Errorf("%d counts", len(got))
	}
}

// At debug all refusals are told.
func TestAllRefusalsAreToldAtDebug(t *testing.T) {
	var log lockedBuffer
	n, _ := logged(t, &log, slog.LevelDebug)
	for range 5 {
		n.get("/nowhere")
	}
	got := log.records(t, "refused")
	if len(got) != 5 || got[0]["level"] != "INFO" || got[4]["level"] != "DEBUG" {
		t.Errorf("records %v", got)
	}
}

// An object that equivocates, sent again and again, is a few records too, and so
// is a handler that panics; and no record is as long as a client likes.
func TestNothingFillsTheLog(t *testing.T) {
	var log lockedBuffer
	n, s := logged(t, &log, slog.LevelInfo)
	s.Break("/broken")
	first := n.execution()
	n.register(sign(t, n.agent, first))
	first.Exec = "another"
	for i := range 100 {
		n.problem(n.post(api.MediaJSON, sign(t, n.agent, first).AppendEnvelope(nil)), entry.IDConflict, http.StatusConflict)
		n.problem(n.get("/broken"), "", http.StatusInternalServerError)
		n.get("/" + strings.Repeat("x", 8000+i))
		n.get("/v1/log?" + strings.Repeat("y", 8000) + strconv.Itoa(i) + "=1")
		n.get("/v1/agents/" + strings.Repeat("z", 8000))
	}
	s.FlushRefusals(time.Now())
	log.mu.Lock()
	defer log.mu.Unlock()
	if lines, size := bytes.Count(log.buf.Bytes(), []byte("\n")), log.buf.Len(); lines > 14 || size > 16<<10 {
		t.Errorf("%d lines, %d bytes", lines, size)
	}
}

// However many clients there are, and whatever they are refused, the sampler
// remembers a bounded number of sorts; one client leaves room for the others, and
// nothing goes uncounted.
func TestSamplerIsBounded(t *testing.T) {
	var log lockedBuffer
	s := server.NewSampler(slog.New(slog.NewJSONHandler(&log, nil)))
	now := time.Unix(1, 0)
	firsts, asked := 0, 0
	ask := func(client, problem string) bool {
		asked++
		first := s.First(client, problem, now)
		if first {
			firsts++
		}
		return first
	}
	for i := range 1000 {
		if ask("flooder", fmt.Sprintf("problem-%d", i)) != (i < server.MaxClientSamples) {
			t.Fatalf("sort %d of one client", i)
		}
	}
	if !ask("honest", "stale") {
		t.Error("a flooder left no room for another client")
	}
	for i := range 100_000 {
		ask(fmt.Sprintf("client-%d", i), "stale")
	}
	if firsts != server.MaxSamples || s.Held() > server.MaxSamples+1001 {
		t.Errorf("%d records, %d held", firsts, s.Held())
	}
	now = now.Add(server.SampleInterval)
	if !ask("flooder", "problem-999") {
		t.Error("an interval does not end")
	}
	counted := 0
	for _, r := range log.records(t, "refused again") {
		counted += int(r["count"].(float64))
	}
	if firsts+counted != asked {
		t.Errorf("%d asked, %d records, %d counted", asked, firsts, counted)
	}
}

// The count of the last interval is written when the server ends.
func TestTheLastCountIsWritten(t *testing.T) {
	n := start(t, nil)
	var log lockedBuffer
	address, stop := n.listenTo(&log)
	n.url = "http://" + address
	for range 3 {
		n.get("/nowhere")
	}
	stop()
	if got := log.records(t, "refused again"); len(got) != 1 || got[0]["count"] != 2.0 {
		t.Errorf("counts %v", got)
	}
}
