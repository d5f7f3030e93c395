//go:build unix

package js_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/needs"
	"recoveryledger/testdata/program"
)

// TestJavaScriptIsInstalled installs the package in fresh folders, without the registry: as the
// page says, and as the tarball of make js. The first page is then followed with the package as it
// was installed.
func TestJavaScriptIsInstalled(t *testing.T) {
	budget.Unraced(t, "the program is written in JavaScript; its ledger does what those of cmd/arl do")
	t.Parallel()
	npm, node := needs.Program(t, "npm", "npm", "the package in api/js is not installed"), jsverify.Node(t)
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Install\n\n```\n")
	command, _, found := strings.Cut(section, "\n```")
	words := strings.Fields(command)
	if !found || len(words) != 3 || words[0] != "npm" {
		t.Fatalf("the page installs the package by %q", command)
	}
	dir := t.TempDir()
	for _, part := range []string{"api/js/package.json", "api/js/README.md", "api/js/src", "verify/js/package.json", "verify/js/src"} { // as in a checkout, where src/verify is a link
		copyTree(t, filepath.Join(needs.Root(), part), filepath.Join(dir, part))
	}
	run := func(in string, words ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_cache="+filepath.Join(dir, "cache"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", words, err, out)
		}
	}
	words[0] = npm
	run(dir, words...)
	packed, fresh := t.TempDir(), t.TempDir() // npm would install into a folder above that has packages
	run(dir, "cp", "-RL", filepath.Join(dir, "api", "js"), filepath.Join(packed, "recoveryledger"))
	run(packed, npm, "pack", "./recoveryledger")
	tarball, err := filepath.Glob(filepath.Join(packed, "recoveryledger-*.tgz"))
	if err != nil || len(tarball) != 1 {
		t.Fatal(tarball, err)
	}
	run(fresh, npm, "install", tarball[0])
	if err := os.RemoveAll(packed); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, fresh} {
		cmd := exec.CommandContext(t.Context(), node, "--test", "test/first_page.test.js")
		cmd.Env = append(os.Environ(), "ARL="+program.Arl(t), "INSTALLED="+filepath.Join(at, "node_modules", "recoveryledger"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", at, err, out)
		}
	}
}

// copyTree copies a file or a folder, with its links as links.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = exec.CommandContext(t.Context(), "cp", "-R", from, to).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
}
