//go:build unix

package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
	"recoveryledger/testdata/program"
	"recoveryledger/testdata/python"
)

// TestPythonIsInstalled follows the section Install of the page, word by word and without a package
// index. The first page is then followed with the package as it was installed.
func TestPythonIsInstalled(t *testing.T) {
	budget.Unraced(t, "the program is written in Python; its ledger does what those of cmd/arl do")
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(python.Dir(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Install\n\n```console\n")
	block, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("the page has no commands that install the package")
	}
	dir, bin := t.TempDir(), t.TempDir()
	for _, part := range []string{"api/python", "ledger/entry/schema"} { // to which a link of the package leads
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(needs.Root(), part))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(builder(t), filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	script := "set -e\n" + strings.ReplaceAll("\n"+block, "\n$ ", "\n") + "cd /\npython3 -c 'import recoveryledger; print(recoveryledger.__file__)'\n"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PIP_NO_INDEX=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n"+filepath.Join(dir, "env")) {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd = exec.CommandContext(t.Context(), python.Interpreter(t), "-m", "unittest", "tests.test_first_page")
	cmd.Env = append(python.Environ(), "PYTHONPATH=", "ARL="+program.Arl(t), "INSTALLED="+filepath.Join(dir, "env", "bin", "python3"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// builder returns the path of a Python that makes environments and builds wheels without an index.
func builder(t *testing.T) string {
	t.Helper()
	for _, path := range []string{python.Interpreter(t), "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), path, "-W", "ignore", "-c", "import setuptools, cryptography, ensurepip, pip, venv, wheel").Run() == nil {
			return path
		}
	}
	needs.Missing(t, "python3 with venv, setuptools and wheel", "install the packages python3-venv, python3-setuptools and python3-wheel", "the package in api/python is not installed")
	return ""
}
