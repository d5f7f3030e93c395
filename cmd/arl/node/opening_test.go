package node_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/entry"
)

// bound listens on loopback.
func bound(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// follows serves at a listener that AnswerOpening has left, and asks.
func follows(t *testing.T, l *net.TCPListener) {
	t.Helper()
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(to, "the ledger")
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	if got := read(t, "http://"+l.Addr().String()+"/v1/log"); got != "200 OK\nthe ledger" {
		t.Errorf("the ledger: %s", got)
	}
}

// TestOpening: a ledger that opens for long refuses requests, so that clients go on to another
// node, and is alive. Clients that ask nothing do not keep the listener from the ledger.
func TestOpening(t *testing.T) {
	l := bound(t)
	end := node.AnswerOpening(l, nil, 0)
	base := "http://" + l.Addr().String()
	if got := read(t, base+api.PathHealth); got != "200 OK\n"+`{"status":"ok"}` {
		t.Errorf("health: %s", got)
	}
	for _, path := range []string{api.PathReady, api.PathLog, "/nowhere"} {
		answer, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		var p api.Problem
		err = json.UnmarshalRead(answer.Body, &p)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable || p.Name() != entry.NotReady || p.Remedy == "" ||
			answer.Header.Get("Retry-After") != "1" || answer.Header.Get("Content-Type") != api.MediaProblem || !answer.Close {
			t.Errorf("%s: %s, %+v, %v", path, answer.Status, p, err)
		}
	}
	for range 100 {
		silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = silent.Close() })
	}
	end()
	end()
	follows(t, l)
}

// TestOpeningIsShort: a connection waits for a ledger that opens soon. One that does not open ends
// with its listener.
func TestOpeningIsShort(t *testing.T) {
	l := bound(t)
	end := node.AnswerOpening(l, nil, time.Hour)
	waits, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = waits.Close() })
	end()
	follows(t, l)
	if err := ask(waits, "http://"+l.Addr().String()+"/v1/log"); err != nil {
		t.Errorf("a connection that waited: %v", err)
	}

	failed := bound(t)
	end = node.AnswerOpening(failed, nil, 0)
	if err := failed.Close(); err != nil {
		t.Fatal(err)
	}
	end()
}
