//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"recoveryledger/testdata/python"
)

// TestPython runs the tests of the package in api/python, at ledgers of this arl.
func TestPython(t *testing.T) {
	t.Parallel()
	arl, err := exec.LookPath("arl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python.Interpreter(t), "-W", "error", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	cmd.Dir = python.Dir()
	cmd.Env = append(os.Environ(), "ARL="+arl, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`\nRan [1-9][0-9]+ tests in .*\n\nOK\n$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
