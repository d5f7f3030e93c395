package program

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Folder is a directory in which a test runs commands of arl. The profiles are in it, too.
type Folder struct {
	t   *testing.T
	dir string
}

// NewFolder returns an empty directory, which the end of the test removes.
func NewFolder(t *testing.T) Folder {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return Folder{t, t.TempDir()}
}

// Path returns the path of a file in the directory.
func (f Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// Command returns a command of arl that was not started.
func (f Folder) Command(args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), Arl(f.t), args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "ARL_HOME="+f.Path("home"))
	return cmd
}

// Arl runs a command that ends with an exit code. It returns what the command prints, and what the
// command says on standard error.
func (f Folder) Arl(code int, args ...string) (out, said string) {
	f.t.Helper()
	var printed, told bytes.Buffer
	cmd := f.Command(args...)
	cmd.Stdout, cmd.Stderr = &printed, &told
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		f.t.Fatalf("arl %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, code, printed.String(), told.String())
	}
	return printed.String(), told.String()
}
