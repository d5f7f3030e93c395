//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/python"
)

// TestPythonChaos runs the tests of the package in api/python, at ledgers of this arl. A sample of the
// points of a life at which a process is killed is tried, every one where the budget is large.
func TestPythonChaos(t *testing.T) {
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

// TestPythonConformsChaos holds the package to the draft: its verifier by the vectors, and its agent by
// the cases in which nobody lies, where the budget is not large.
func TestPythonConformsChaos(t *testing.T) {
	interpreter := python.Interpreter(t)
	t.Setenv("PYTHONPATH", python.Dir())
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	agent := []string{"agent", "--limit", "30s", "--", interpreter, filepath.Join(python.Dir(), "tests", "kit_agent.py")}
	if !budget.Large() {
		agent = slices.Insert(agent, 1, "--case", "undo/[cr]*")
	}
	verifier := []string{"verifier", "--vectors", filepath.Join(root, "testdata", "vectors"), "--", interpreter, "-m", "recoveryledger.verify.judge"}
	for _, args := range [][]string{agent, verifier} {
		out, err := exec.CommandContext(t.Context(), program(t), append([]string{"conformance"}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " passed, 0 failed, 0 not applicable") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
