//go:build unix

package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"recoveryledger/coord/recovery"
)

// What a program has started and left behind ends with its answer.
func TestExternalCommandLeavesNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command := &Command{Argv: []string{"sh", "-c", "exec 3>" + pipe + "; sleep 600 >/dev/null 2>&1 & exec 3>&-; echo '{\"strategy\":\"retry\"}'"}}
	if a, err := command.Recover(t.Context(), recovery.Case{History: &recovery.History{Case: "c"}}); err != nil || a.Strategy != recovery.Retry {
		t.Errorf("%+v, %v", a, err)
	}
	if err := errors.Join(held.Close(), reader.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("something of it still runs: %v", err)
	}
}
