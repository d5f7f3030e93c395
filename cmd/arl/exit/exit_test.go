package exit

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"testing"

	"recoveryledger/coord/audit"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
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
		"step":   {&verify.StepError{Step: verify.StepLeaf, What: "entry 4", Cause: refused}, Verification},
		"format": {fmt.Errorf("%w: %w", &verify.FormatError{What: "receipt"}, refused), Verification},
		"fork":   {fmt.Errorf("%w: %w", &verify.ForkError{Detail: "two heads"}, refused), Inconsistent},
	} {
		if got := Code(c.err); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
		if got := Problem(c.err); got != "" {
			t.Errorf("%s: names the problem %s", name, got)
		}
	}
	if got := Code(refused); got != Usage || Problem(refused) != entry.Malformed {
		t.Errorf("a refusal alone: exit code %d, problem %s", got, Problem(refused))
	}
}

// What convicts a ledger is kept in a file. What a mirror or a disk may have done, too, has the
// same exit code, and no file.
func TestOnlyProofIsKept(t *testing.T) {
	finding := &audit.FindingError{Refusal: entry.Refuse(entry.UnknownIssuer, "iss", "nobody"), Receipt: verify.Receipt{Head: "note"}}
	wrong := &audit.IndexError{Wrong: &complete.RootError{}}
	for name, c := range map[string]struct {
		err  error
		kind string // of the file; empty: there is none
	}{
		"an entry":        {finding, "audit"},
		"an index":        {wrong, "audit"},
		"a fork":          {&verify.ForkError{First: "a", Second: "b"}, "fork"},
		"one head":        {&verify.ForkError{First: "a"}, ""},
		"another root":    {&audit.RootError{Head: verify.SignedHead{Note: "a"}, Detail: "other leaves"}, ""},
		"a cut bundle":    {audit.ErrDamaged, ""},
		"another history": {With(Inconsistent, export.ErrInconsistent), ""},
		"a proven one":    {With(Inconsistent, fmt.Errorf("%w: %w", export.ErrInconsistent, &verify.ForkError{First: "a", Second: "b"})), "fork"},
	} {
		err := fmt.Errorf("read: %w", c.err)
		found, ok := Contradicted(err)
		if got := Code(err); got != Inconsistent || ok != (c.kind != "") || ok && (found.Kind != c.kind || found.Evidence == nil) {
			t.Errorf("%s: exit code %d, %+v", name, got, found)
		}
	}
}

// A file of the user that already has the evidence is named, and no other one is written.
func TestEvident(t *testing.T) {
	err := fmt.Errorf("verify: %w", Evident("fork.json", &verify.ForkError{First: "a", Second: "b"}))
	if found, ok := Contradicted(err); Code(err) != Inconsistent || !ok || found.File != "fork.json" || found.Evidence != nil {
		t.Errorf("exit code %d, %+v", Code(err), found)
	}
}

// A system without a ledger is a matter of where arl runs: configuration.
func TestASystemWithoutALedger(t *testing.T) {
	if got := Code(fmt.Errorf("serve: %w", disk.CheckSystem("windows"))); got != Config {
		t.Errorf("exit code %d, want %d", got, Config)
	}
}

// A node of a cluster that computes another tree head than the others ends as a damaged log does.
func TestADivergedNode(t *testing.T) {
	if got := Code(fmt.Errorf("serve: %w", agreement.Diverged(7, "another root"))); got != Inconsistent {
		t.Errorf("exit code %d, want %d", got, Inconsistent)
	}
}

// A node that lacks what the others dropped must not be started again and again: it joins anew.
func TestANodeThatLacksBatches(t *testing.T) {
	if got := Code(fmt.Errorf("%w: batch 31 of 55", agreement.ErrTrimmed)); got != Conflict {
		t.Errorf("exit code %d, want %d", got, Conflict)
	}
}

// An error number of the system has the methods of a network error, and is
// none: what a disk refuses is not an unavailable ledger.
func TestErrorNumbersAreNoNetwork(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errRefused)}
	if got := Code(fmt.Errorf("get: %w", refused)); got != Unavailable || Remedy(refused) == "" {
		t.Errorf("connection refused: exit code %d, remedy %q", got, Remedy(refused))
	}
	if got := Code(&fs.PathError{Op: "open", Path: "x", Err: errNoFolder}); got == Unavailable {
		t.Errorf("not a directory: exit code %d", got)
	}
	if got := Code(Output("no/x", &fs.PathError{Op: "open", Path: "no/x", Err: fs.ErrNotExist})); got != IO {
		t.Errorf("an output without a directory: exit code %d", got)
	}
}
