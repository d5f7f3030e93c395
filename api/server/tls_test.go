package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/certificate"
	"recoveryledger/api/server"
)

// house is a directory with an authority, a server's certificate and a client's.
type house struct {
	t   *testing.T
	dir string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t, t.TempDir()}
	authorityFor(t, h.dir, "server", "client")
	return h
}

func (h *house) file(name string) string { return filepath.Join(h.dir, name) }

// take copies files of another house.
func (h *house) take(from *house, names ...string) {
	h.t.Helper()
	for _, name := range names {
		content, err := os.ReadFile(from.file(name))
		must(h.t, err)
		must(h.t, os.WriteFile(h.file(name), content, 0o600))
	}
}

// client returns a client that trusts the house's authority and has the house's
// certificate.
func (h *house) client() *http.Client {
	h.t.Helper()
	ca, err := os.ReadFile(h.file("ca.pem"))
	must(h.t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(h.file("client.pem"), h.file("client.key"))
	must(h.t, err)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair},
		ClientSessionCache: tls.NewLRUClientSessionCache(8)}}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// reach asks a server, and reports whether that took no new connection.
func reach(t *testing.T, client *http.Client, address string) (reused bool, err error) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, "https://"+address+"/v1/log", nil)
	must(t, err)
	response, err := client.Do(request)
	if err != nil {
		return reused, err
	}
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
		t.Errorf("%s %s", response.Proto, response.Status)
	}
	return reused, response.Body.Close()
}

// Certificates, and the authorities of clients, are read again while the server
// runs: open connections stay, new ones get what the files hold, and nobody is
// admitted by a session from before.
func TestReloadTLS(t *testing.T) {
	n := start(t, nil)
	used, older, newer := newHouse(t), newHouse(t), newHouse(t)
	used.take(older, "ca.pem", "server.pem", "server.key", "client.pem", "client.key")
	files, err := certificate.Load(used.file("server.pem"), used.file("server.key"), used.file("ca.pem"))
	must(t, err)
	address, _ := n.serve(func(c *server.Config) { c.TLS = files })
	open, resumes := older.client(), older.client()
	for _, client := range []*http.Client{open, resumes} {
		_, err = reach(t, client, address)
		must(t, err)
	}
	used.take(newer, "ca.pem", "server.pem", "server.key")
	if _, err := reach(t, newer.client(), address); err == nil {
		t.Error("files count before they are read")
	}
	must(t, files.Reload(time.Now()))
	if reused, err := reach(t, open, address); err != nil || !reused {
		t.Errorf("the connection that was open: reused %t, %v", reused, err)
	}
	resumes.CloseIdleConnections()
	for name, client := range map[string]*http.Client{"a new connection": older.client(), "a session": resumes} {
		if _, err := reach(t, client, address); err == nil {
			t.Errorf("%s by the certificates before", name)
		}
	}
	if _, err := reach(t, newer.client(), address); err != nil {
		t.Errorf("by the new certificates: %v", err)
	}
}

// Files that cannot be used change nothing, and the error names the file.
func TestReloadBadTLS(t *testing.T) {
	n := start(t, nil)
	used, kept, other := newHouse(t), newHouse(t), newHouse(t)
	names := []string{"ca.pem", "server.pem", "server.key"}
	used.take(kept, names...)
	files, err := certificate.Load(used.file("server.pem"), used.file("server.key"), used.file("ca.pem"))
	must(t, err)
	address, _ := n.serve(func(c *server.Config) { c.TLS = files })
	leaf := files.Leaf()
	for desc, c := range map[string]struct {
		spoil func()
		now   time.Time
		want  string
	}{
		"no certificate": {func() { must(t, os.Remove(used.file("server.pem"))) }, time.Now(), "server.pem"},
		"half a certificate": {func() {
			text, err := os.ReadFile(used.file("server.pem"))
			must(t, err)
			must(t, os.WriteFile(used.file("server.pem"), text[:len(text)/2], 0o600))
		}, time.Now(), "certificate"},
		"the key of another":    {func() { used.take(other, "server.key") }, time.Now(), "private key"},
		"no client authorities": {func() { must(t, os.WriteFile(used.file("ca.pem"), nil, 0o600)) }, time.Now(), "ca.pem"},
		"an expired one":        {func() { used.take(other, "server.pem", "server.key") }, time.Now().Add(2 * time.Hour), "expired"},
	} {
		c.spoil()
		if err := files.Reload(c.now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", desc, err)
		}
		if files.Leaf() != leaf {
			t.Errorf("%s is in use", desc)
		}
		if _, err := reach(t, kept.client(), address); err != nil {
			t.Errorf("after %s: %v", desc, err)
		}
		used.take(kept, names...)
	}
}
