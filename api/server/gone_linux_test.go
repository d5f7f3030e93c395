package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/api/server"
)

// narrow is a listener whose connections hold little of an answer.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// leave asks for something, reads the status of the answer and resets the
// connection.
func leave(t *testing.T, address, request string) {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
		if failed != nil {
			return failed
		}
		return err
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	must(t, err)
	_, err = conn.Write([]byte(request))
	must(t, err)
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	must(t, err)
	if !strings.Contains(line, "200") {
		t.Fatalf("answer %q", line)
	}
	must(t, conn.(*net.TCPConn).SetLinger(0)) // closing resets
	must(t, conn.Close())
}

// watchedNode is a node whose log is at hand.
func watchedNode(t *testing.T) (*node, *lockedBuffer) {
	t.Helper()
	var log lockedBuffer
	return start(t, func(c *server.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}), &log
}

// nobodyRefused checks that a server counted so many clients that went away, and
// neither refused nor blamed anybody.
func nobodyRefused(t *testing.T, n *node, log *lockedBuffer, gone int) {
	t.Helper()
	if got := n.metric("arl_clients_gone_total"); got != strconv.Itoa(gone) {
		t.Errorf("%s clients gone, want %d", got, gone)
	}
	if refused := n.metric(`arl_refusals_total{problem="500"}`) + n.metric(`arl_refusals_total{problem="not-ready"}`); refused != "" {
		t.Errorf("refusals counted: %s", refused)
	}
	for _, message := range []string{"refused", "panic"} {
		for _, record := range log.records(t, message) {
			t.Errorf("%s: %v", message, record)
		}
	}
}

// A reader that goes away in the middle of an answer is no error of the server and
// is refused nothing, whichever way the answer is written.
func TestReaderThatLeaves(t *testing.T) {
	n, log := watchedNode(t)
	for range 256 {
		n.register(n.good())
	}
	paths := []string{"/openapi.json", "/tile/entries/000", "/v1/entries?limit=256", "/metrics"}
	for _, path := range paths {
		s, err := server.New(n.cfg)
		must(t, err)
		web := httptest.NewUnstartedServer(s.Handler())
		web.Listener = narrow{web.Listener}
		web.Start()
		leave(t, web.Listener.Addr().String(), "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		web.Close() // waits for the answer
		if records := log.records(t, "client gone"); len(records) == 0 || !strings.HasPrefix(path, records[len(records)-1]["path"].(string)) {
			t.Errorf("GET %s: %v", path, records)
		}
	}
	nobodyRefused(t, n, log, len(paths))
}

// A client that cancels its request is refused nothing; one that is still there is
// told. An error of writing to something else than the answer is the server's.
func TestRequestThatIsCancelled(t *testing.T) {
	waited := fmt.Errorf("wait: %w", context.Canceled)
	for _, c := range []struct {
		desc      string
		err       error
		cancelled bool
		status    int
		gone      string
	}{
		{"the client cancels", waited, true, 499, "1"},
		{"the client is there", waited, false, http.StatusServiceUnavailable, "0"},
		{"the handler gives up", http.ErrAbortHandler, false, 499, "1"},
		{"another connection broke", syscall.EPIPE, true, http.StatusInternalServerError, "0"},
	} {
		t.Run(c.desc, func(t *testing.T) {
			n, log := watchedNode(t)
			s, err := server.New(n.cfg)
			must(t, err)
			s.Fail("/fails", c.err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancelled {
				cancel()
			}
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/fails", nil))
			if got := n.metric(fmt.Sprintf(`arl_http_requests_total{code="%d",method="GET",route="/fails"}`, c.status)); got != "1" || n.metric("arl_clients_gone_total") != c.gone {
				t.Errorf("%q requests with %d, %s gone", got, c.status, n.metric("arl_clients_gone_total"))
			}
			if refused := log.records(t, "refused"); (len(refused) > 0) != (c.gone == "0") || (answer.Body.Len() > 0) != (c.gone == "0") {
				t.Errorf("told %s, logged %v", answer.Body, refused)
			}
		})
	}
}
