//go:build unix

// Package js_test runs the tests of the package for JavaScript, at ledgers of this arl.
package js_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestJavaScriptChaos runs the tests of the package. A sample of the points of a life at which a
// process is killed is tried, every one where the budget is large.
func TestJavaScriptChaos(t *testing.T) {
	budget.Unraced(t, "the program is written in JavaScript; its ledger does what those of cmd/arl do")
	t.Parallel()
	files, err := filepath.Glob("test/*.test.js")
	if err != nil {
		t.Fatal(err)
	}
	node, arl := jsverify.Node(t), program.Arl(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=tap", file)
			cmd.Env = append(os.Environ(), "ARL="+arl)
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile(`\n# pass [1-9][0-9]*\n# fail 0\n# cancelled 0\n`).Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if len(files) == 0 {
		t.Error("no test")
	}
}

// TestJavaScriptConforms holds the agent of the package to the draft, by every case. TestVerifiers
// does so with the verifier.
func TestJavaScriptConforms(t *testing.T) {
	budget.Unraced(t, "the program is written in JavaScript; its ledger does what those of cmd/arl do")
	t.Parallel()
	args := []string{"conformance", "agent", "--limit", "60s", "--", jsverify.Node(t), filepath.Join("test", "kit_agent.js")}
	out, err := exec.CommandContext(t.Context(), program.Arl(t), args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " passed, 0 failed, 0 not applicable") {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}
