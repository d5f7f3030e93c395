package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// The URL that a start prints and keeps is one that this machine can use.
func TestListenURL(t *testing.T) {
	for _, c := range []struct {
		listen, bound string
		encrypted     bool
		want          string
	}{
		{"127.0.0.1:8087", "127.0.0.1:8087", false, "http://127.0.0.1:8087"},
		{"127.0.0.1:0", "127.0.0.1:41234", false, "http://127.0.0.1:41234"},
		{"0.0.0.0:8087", "[::]:8087", false, "http://127.0.0.1:8087"},
		{":0", "[::]:41234", true, "https://127.0.0.1:41234"},
		{"[::]:8087", "[::]:8087", false, "http://[::1]:8087"},
		{"localhost:8087", "127.0.0.1:8087", false, "http://localhost:8087"},
		{"ledger.example:http", "192.0.2.1:80", true, "https://ledger.example:80"},
	} {
		bound, err := net.ResolveTCPAddr("tcp", c.bound)
		if err != nil {
			t.Fatal(err)
		}
		if got := listenURL(c.listen, bound, c.encrypted); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.listen, c.bound, got, c.want)
		}
	}
}

// What a start prints are commands that work against it.
func TestStartedSaysWhatTLSNeeds(t *testing.T) {
	ledgerKeys, err := keys.GenerateLedger(t.TempDir(), "test.log", nil)
	if err != nil {
		t.Fatal(err)
	}
	printed := func(e *entrance) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &out, nil)
		if err := a.printStarted(&node{dir: "data", origin: ledgerKeys.Origin}, e, verify.Root{LedgerKeys: ledgerKeys.VerifierKeys[:]}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if out := printed(&entrance{url: "http://127.0.0.1:1"}); strings.Contains(out, "--tls") {
		t.Errorf("without TLS:\n%s", out)
	}
	out := printed(&entrance{url: "https://127.0.0.1:1", tls: &server.TLS{}, certificate: "/etc/server.pem"})
	if !strings.Contains(out, "The profile here trusts /etc/server.pem; elsewhere pass --tls-ca") || strings.Contains(out, "--tls-cert") {
		t.Errorf("with TLS:\n%s", out)
	}
	out = printed(&entrance{url: "https://127.0.0.1:1", tls: &server.TLS{}, asksClients: true, certificate: "/etc/server.pem"})
	if strings.Count(out, "--tls-cert CLIENT.pem --tls-key CLIENT.key") != 2 {
		t.Errorf("with certificates of clients:\n%s", out)
	}
}

// Where client and server do not agree on TLS, the error says what to do.
func TestTLSErrorsHaveARemedy(t *testing.T) {
	for _, c := range []struct {
		err   error
		asked bool
		want  string
	}{
		{x509.UnknownAuthorityError{}, false, "(pass --tls-ca with the CA"},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, false, "(pass --url with a name"},
		{net.ErrClosed, true, "pass --tls-cert and --tls-key of one that its --tls-client-ca has signed)"},
	} {
		if got := unagreed(c.err, c.asked); !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if got := unagreed(net.ErrClosed, false); !errors.Is(got, net.ErrClosed) || got.Error() != net.ErrClosed.Error() {
		t.Errorf("another error: %v", got)
	}
}

// By default the anchor lies beside the data directory, whatever it is called.
func TestAnchorLiesBesideTheData(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, want := range map[string]string{
		".": dir, "./": dir, "..": filepath.Dir(dir), "data": filepath.Join(dir, "data"), "data/": filepath.Join(dir, "data"),
		"data/..": dir, "data/../": dir,
	} {
		if got, err := anchorOf(name); err != nil || got != want+".anchor" {
			t.Errorf("%s: %s, %v, want %s.anchor", name, got, err, want)
		}
	}
	for _, root := range []string{"/", "//", "/.", "/tmp/.."} {
		if got, err := anchorOf(root); exitCode(err) != exitUsage {
			t.Errorf("%s: %s, %v", root, got, err)
		}
	}
}

// What the coordinator writes is always admitted; if not, the operator hears it.
func TestCoordinatorWarnsOfRefusals(t *testing.T) {
	var out bytes.Buffer
	signer, err := keys.Generate(filepath.Join(t.TempDir(), "coordinator.key"), keys.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{logger: slog.New(slog.NewTextHandler(&out, nil)), replica: coord.New("test.log", nil), signer: signer}
	n.coordinator().Refused(&entry.Decision{}, entry.Refuse(entry.UnknownIssuer, "signatures[0].keyid", "not enrolled"))
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "problem=unknown-issuer") {
		t.Errorf("logged: %s", out.String())
	}
}

// An operator who wants no reserve gets none: 0 is not the default of the store.
func TestNoReserveIsNotTheDefault(t *testing.T) {
	for given, want := range map[uint64]uint64{0: 1, 1: 1, 1 << 30: 1 << 30} {
		if got := (&serveOptions{reserve: given}).reserveBytes(); got != want {
			t.Errorf("--reserve %d: the store is told %d, want %d", given, got, want)
		}
	}
}
