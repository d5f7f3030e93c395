package listen

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
)

// TestSameServer tells two spellings of one server from another server: the ledger's own
// URL is no second source.
func TestSameServer(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"http://ledger.example", "HTTP://Ledger.Example:80/", true},
		{"https://ledger.example", "https://ledger.example:443", true},
		{"http://127.0.0.1:8087", "http://localhost:8087/", true},
		{"http://[::1]:8087", "http://0.0.0.0:8087", true},
		{"http://127.0.0.1:8087", "http://127.0.0.1:08087", true},
		{"http://[::ffff:127.0.0.1]:8087", "http://127.0.0.1:8087", true},
		{"http://ledger.example", "http://ledger.example./", true},
		{"http://ledger.example/a", "http://ledger.example/b/..//a/", true},
		{"http://ledger.example", "http://ledger.example:8087", false},
		{"http://ledger.example/a", "http://ledger.example/b", false},
		{"http://mirror.example", "http://ledger.example", false},
	} {
		if got := sameServer(c.one, c.other); got != c.same {
			t.Errorf("%s and %s: %t, want %t", c.one, c.other, got, c.same)
		}
	}
}

// TestSecret makes a secret and reads it. A file without one is refused.
func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.secret")
	if _, err := ReadSecret(path); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "pass --secret with the file beside its first key") {
		t.Errorf("no secret: %v", err)
	}
	if err := makeSecret(path); err != nil {
		t.Fatal(err)
	}
	if secret, err := ReadSecret(path); err != nil || len(secret) != secretSize {
		t.Errorf("%d bytes, %v", len(secret), err)
	}
}

// TestHoldProgram refuses a second program in the same state.
func TestHoldProgram(t *testing.T) {
	state := t.TempDir()
	held, err := HoldProgram(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HoldProgram(state); exit.Code(err) != exit.Conflict {
		t.Errorf("a second program: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := HoldProgram(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestALedgerThatNeverAnswers has a server take connections and say nothing: the command ends when
// its patience does, and says what to do.
func TestALedgerThatNeverAnswers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	m := &access.Machine{Trust: &trust.Store{Home: func() (string, error) { return t.TempDir(), nil }}, Read: func(name string, _ int64) ([]byte, error) { return os.ReadFile(name) }}
	o := &Options{Agent: "worker", Patience: 50 * time.Millisecond}
	target := &access.Target{URL: "http://" + silent.Addr().String(), Root: "../../../verify/testdata/root.json"}
	err = o.Watch(t.Context(), m, target, func(c *access.Connection) error { return o.enrolled(t.Context(), c) })
	if exit.Code(err) != exit.Unavailable || !strings.Contains(err.Error(), "the ledger did not answer within --patience 50ms") || !strings.Contains(exit.Remedy(err), "see whether the ledger hangs") {
		t.Errorf("exit code %d, %v, remedy %q", exit.Code(err), err, exit.Remedy(err))
	}
}
