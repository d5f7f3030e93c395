//go:build unix

package process_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/ledger/process"
)

// shell makes a command of a script, which gets the writing end of a pipe as
// descriptor 3: the pipe ends with all that holds it.
func shell(ctx context.Context, t *testing.T, script string) (cmd *exec.Cmd, gone func()) {
	t.Helper()
	left, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(ctx, "sh", "-c", script)
	cmd.ExtraFiles, cmd.WaitDelay = []*os.File{held}, 5*time.Second
	return cmd, func() {
		t.Helper()
		if err := errors.Join(held.Close(), left.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
			t.Fatal(err)
		}
		if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("something of it still runs: %v", err)
		}
	}
}

// TestOutput: output is taken up to the limit, and ends the program one byte past
// it, with all that it has started, however long it would go on.
func TestOutput(t *testing.T) {
	for _, c := range []struct {
		script, want string
		over         bool
	}{
		{"true", "", false},
		{"printf 12345678", "12345678", false},
		{"printf 123456789; sleep 600 & sleep 600", "12345678", true},
		{"yes", "y\ny\ny\ny\n", true},
	} {
		cmd, gone := shell(t.Context(), t, c.script)
		out, err := process.Run(cmd, 8)
		if string(out) != c.want || errors.Is(err, process.ErrOutput) != c.over || !c.over && err != nil {
			t.Errorf("%s: %q, %v", c.script, out, err)
		}
		gone()
	}
}

// TestEndOfContext: with the context the program ends, and what it has started.
func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, gone := shell(ctx, t, "sleep 600 & echo on >&2; wait")
	words, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = says
	go func() {
		_, _ = words.Read(make([]byte, 1)) // it runs
		cancel()
	}()
	if out, err := process.Run(cmd, 8); err == nil || len(out) > 0 || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%q, %v", out, err)
	}
	gone()
}

// TestNotStarted: a program that is not there has no process.
func TestNotStarted(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/no/such/program")
	if _, err := process.Run(cmd, 8); err == nil || cmd.Process != nil {
		t.Errorf("process %v, %v", cmd.Process, err)
	}
}

// TestHead keeps the beginning, however it is cut, and takes the rest.
func TestHead(t *testing.T) {
	const text = "the beginning and the rest"
	for _, limit := range []int{0, 1, 13, len(text) - 1, len(text), len(text) + 1} {
		for piece := 1; piece <= len(text); piece++ {
			h := &process.Head{Limit: limit}
			if n, err := io.CopyBuffer(h, struct{ io.Reader }{strings.NewReader(text)}, make([]byte, piece)); n != int64(len(text)) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if string(h.Text) != text[:min(limit, len(text))] || h.Cut != (limit < len(text)) {
				t.Errorf("limit %d in pieces of %d: %q, cut %v", limit, piece, h.Text, h.Cut)
			}
		}
	}
}
