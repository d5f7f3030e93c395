//go:build unix

package kits_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api/conformance"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/needs"
	"recoveryledger/testdata/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestConformancePage runs the command of docs/conformance.md, as a reader of a checkout does.
func TestConformancePage(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	t.Parallel()
	node := jsverify.Node(t)
	junit := filepath.Join(t.TempDir(), "report.xml")
	arl := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), program.Arl(t), append([]string{"conformance", "verifier"}, args...)...)
		cmd.Dir = needs.Root()
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
		"a report that cannot be written": {"the program does not start", 74, []string{"--junit", filepath.Join(junit, "nowhere"), "--", "/nowhere/verifier"}},
		"a report that is there":          {"report.xml", 6, []string{"--junit", junit, "--", "true"}},
		"no vectors":                      {"--vectors nowhere", 2, []string{"--vectors", "nowhere", "--", "true"}},
		"no time":                         {"--limit 0s: want", 2, []string{"--limit", "0s", "--", "true"}},
		"no program":                      {"PROGRAM", 2, nil},
		"it ends at once":                 {"cases failed", 5, []string{"--", "true"}},
	} {
		if out, code := arl(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, c.code, c.want, out[max(0, len(out)-500):])
		}
	}
}

// tutorialProgram writes the program that docs/tutorial.md shows as undo.py.
func tutorialProgram(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(needs.Root(), "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, shown := strings.Cut(string(page), "\n```python file=undo.py\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !shown || !closed {
		t.Fatal("docs/tutorial.md shows no undo.py")
	}
	path := filepath.Join(t.TempDir(), "undo.py")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts arl serve in a directory, until the test ends, and returns its URL.
func serve(t *testing.T, dir string) (url string) {
	t.Helper()
	process := exec.CommandContext(t.Context(), program.Arl(t), "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--output", "json")
	process.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(dir, "home"))
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() }) // it may have ended
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("arl serve: %v", err)
	}
	var started struct{ URL string }
	if err := json.Unmarshal(line, &started); err != nil {
		t.Fatal(err)
	}
	return started.URL
}

// TestConformanceAgent holds arl agent listen with the program of docs/tutorial.md, and with the
// recipe for Node, to the draft: to the cases in which nobody lies, where the budget is not large.
func TestConformanceAgent(t *testing.T) {
	budget.Unraced(t, "arl agent listen runs a program, as in TestAgentListen")
	t.Parallel()
	python := needs.Program(t, "python3", "python3", "the recipes are not run")
	for _, recipe := range [][]string{{python, tutorialProgram(t)}, {jsverify.Node(t), filepath.Join(needs.Root(), "testdata", "recipes", "undo.mjs")}} {
		args := append([]string{"conformance", "agent", "--no-work", "--limit", "2m"}, "--", python, filepath.Join(needs.Root(), "testdata", "recipes", "kit.py"), program.Arl(t))
		if !budget.Large() {
			args = slices.Insert(args, 2, "--case", "undo/[cr]*")
		}
		out, err := exec.CommandContext(t.Context(), program.Arl(t), append(args, recipe...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " passed, 0 failed, ") {
			t.Errorf("%v: %v:\n%s", recipe, err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), program.Arl(t), "conformance", "agent", "--case", "[", "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--case [: want a pattern of names") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestConformanceLedger holds arl serve to what a ledger refuses and registers, as
// docs/conformance.md does: to few vectors and graphs, where the budget is not large.
func TestConformanceLedger(t *testing.T) {
	t.Parallel()
	dir, vectors := t.TempDir(), filepath.Join(needs.Root(), "testdata", "vectors")
	url := serve(t, dir)
	if !budget.Large() {
		few := filepath.Join(dir, "vectors")
		for _, group := range slices.DeleteFunc(conformance.Groups(), func(group string) bool { return group == "envelope" }) {
			if err := os.MkdirAll(filepath.Join(few, group), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(filepath.Join(few, "envelope"), os.DirFS(filepath.Join(vectors, "envelope"))); err != nil {
			t.Fatal(err)
		}
		vectors = few
	}
	out, err := exec.CommandContext(t.Context(), program.Arl(t), "conformance", "ledger", "--url", url, "--vectors", vectors).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " passed, 0 failed, ") {
		t.Errorf("%v:\n%s", err, out)
	}
	authority, err := filepath.Glob(filepath.Join(dir, "home", "keys", "*", "authority.key"))
	if err != nil || len(authority) != 1 {
		t.Fatalf("keys of the authority: %q, %v", authority, err)
	}
	arl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program.Arl(t), args...)
		cmd.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(dir, "home"))
		out, err := cmd.Output()
		return string(out), err
	}
	pinned, err := arl("root", "show")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root.json")
	if err := os.WriteFile(root, []byte(pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := arl("conformance", "ledger", "--url", url, "--vectors", vectors, "--graphs", "20", "--authority-key", authority[0], "--root", root)
	if err != nil || !strings.Contains(whole, " passed, 0 failed, ") {
		t.Errorf("%v:\n%s", err, whole)
	}
	for want, args := range map[string][]string{
		"--url ledger.example: want the URL of a ledger": {"--url", "ledger.example"}, "both --authority-key and --root": {"--url", url, "--root", root},
		"--graphs 0: want 1 or more": {"--url", url, "--graphs", "0"},
	} {
		out, err = exec.CommandContext(t.Context(), program.Arl(t), append([]string{"conformance", "ledger"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v:\n%s\nwant %q", err, out, want)
		}
	}
}
