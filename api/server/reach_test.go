package server_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// TestLogSize: every answer says a size that the log had, whatever its status.
func TestLogSize(t *testing.T) {
	n := start(t, nil)
	n.register(n.good())
	size := n.log.Size()
	for path, status := range map[string]int{
		"/v1/log": http.StatusOK, "/checkpoint": http.StatusOK, "/healthz": http.StatusOK, "/metrics": http.StatusOK, "/v1/entries": http.StatusOK,
		"/v1/entries/99": http.StatusNotFound, "/v1/entries/x": http.StatusBadRequest, "/nowhere": http.StatusNotFound,
		"/v1/consistency/1/99": http.StatusNotFound, "/tile/0/000": http.StatusNotFound,
	} {
		a := n.get(path)
		if got := a.Header.Get(api.HeaderLogSize); a.StatusCode != status || got != strconv.FormatUint(size, 10) {
			t.Errorf("%s: %s, Log-Size %q, want %d", path, a.Status, got, size)
		}
	}
	a := n.do(n.request(http.MethodOptions, "/checkpoint", "", nil))
	if got := a.Header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, api.HeaderMinLogSize) {
		t.Errorf("a page may send %q", got)
	}
}

// atLeast asks for a path from a log of a size on.
func (n *node) atLeast(path, least string) *answer {
	n.t.Helper()
	r := n.request(http.MethodGet, path, "", nil)
	r.Header.Set(api.HeaderMinLogSize, least)
	return n.do(r)
}

// TestMinLogSize: a request that needs a size gets its answer once the log has it, and not-ready,
// which names both sizes, where the log does not grow in time.
// Draft: HTTP-2.
func TestMinLogSize(t *testing.T) {
	n := start(t, func(c *server.Config) { c.ReachWait = 200 * time.Millisecond })
	size := n.log.Size()
	reached := strconv.FormatUint(size, 10)
	if a := n.atLeast("/v1/log", reached); a.StatusCode != http.StatusOK {
		t.Errorf("the size that is there: %s", a.body)
	}
	began := time.Now()
	p := n.problem(n.atLeast("/v1/entries/0/receipt", strconv.FormatUint(size+1, 10)), entry.NotReady, http.StatusServiceUnavailable)
	if took := time.Since(began); took < 200*time.Millisecond || p.Field != api.HeaderMinLogSize || !strings.Contains(p.Detail, reached) || p.RetryAfterMS == 0 {
		t.Errorf("after %s: %+v", took, p)
	}
	for _, wrong := range []string{"x", "-1", "01", "18446744073709551616", "1.0"} {
		if p := n.problem(n.atLeast("/v1/log", wrong), entry.Malformed, http.StatusBadRequest); p.Field != api.HeaderMinLogSize {
			t.Errorf("%q: %+v", wrong, p)
		}
	}
}

// TestMinLogSizeWaits: the answer to a waiting request comes with the entry that it waits for.
func TestMinLogSizeWaits(t *testing.T) {
	n := start(t, func(c *server.Config) { c.ReachWait = time.Minute })
	index := n.log.Size()
	answered := make(chan *answer, 1)
	waits := n.request(http.MethodGet, api.URL(api.PathEntry, nil, index), "", nil)
	waits.Header.Set(api.HeaderMinLogSize, strconv.FormatUint(index+1, 10))
	go func() { answered <- n.do(waits) }()
	n.register(n.good())
	if a := <-answered; a.StatusCode != http.StatusOK || a.Header.Get(api.HeaderLogSize) != strconv.FormatUint(index+1, 10) {
		t.Errorf("%s, Log-Size %s: %s", a.Status, a.Header.Get(api.HeaderLogSize), a.body)
	}
}

// TestMinLogSizeOfClient: a request whose client goes away waits no longer.
func TestMinLogSizeOfClient(t *testing.T) {
	n := start(t, func(c *server.Config) { c.ReachWait = time.Hour })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := n.request(http.MethodGet, "/v1/log", "", nil).WithContext(ctx)
	r.Header.Set(api.HeaderMinLogSize, "1000000")
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
		t.Errorf("an answer: %s", response.Status)
	}
}
