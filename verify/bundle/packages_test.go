package bundle_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/python"
)

// TestPythonAgreesChaos has the package in api/python judge random changes of bundles for an agent:
// verdict, rule, commands and what is accepted from then on are those of Go.
func TestPythonAgreesChaos(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	t.Setenv("PYTHONPATH", python.Dir())
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	packageAgrees(t, jsverify.StartProgram(t, python.Interpreter(t), "-m", "recoveryledger.verify.judge"))
}

// TestJavaScriptPackageAgreesChaos does so with the package in api/js, which reads the verdicts of
// verify/js for its agents.
func TestJavaScriptPackageAgreesChaos(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	judge := filepath.Join(jsverify.Dir(), "..", "..", "api", "js", "test", "judge.js")
	packageAgrees(t, jsverify.StartProgram(t, jsverify.Node(t), "--no-warnings", judge))
}

func packageAgrees(t *testing.T, second *jsverify.Judge) {
	t.Helper()
	count := budget.Budget{Short: 100, Usual: 150, Chaos: 100_000}.Now()
	t.Log(changedBundles(t, count, func(c madeCase) string { return agreesWithPackage(t, second, c) }))
}

// agreesWithPackage compares two verdicts, but for what a package does not say: act, decision,
// chains and waits.
func agreesWithPackage(t *testing.T, second *jsverify.Judge, c madeCase) (refused string) {
	t.Helper()
	want, got := judge(t, c.data, c.accepted, c.now), judged{}
	second.Ask(jsverify.Bundle{Bundle: c.data, Accepted: encoded(t, &c.accepted), Now: c.now}, &got)
	want.Act, want.Decision = "", nil
	for i := range want.Commands {
		want.Commands[i].Chain, want.Commands[i].Waits = nil, nil
	}
	plainly(&want)
	plainly(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: Go has -, the package +:\n%s\nbundle %q\naccepted %s\nnow %d", c.name, diff, c.data, encoded(t, &c.accepted), c.now)
	}
	return want.Refused
}
