package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/certificate"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// serve runs a server of its own, with its timeouts, and returns its address.
// stop ends it and wants a clean end.
func (n *node) serve(change func(*server.Config)) (address string, stop func()) {
	n.t.Helper()
	cfg := *n.cfg
	cfg.Metrics = nil
	change(&cfg)
	s, err := server.New(&cfg)
	must(n.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, listener) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must(n.t, <-done)
		}
	}
	n.t.Cleanup(stop)
	return listener.Addr().String(), stop
}

func dial(t *testing.T, address, send string) *bufio.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, send)
	must(t, err)
	return bufio.NewReader(conn)
}

// A client that does not finish its header is cut off; one that does not finish
// its body is told so, and nothing of it is registered.
func TestSlowClients(t *testing.T) {
	n := start(t, nil)
	address, _ := n.serve(func(c *server.Config) {
		c.HeaderTimeout, c.ReadTimeout, c.IdleTimeout = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	})
	size := n.log.Head().Size
	if answer, err := io.ReadAll(dial(t, address, "GET /v1/log HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")); len(answer) > 0 || err != nil {
		t.Errorf("slow header: %q, %v", answer, err)
	}
	envelope := string(n.good().AppendEnvelope(nil))
	for _, mediaType := range []string{api.MediaJSON, api.MediaNDJSON} {
		header := "POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + mediaType + "\r\nContent-Length: " + strconv.Itoa(2*len(envelope)) + "\r\n\r\n"
		response, err := http.ReadResponse(dial(t, address, header+envelope+"\n"), nil)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		must(t, err)
		n.problem(&answer{response, body}, "", http.StatusRequestTimeout)
	}
	idle := dial(t, address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(idle, nil)
	must(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	must(t, err)
	if rest, err := io.ReadAll(idle); len(rest) > 0 || err != nil {
		t.Errorf("idle connection: %q, %v", rest, err)
	}
	if n.log.Head().Size != size {
		t.Fatal("something was appended")
	}
}

// A header beyond the limit is refused.
func TestLargeHeader(t *testing.T) {
	n := start(t, nil)
	address, _ := n.serve(func(*server.Config) {})
	response, err := http.ReadResponse(dial(t, address, "GET /v1/log HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("x", 64<<10)+"\r\n\r\n"), nil)
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("status %s", response.Status)
	}
}

// Under load from many clients the server ends: every entry that is in the log
// has been answered with its receipt, and nobody got half an answer.
func TestShutdownAnswersWhatItAccepted(t *testing.T) {
	n := start(t, nil)
	address, stop := n.serve(func(c *server.Config) { c.Rate = -1 })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	first := n.log.Head().Size
	var mu sync.Mutex
	var receipts []verify.Receipt
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for {
				e := n.good()
				response, err := client.Post("http://"+address+"/v1/entries", api.MediaJSON, bytes.NewReader(e.AppendEnvelope(nil)))
				if err != nil {
					return // the connection was closed before the request was read
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				receipt, decodeErr := verify.DecodeReceipt(body)
				if err := errors.Join(err, decodeErr); err != nil {
					t.Errorf("half an answer: %v", err)
					return
				}
				mu.Lock()
				receipts = append(receipts, receipt)
				mu.Unlock()
			}
		})
	}
	must(t, n.log.Wait(t.Context(), first+500))
	stop()
	wait.Wait()
	if got := n.log.Head().Size - first; got != uint64(len(receipts)) {
		t.Fatalf("%d entries in the log, %d receipts", got, len(receipts))
	}
	n.verify(verify.Material{Receipts: receipts})
}

// Event streams do not keep the server from ending.
func TestShutdownEndsStreams(t *testing.T) {
	n := start(t, nil)
	address, stop := n.serve(func(*server.Config) {})
	in := dial(t, address, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(in, nil)
	must(t, err)
	defer response.Body.Close()
	stop()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatalf("the stream did not end in order: %v", err)
	}
}

// A listener that fails ends the server with an error.
func TestRunReportsListener(t *testing.T) {
	n := start(t, nil)
	s, err := server.New(n.cfg)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	if err := s.Run(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("error %v", err)
	}
}

// A request that outlives the grace is given up, and Run says so.
func TestShutdownGrace(t *testing.T) {
	n := start(t, nil)
	cfg := *n.cfg
	cfg.Metrics, cfg.Grace = nil, 20*time.Millisecond
	s, err := server.New(&cfg)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, listener) }()
	in := dial(t, listener.Addr().String(), "POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err) // the handler is reading the body now
	}
	cancel()
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
}

// authorityFor writes a certificate authority, and a certificate of it for each
// name, as PEM files into dir.
func authorityFor(t *testing.T, dir string, names ...string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	template := func(name string, serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
		}
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	root := template("root", 1)
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	must(t, err)
	write("ca.pem", "CERTIFICATE", der)
	for i, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		leaf := template(name, int64(i)+2)
		leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
		must(t, err)
		write(name+".pem", "CERTIFICATE", der)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		must(t, err)
		write(name+".key", "PRIVATE KEY", private)
	}
}

// Over TLS the ledger answers whom it admits: with client authorities only
// those who present a certificate, and never below TLS 1.3.
func TestTLS(t *testing.T) {
	n := start(t, nil)
	dir := t.TempDir()
	authorityFor(t, dir, "server", "client")
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, err := os.ReadFile(file("ca.pem"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(file("client.pem"), file("client.key"))
	must(t, err)
	get := func(address string, c *tls.Config) error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		response, err := client.Get("https://" + address + "/v1/log")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK || response.Header.Get("Strict-Transport-Security") == "" || response.ProtoMajor != 2 {
			t.Errorf("%s %s, header %v", response.Proto, response.Status, response.Header)
		}
		return nil
	}
	for _, clientCA := range []string{"", file("ca.pem")} {
		c, err := certificate.Load(file("server.pem"), file("server.key"), clientCA)
		must(t, err)
		address, _ := n.serve(func(cfg *server.Config) { cfg.TLS = c })
		must(t, get(address, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}))
		if err := get(address, &tls.Config{RootCAs: pool}); (err != nil) != (clientCA != "") {
			t.Errorf("client authorities %q, no client certificate: %v", clientCA, err)
		}
		if err := get(address, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MaxVersion: tls.VersionTLS12}); err == nil { //nolint:gosec // is refused
			t.Error("TLS 1.2 was accepted")
		}
	}
	for _, bad := range [][3]string{{"no.pem", "server.key", ""}, {"server.pem", "client.key", ""}, {"server.pem", "server.key", "no.pem"},
		{"server.pem", "server.key", "server.key"}} {
		if bad[2] != "" {
			bad[2] = file(bad[2])
		}
		if _, err := certificate.Load(file(bad[0]), file(bad[1]), bad[2]); err == nil {
			t.Errorf("%v was loaded", bad)
		}
	}
}

// When the ledger takes no more, the server says that it is not ready; reading
// goes on.
func TestNotReadyWhenStopped(t *testing.T) {
	n := start(t, nil)
	n.stopLog()
	n.problem(n.post(api.MediaJSON, n.good().AppendEnvelope(nil)), entry.NotReady, http.StatusServiceUnavailable)
	n.problem(n.get("/readyz"), entry.NotReady, http.StatusServiceUnavailable)
	n.receipt(n.get("/v1/entries/0/receipt"), http.StatusOK)
}

// A handler that panics is a failure of one request: answered, logged with its
// stack, and the next one works.
func TestPanic(t *testing.T) {
	var log lockedBuffer
	n := start(t, nil)
	cfg := *n.cfg
	cfg.Metrics, cfg.Logger = nil, slog.New(slog.NewJSONHandler(&log, nil))
	s, err := server.New(&cfg)
	must(t, err)
	s.Break("/broken")
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	n.url = web.URL
	p := n.problem(n.get("/broken"), "", http.StatusInternalServerError)
	if strings.Contains(p.Detail, "purpose") {
		t.Errorf("the cause is told: %q", p.Detail)
	}
	if records := log.records(t, "panic"); len(records) != 1 || !strings.Contains(records[0]["stack"].(string), "Break") {
		t.Errorf("records %v", records)
	}
	if records := log.records(t, "refused"); len(records) != 1 || records[0]["cause"] != "broken on purpose" || records[0]["level"] != "ERROR" {
		t.Errorf("records %v", records)
	}
	n.register(n.good())
}
