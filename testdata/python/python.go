// Package python finds a Python for the package in api/python.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"recoveryledger/testdata/needs"
)

// Interpreter returns the path of a Python, of version 3.10 or later, that has the library
// cryptography. The first python3 in PATH may be another one than the system's. Without any the
// test skips; where CI is set it fails.
func Interpreter(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{os.Getenv("PYTHON"), "python3", "/usr/bin/python3", "/usr/local/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		const needed = "import sys, cryptography; assert sys.version_info >= (3, 10)"
		if exec.CommandContext(tb.Context(), path, "-c", needed).Run() == nil {
			return path
		}
	}
	needs.Missing(tb, "python3 with cryptography", "install the package python3-cryptography", "the package in api/python is not run")
	return ""
}

// Setenv sets what a Python needs that imports the package, for the test and what it starts. What
// Python compiles is kept under bin: the tree stays as it is, and no start compiles it again.
func Setenv(t *testing.T) {
	t.Helper()
	for name, value := range environment() {
		t.Setenv(name, value)
	}
}

// Environ returns the environment of the process with what [Setenv] sets, for a test in parallel.
func Environ() []string {
	all := os.Environ()
	for name, value := range environment() {
		all = append(all, name+"="+value)
	}
	return all
}

func environment() map[string]string {
	return map[string]string{"PYTHONPATH": Dir(), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": filepath.Join(needs.Root(), "bin", "test", "python")}
}

// Dir is the folder of the package.
func Dir() string {
	return filepath.Join(needs.Root(), "api", "python")
}
