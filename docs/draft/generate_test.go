// Package draft_test holds the Internet-Draft to the code. What the draft includes, its CDDL,
// tables and worked example, is made here and compared; go test -update writes it. Each normative
// statement names the tests that hold the implementation to it.
package draft_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

var update = flag.Bool("update", false, "write what the draft includes anew; read the difference")

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// same compares a file beside the draft with what it should hold.
func same(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.FromSlash(name)
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(want), 0o644))
	}
	is, err := os.ReadFile(path)
	if err != nil || string(is) != want {
		t.Errorf("docs/draft/%s is not what the code says: go test ./docs/draft -update (%v)", name, err)
	}
}

// TestProblems makes the list of problem types.
func TestProblems(t *testing.T) {
	var b strings.Builder
	for _, p := range api.Types() {
		line := fmt.Sprintf("%-20s %d %s", p.Name, p.Status, p.Title)
		if len(line) > 69 {
			i := strings.LastIndex(line[:69], " ")
			line = line[:i] + "\n" + strings.Repeat(" ", 25) + line[i+1:]
		}
		b.WriteString(line + "\n")
	}
	same(t, "generated/problems.txt", b.String())
}

// TestCodes makes the list of failure classes and codes. A code with an asterisk needs evidence.
func TestCodes(t *testing.T) {
	var b strings.Builder
	for _, class := range entry.Classes() {
		line := fmt.Sprintf("%-10s", class)
		for _, code := range entry.Codes(class) {
			if entry.NeedsEvidence(class, code) {
				code += "*"
			}
			if len(line)+1+len(code) > 69 {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", 10)
			}
			line += " " + code
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	same(t, "generated/codes.txt", b.String())
}

// TestEffects lets the fold say for each progress and effect how a member is undone.
// Draft: SCO-4.
func TestEffects(t *testing.T) {
	effects := []entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared}
	var b strings.Builder
	b.WriteString("| progress |")
	for _, effect := range effects {
		fmt.Fprintf(&b, " %s |", effect)
	}
	b.WriteString("\n|---|---|---|---|---|---|\n")
	for _, progress := range []entry.Progress{entry.Planned, entry.Cancelled, entry.Started, entry.Failed, entry.Confirmed} {
		fmt.Fprintf(&b, "| %s |", progress)
		for _, effect := range effects {
			fmt.Fprintf(&b, " %s |", methodOf(t, progress, effect))
		}
		b.WriteString("\n")
	}
	same(t, "generated/effects.md", b.String())
}

// methodOf puts an execution into a log and asks for the plan that begins with it.
func methodOf(t *testing.T, progress entry.Progress, effect entry.Effect) string {
	t.Helper()
	l := foldlog.New(t)
	l.Put("a", &entry.Checkpoint{Checkpoint: "cp", Digest: foldlog.Digest("1")})
	steps := []entry.Progress{entry.Planned, entry.Started, progress}
	if progress == entry.Planned || progress == entry.Cancelled {
		steps = []entry.Progress{entry.Planned, progress}
	}
	var last entry.Progress
	for _, step := range steps {
		if step == last {
			continue
		}
		x := foldlog.Execution("make", effect)
		x.Progress, last = step, step
		l.Put("a", x)
	}
	plan, ok := l.State.Preview(l.Signal("a", "a#make"), nil, l.At)
	if !ok || len(plan.Members) != 1 {
		t.Fatalf("%s, %s: plan %+v", progress, effect, plan)
	}
	m := plan.Members[0]
	if m.Drain {
		return "drain, " + string(m.Method)
	}
	return string(m.Method)
}
