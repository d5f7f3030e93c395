package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// What fails verification ends with the code for that, whatever rule of entries
// it broke: a tampered leaf is no mistake of whoever checks it.
func TestFailedVerificationHasItsOwnExitCode(t *testing.T) {
	refused := entry.Refuse(entry.Malformed, "payload", "not canonical")
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"step":   {&verify.StepError{Step: verify.StepLeaf, What: "entry 4", Cause: refused}, exitVerification},
		"format": {fmt.Errorf("%w: %w", &verify.FormatError{What: "receipt"}, refused), exitVerification},
		"fork":   {fmt.Errorf("%w: %w", &verify.ForkError{Detail: "two heads"}, refused), exitInconsistent},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
		if got := problemName(c.err); got != "" {
			t.Errorf("%s: names the problem %s", name, got)
		}
	}
	if got := exitCode(refused); got != exitUsage || problemName(refused) != entry.Malformed {
		t.Errorf("a refusal alone: exit code %d, problem %s", got, problemName(refused))
	}
}

// A system without a ledger is a matter of where arl runs: configuration.
func TestASystemWithoutALedger(t *testing.T) {
	if got := exitCode(fmt.Errorf("serve: %w", ledger.CheckSystem("windows"))); got != exitConfig {
		t.Errorf("exit code %d, want %d", got, exitConfig)
	}
}

// An error number of the system has the methods of a network error, and is
// none: what a disk refuses is not an unavailable ledger.
func TestErrorNumbersAreNoNetwork(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errRefused)}
	if got := exitCode(fmt.Errorf("get: %w", refused)); got != exitUnavailable || remedy(refused) == "" {
		t.Errorf("connection refused: exit code %d, remedy %q", got, remedy(refused))
	}
	if got := exitCode(&fs.PathError{Op: "open", Path: "x", Err: errNoFolder}); got == exitUnavailable {
		t.Errorf("not a directory: exit code %d", got)
	}
	if got := exitCode(output("no/x", &fs.PathError{Op: "open", Path: "no/x", Err: fs.ErrNotExist})); got != exitIO {
		t.Errorf("an output without a directory: exit code %d", got)
	}
}

// Damage that an import meets has a remedy, whether the export has it or the
// database that is there already.
func TestDamageOfAnImportHasARemedy(t *testing.T) {
	n := &node{dir: t.TempDir(), anchor: "d.anchor"}
	for _, want := range []string{"take another copy of public", "arl log fsck"} {
		err := n.importError("public", fmt.Errorf("tile: %w", ledger.ErrCorrupt))
		if exitCode(err) != exitInconsistent || !strings.Contains(remedy(err), want) {
			t.Errorf("exit code %d, remedy %q, want %q", exitCode(err), remedy(err), want)
		}
		if err := os.MkdirAll(n.database(), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
