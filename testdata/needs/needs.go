// Package needs finds the programs of others that a test runs. Without the program the test skips,
// so that a build needs Go alone; where CI is set the test fails, so that nothing stays untried
// unseen.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package needs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Root is the folder of the repository, above the working directory: a test runs in the folder of
// its package. It panics elsewhere.
func Root() string {
	at, err := os.Getwd()
	for err == nil {
		module, absent := os.ReadFile(filepath.Join(at, "go.mod"))
		if absent == nil && bytes.HasPrefix(module, []byte("module recoveryledger\n")) {
			return at
		}
		if filepath.Dir(at) == at {
			panic("no go.mod of the repository is above the working directory")
		}
		at = filepath.Dir(at)
	}
	panic(err)
}

// Go returns the command go with its arguments, in the working directory. It compiles without cgo,
// also where the tests have it for the race detector: a package that make build or make test has
// compiled is not compiled again.
func Go(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	return command
}

// Program returns the path of a program, which is in a package of Debian. Without the program,
// [Missing] ends the test: the consequence is that of Missing.
func Program(tb testing.TB, name, pkg, consequence string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(tb, name, "install the package "+pkg, consequence)
	}
	return path
}

// Missing ends the test for want of something: remedy says how to get it, for example "install the
// package nodejs", and consequence what is not tried without it.
func Missing(tb testing.TB, what, remedy, consequence string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf("missing: %s: %s", what, remedy)
	}
	tb.Skipf("missing: %s: %s", what, consequence)
}
