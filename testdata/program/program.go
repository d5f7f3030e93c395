// Package program gives the tests of a room the program arl, which the room runs as a process.
// The tests of cmd/arl do without: their test binary is the program.
//
//	func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Main builds arl, puts its folder first on the path, runs the tests, and returns their exit code.
// Where the race detector watches the tests, the detector watches arl, too. The temporary directory
// of the tests is removed at the end, since a killed process leaves its files there.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "arl-test-")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the temporary directory
	args := []string{"build", "-o", filepath.Join(dir, "bin", "arl")}
	if raced {
		args = append(args, "-race")
	}
	build := exec.CommandContext(context.Background(), "go", append(args, "./cmd/arl")...)
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		return failed(fmt.Errorf("build arl: %w\n%s", err, out))
	}
	err = errors.Join(
		os.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH")),
		os.Setenv("TMPDIR", dir),
		// A process that the race detector watches would sleep a second at its end.
		os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=10 "+os.Getenv("GORACE")))
	if err != nil {
		return failed(err)
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Root is the folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Arl returns the path of the program.
func Arl(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("arl")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
