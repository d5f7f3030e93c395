package server_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/server"
)

// somePages are pages at two paths.
type somePages struct{}

func (somePages) Paths() []string { return []string{"/", "/shown/{id}", "/told"} }

func (somePages) Streams() []string { return []string{"/told"} }

func (somePages) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/told" {
		w.Header().Set("Content-Type", api.MediaEvents)
		_, _ = w.Write([]byte("data: begun\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		_, _ = w.Write([]byte("data: over\n\n"))
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'self'")
	_, _ = w.Write([]byte("page " + q.URL.Path))
}

// TestPages serves pages beside the API: unknown paths stay problems, and the pages'
// own headers hold.
func TestPages(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Pages = somePages{} })
	for path, want := range map[string]string{"/": "page /", "/shown/7": "page /shown/7"} {
		if a := n.get(path); a.StatusCode != http.StatusOK || string(a.body) != want || a.Header.Get("Content-Security-Policy") != "default-src 'self'" {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := n.get("/other"); a.StatusCode != http.StatusNotFound || !strings.Contains(a.Header.Get("Content-Type"), "problem") {
		t.Errorf("a path that nobody has: %d %s", a.StatusCode, a.body)
	}
	if a := start(t, nil).get("/"); a.StatusCode != http.StatusNotFound {
		t.Errorf("pages that nobody configured: %d", a.StatusCode)
	}
}

// TestStreamsOfPages opens a stream of the pages, as a browser that takes gzip: events come as
// they are written, HEAD does not wait, and the stream ends when the server does.
func TestStreamsOfPages(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := start(t, func(c *server.Config) { c.Pages = somePages{} })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	cfg := *n.cfg
	cfg.Metrics = nil
	s, err := server.New(&cfg)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, listener) }()
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+"/told", http.NoBody)
		must(t, err)
		request.Header.Set("Accept-Encoding", "gzip")
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		lines := bufio.NewScanner(response.Body)
		for _, want := range []string{"data: begun", "", "data: over", ""} {
			if method == http.MethodHead {
				continue
			}
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("got %q, want %q", lines.Text(), want)
			}
			cancel() // the first line has come
		}
		must(t, response.Body.Close())
	}
	must(t, <-ended)
}

// TestHost calls a server on loopback by names: a website that leads its own name to
// this machine reads nothing.
func TestHost(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Hosts = []string{"ledger.example"} })
	_, port, _ := strings.Cut(strings.TrimPrefix(n.url, "http://"), ":")
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "LOCALHOST": 200, "[::1]:" + port: 200, "127.1.2.3": 200, "ledger.example": 200,
		"evil.example": 421, "127.0.0.1.evil.example:" + port: 421, "localhost.evil.example": 421, "0x7f000001": 421, "192.0.2.1": 421,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/v1/log", http.NoBody)
		must(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, response.StatusCode, want)
		}
	}
}
