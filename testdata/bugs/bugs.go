// Package bugs plants mistakes that a person would make, to see that tests find them.
//
// A bug is a patch of one file, in testdata/bugs of a package. The first line of the patch names
// the test that finds the bug: "Found by TestX in ledger/witness."
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package bugs

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// Find plants each of the bugs in testdata/bugs, of which there are ten at least, in a copy of
// the one file that its patch is for, and with ARL_CHAOS wants the test that the patch names to
// find it: each costs a build of all that depends on the file. Top is the way to the top of the
// repository.
func Find(t *testing.T, top string) {
	patches, err := filepath.Glob("testdata/bugs/*.patch")
	if err != nil || len(patches) < 10 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) { find(t, top, patch) })
	}
}

func find(t *testing.T, top, patch string) {
	t.Helper()
	text, err := os.ReadFile(patch)
	must(t, err)
	overlay := plant(t, top, text)
	if !budget.Large() {
		return // that it still applies is all that is asked
	}
	by := regexp.MustCompile(`\AFound by (\w+) in ([a-z/]+)\.\n`).FindSubmatch(text)
	if by == nil {
		t.Fatal("the patch does not say what finds it")
	}
	run := needs.Go(t.Context(), "test", "-short", "-timeout", "2m", "-overlay", overlay, "-run", "^"+string(by[1])+"$", "./"+string(by[2]))
	run.Dir = top
	out, err := run.CombinedOutput()
	if crashed := crash.Match(out) && !bytes.Contains(out, []byte("panic: test timed out")); err == nil || !crashed && !bytes.Contains(out, []byte("--- FAIL: "+string(by[1]))) {
		t.Errorf("not found: %v\n%s", err, out)
	}
}

// crash is how a program ends that did what its own text forbids.
var crash = regexp.MustCompile(`(?m)^panic: `)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant applies a patch to a copy of its file, and returns the overlay that puts the
// copy in its place.
func plant(t *testing.T, top string, patch []byte) string {
	t.Helper()
	path := regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`).FindSubmatch(patch)
	if path == nil {
		t.Fatal("the patch names no file")
	}
	dir, file := t.TempDir(), string(path[1])
	original, err := filepath.Abs(filepath.Join(top, file))
	must(t, err)
	content, err := os.ReadFile(original)
	must(t, err)
	planted := filepath.Join(dir, file)
	must(t, os.MkdirAll(filepath.Dir(planted), 0o700))
	must(t, os.WriteFile(planted, content, 0o600))
	apply := exec.CommandContext(t.Context(), "git", "apply", "-")
	apply.Dir, apply.Stdin = dir, bytes.NewReader(patch)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("the patch no longer applies to %s: make the bug anew (%v)\n%s", file, err, out)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: planted}})
	must(t, err)
	at := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(at, overlay, 0o600))
	return at
}
