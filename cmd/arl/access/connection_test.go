package access

import (
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/verify"
)

// Where client and server do not agree on TLS, the error says what to do.
func TestTLSErrorsHaveARemedy(t *testing.T) {
	for _, c := range []struct {
		err   error
		asked bool
		want  string
	}{
		{x509.UnknownAuthorityError{}, false, "(pass --tls-ca with the CA"},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, false, "(pass --url with a name"},
		{net.ErrClosed, true, "pass --tls-cert and --tls-key of a certificate that its --tls-client-ca signed)"},
	} {
		if got := explainTLSError(c.err, c.asked); !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if got := explainTLSError(net.ErrClosed, false); !errors.Is(got, net.ErrClosed) || got.Error() != net.ErrClosed.Error() {
		t.Errorf("another error: %v", got)
	}
}

// TestReceiptsAreKeptWithoutTheirLinks has a ledger that gives receipts and then
// nothing more: the receipts are not lost with it.
func TestReceiptsAreKeptWithoutTheirLinks(t *testing.T) {
	root, receipts := exampleReceipts(t)
	away, err := client.New("http://127.0.0.1:1", root, &client.Config{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	err = (&Connection{Client: away, Root: root}).WriteBundle(t.Context(), path, receipts[3:])
	if err == nil || !strings.Contains(err.Error(), "has no receipts of the policies") || exit.Code(err) != exit.Unavailable {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m verify.Material
	if err := m.Add(path, content); err != nil || len(m.Receipts) != 1 || m.Receipts[0].Index != 3 {
		t.Errorf("kept %d receipts, error %v", len(m.Receipts), err)
	}
}

// exampleReceipts are those of the example of package verify: a genesis policy, an
// enroller, an agent and an execution.
func exampleReceipts(t *testing.T) (verify.Root, []verify.Receipt) {
	t.Helper()
	pinned, err1 := os.ReadFile("../../../verify/testdata/root.json")
	given, err2 := os.ReadFile("../../../verify/testdata/receipts.ndjson")
	root, err3 := verify.ParseRoot(pinned)
	var m verify.Material
	if err := errors.Join(err1, err2, err3, m.Add("receipts.ndjson", given)); err != nil {
		t.Fatal(err)
	}
	return root, m.Receipts
}
