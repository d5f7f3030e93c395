package server_test

import (
	"net/http"
	"strings"
	"testing"

	"recoveryledger/api/server"
)

// somePages are pages at two paths.
type somePages struct{}

func (somePages) Paths() []string { return []string{"/", "/shown/{id}"} }

func (somePages) ServeHTTP(w http.ResponseWriter, q *http.Request) {
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
