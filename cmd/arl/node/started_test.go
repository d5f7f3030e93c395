package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestStarted shows a first entry on the first start alone, and what TLS needs.
func TestStarted(t *testing.T) {
	s := Started{URL: "http://127.0.0.1:8087", Origin: "o", VerifierKeys: []string{"o+key"}, Genesis: "g", Begins: true}
	if text := s.Text("arl"); !strings.HasPrefix(text, "URL           http://127.0.0.1:8087\norigin        o\nverifier key  o+key\ngenesis       g\n\nSubmit a first entry") ||
		strings.Contains(text, "--tls") {
		t.Errorf("without TLS:\n%s", text)
	}
	s.Certificate = "/etc/server.pem"
	if text := s.Text("arl"); !strings.Contains(text, "The profile here trusts /etc/server.pem; elsewhere pass --tls-ca") || strings.Contains(text, "--tls-cert") {
		t.Errorf("with TLS:\n%s", text)
	}
	s.AsksClients = true
	if text := s.Text("arl"); strings.Count(text, "--tls-cert CLIENT.pem --tls-key CLIENT.key") != 2 {
		t.Errorf("with certificates of clients:\n%s", text)
	}
	s.Begins = false
	if text := s.Text("arl"); strings.Contains(text, "first entry") || !strings.HasSuffix(text, "elsewhere pass --tls-ca with the CA of that certificate.\n") {
		t.Errorf("a later start:\n%s", text)
	}
}

// TestRefusalsAreToldOnce: the coordinator tries an entry again every second while the disk is
// full. The log of the process says so once, and says another refusal at once.
func TestRefusalsAreToldOnce(t *testing.T) {
	var said bytes.Buffer
	n := &Node{Logger: slog.New(slog.NewTextHandler(&said, nil))}
	refused := n.coordinator().Refused
	full := &entry.Refusal{Problem: entry.InsufficientStorage}
	for _, free := range []string{"7 bytes are free", "6 bytes are free", "5 bytes are free"} {
		full.Detail = free
		refused(&entry.Decision{}, full)
	}
	refused(&entry.Record{}, full)
	refused(&entry.Decision{}, &entry.Refusal{Problem: entry.Stale})
	if n := strings.Count(said.String(), "the coordinator's entry was refused"); n != 3 {
		t.Errorf("%d lines: %s", n, said.String())
	}
}
