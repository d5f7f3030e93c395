package terminal

import (
	"io"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
)

// A directory is no input, and an error of the command line.
func TestADirectoryIsNoInput(t *testing.T) {
	dir := t.TempDir()
	err := new(Terminal).WithInput(dir, func(io.Reader) error { return nil })
	if exit.Code(err) != exit.Usage || err == nil || !strings.Contains(err.Error(), "is a directory: name the files in it") {
		t.Errorf("exit code %d, %v", exit.Code(err), err)
	}
}
