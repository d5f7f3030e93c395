package main

import (
	"bytes"
	"strings"
	"testing"

	"recoveryledger/api/certificate"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// What a start prints are commands that work against it.
func TestStartedSaysWhatTLSNeeds(t *testing.T) {
	ledgerKeys, err := keys.GenerateLedger(t.TempDir(), "test.log", nil)
	if err != nil {
		t.Fatal(err)
	}
	printed := func(e *serveSetup) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &out, nil)
		if err := a.printStarted(&node.Node{Dir: "data", Origin: ledgerKeys.Origin}, e, verify.Root{LedgerKeys: ledgerKeys.VerifierKeys[:]}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if out := printed(&serveSetup{url: "http://127.0.0.1:1"}); strings.Contains(out, "--tls") {
		t.Errorf("without TLS:\n%s", out)
	}
	out := printed(&serveSetup{url: "https://127.0.0.1:1", tls: &certificate.Files{}, certificate: "/etc/server.pem"})
	if !strings.Contains(out, "The profile here trusts /etc/server.pem; elsewhere pass --tls-ca") || strings.Contains(out, "--tls-cert") {
		t.Errorf("with TLS:\n%s", out)
	}
	out = printed(&serveSetup{url: "https://127.0.0.1:1", tls: &certificate.Files{}, asksClients: true, certificate: "/etc/server.pem"})
	if strings.Count(out, "--tls-cert CLIENT.pem --tls-key CLIENT.key") != 2 {
		t.Errorf("with certificates of clients:\n%s", out)
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
