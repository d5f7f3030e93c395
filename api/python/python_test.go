//go:build unix

// Package python_test runs the tests of the package for Python, at ledgers of this arl.
package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
	"recoveryledger/testdata/program"
	"recoveryledger/testdata/python"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestPythonChaos runs the tests of the package. A sample of the points of a life at which a
// process is killed is tried, every one where the budget is large.
func TestPythonChaos(t *testing.T) {
	budget.Unraced(t, "the program is written in Python; its ledger does what those of cmd/arl do")
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), python.Interpreter(t), "-W", "error", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	cmd.Env = append(python.Environ(), "ARL="+program.Arl(t))
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`\nRan [1-9][0-9]+ tests in .*\n\nOK\n$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPythonConforms holds the package to the draft: its verifier by the vectors, and its agent by
// every case.
func TestPythonConforms(t *testing.T) {
	budget.Unraced(t, "the program is written in Python; its ledger does what those of cmd/arl do")
	t.Parallel()
	interpreter := python.Interpreter(t)
	agent := []string{"agent", "--limit", "60s", "--", interpreter, filepath.Join("tests", "kit_agent.py")}
	verifier := []string{"verifier", "--limit", "60s", "--vectors", filepath.Join(needs.Root(), "testdata", "vectors"), "--", interpreter, "-m", "recoveryledger.verify.judge"}
	for _, args := range [][]string{agent, verifier} {
		cmd := exec.CommandContext(t.Context(), program.Arl(t), append([]string{"conformance"}, args...)...)
		cmd.Env = python.Environ()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), " passed, 0 failed, 0 not applicable") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
