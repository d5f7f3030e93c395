package bundle_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/python"
)

// TestPackagesAgreeChaos has the packages in api/python and api/js judge random changes of bundles
// for an agent: verdict, rule, commands and what is accepted from then on are those of Go. Each
// part has its seed, so that -run with ARL_SEED repeats one part.
func TestPackagesAgreeChaos(t *testing.T) {
	python.Setenv(t)
	packages := map[string]*jsverify.Judge{}
	t.Run("Python", func(found *testing.T) {
		packages["Python"] = jsverify.StartProgram(t, python.Interpreter(found), "-m", "recoveryledger.verify.judge")
	})
	t.Run("JavaScript", func(found *testing.T) {
		judge := filepath.Join(jsverify.Dir(), "..", "..", "api", "js", "test", "judge.js")
		packages["JavaScript"] = jsverify.StartProgram(t, jsverify.Node(found), "--no-warnings", judge)
	})
	parts, count := budget.Budget{Short: 1, Usual: 1, Chaos: 20}.Now(), budget.Budget{Short: 100, Usual: 150, Chaos: 5000}.Now()
	seed, cases := budget.Seed(t), encodedCases(t, count)
	for part := range uint64(parts) {
		t.Run(fmt.Sprintf("part %d", part), func(t *testing.T) {
			rules := changesOf(t, cases, seed+part, count, func(c madeCase) string { return agreesWithPackages(t, packages, c) })
			t.Logf("seed %d, %d bundles: %v", seed+part, count, rules)
		})
	}
}

// agreesWithPackages compares the verdicts, but for what a package does not say: act, decision,
// chains and waits. The packages and Go judge at the same time.
func agreesWithPackages(t *testing.T, packages map[string]*jsverify.Judge, c madeCase) (refused string) {
	t.Helper()
	accepted := encoded(t, &c.accepted)
	for _, second := range packages {
		second.Send(jsverify.Bundle{Bundle: c.data, Accepted: accepted, Now: c.now})
	}
	want := judge(t, c.data, c.accepted, c.now)
	want.Act, want.Decision = "", nil
	for i := range want.Commands {
		want.Commands[i].Chain, want.Commands[i].Waits = nil, nil
	}
	plainly(&want)
	for language, second := range packages {
		var got judged
		second.Receive(&got)
		plainly(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: Go has -, the package in %s +:\n%s\nbundle %q\naccepted %s\nnow %d", c.name, language, diff, c.data, accepted, c.now)
		}
	}
	return want.Refused
}
