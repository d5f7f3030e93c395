//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/testdata/jsverify"
)

// TestConformancePage runs the command of docs/conformance.md, as a reader of a checkout does.
func TestConformancePage(t *testing.T) {
	node := jsverify.Node(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "arl")); err != nil {
		t.Fatal(err)
	}
	junit := filepath.Join(bin, "report.xml")
	arl := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "arl"), append([]string{"conformance", "verifier"}, args...)...)
		cmd.Dir = root
		out, _ := cmd.CombinedOutput() // its exit code is looked at
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := arl("--junit", junit, "--", node, "verify/js/judge.js")
	if code != 0 || !strings.Contains(out, " passed, 0 failed, ") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `<testcase classname="`) {
		t.Errorf("%v: %.200s", err, text)
	}
	for name, c := range map[string]struct {
		want string
		code int
		args []string
	}{
		"a report that is there": {"report.xml", 6, []string{"--junit", junit, "--", "true"}},
		"no vectors":             {"--vectors nowhere", 2, []string{"--vectors", "nowhere", "--", "true"}},
		"no time":                {"--limit 0s: want", 2, []string{"--limit", "0s", "--", "true"}},
		"no program":             {"PROGRAM", 2, nil},
		"it ends at once":        {"cases failed", 5, []string{"--", "true"}},
	} {
		if out, code := arl(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, c.code, c.want, out[max(0, len(out)-500):])
		}
	}
}
