package program

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/process"
)

// triagePolicy is the default policy, which declares a strategy more.
func triagePolicy(tb testing.TB) *recovery.Policy {
	tb.Helper()
	p, err := recovery.Load("p", []byte(strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n",
		"\n  strategies: [{ name: triage, version: \"1\", capabilities: [retry] }]\n  rules:\n", 1)))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A program is asked with a question on its standard input; what is no action is
// no answer, and neither is silence.
func TestExternalCommand(t *testing.T) {
	q := recovery.Case{History: &recovery.History{Case: "c", Failure: recovery.Failure{Class: "tool", Code: "error"}}, ElapsedMS: 7}
	for _, test := range []struct{ script, want string }{
		{`grep -q '"case":"c".*"class":"tool".*' && echo '{"strategy":"retry_altered","variant":"reflect","reason":"told"}'`, ""},
		{`cat >/dev/null; echo '{"strategy":"pray"}'`, `not an action: field /strategy: is "pray"`},
		{`echo '{"strategy":"retry","reason":"x"} and more'`, "not an action"},
		{`echo '{"strategy":"retry","extra":1}'`, "is not a member"},
		{`echo '{"strategy":"retry","variant":"reflect"}'`, "write it with retry_altered"},
		{`echo '{"strategy":"state_reset"}'`, "write it with state_reset"},
		{`echo '{"strategy":"wait","wait_ms":1.5}'`, "not an integer"},
		{``, "not an action"},
		{`echo out of luck >&2; exit 3`, "exit status 3: out of luck"},
		{`sleep 100`, "no answer within 1s"},
		{`yes`, "past 65536 bytes"},
	} {
		command := &Command{Argv: []string{"sh", "-c", test.script}, Is: recovery.About{TimeoutMS: 1000}}
		a, err := command.Recover(t.Context(), q)
		switch {
		case test.want == "" && (err != nil || a != recovery.Action{Strategy: recovery.RetryAltered, Variant: recovery.Reflect, Reason: "told"}):
			t.Errorf("%s: %+v, %v", test.script, a, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.script, err, test.want)
		}
	}
	if _, err := (&Command{Argv: []string{filepath.Join(t.TempDir(), "missing")}}).Recover(t.Context(), q); err == nil {
		t.Error("a program that is not there answers")
	}
}

// A program beside a file of strategies in the current directory is found, and not
// another of its name in PATH.
func TestProgramIsBesideItsFile(t *testing.T) {
	for _, c := range []struct{ program, where, want string }{
		{"./triage", ".", "./triage"}, {"sub/../triage", ".", "./triage"}, {"../x/triage", "x", "x/triage"},
		{"./triage", "conf", "conf/triage"}, {"triage", "conf", "triage"}, {"/bin/triage", "conf", "/bin/triage"},
	} {
		if got := process.Program(c.program, c.where); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.program, c.where, got, c.want)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("triage", []byte("#!/bin/sh\necho '{\"strategy\":\"retry\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := DecodeStrategies("strategies.yaml", []byte("triage: [./triage]\n"), triagePolicy(t), ".")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := all[0].Recover(t.Context(), recovery.Case{History: &recovery.History{}}); err != nil || a.Strategy != recovery.Retry {
		t.Errorf("%+v, %v", a, err)
	}
}

// A file of strategies that names what the policy does not declare, or no
// program, is refused with line and remedy; at the limit of its size it is read.
func TestDecodeStrategiesRefuses(t *testing.T) {
	p := triagePolicy(t)
	for _, c := range []struct{ doc, want string }{
		{"# mine\ntraige: [sh]\n", `s.yaml: line 2: field /traige: "traige" is no strategy that the policy declares (malformed); did you mean triage?`},
		{"oracle: [sh]\n", "declare it in the policy"},
		{"triage: []\n", "line 1: field /triage: has no program"},
		{"triage: [./not-there]\n", `"./not-there" is not a program`},
		{"triage: sh\n", "line 1: field /triage: holds a string and not an array"},
		{"triage: [sh]\ntriage: [sh]\n", `line 2: is not a list of strategies in YAML: mapping key "triage" already defined`},
		{"triage: [sh, 7]\n", "line 1: field /triage/1: holds a number and not a string"},
		{"triage: [sh, \xff]\n", "not UTF-8"},
		{"", "is no list of strategies"},
		{"- triage\n", "holds an array and not an object"},
		{"triage: [sh]\n#" + strings.Repeat("x", strategiesMax-14), ""},
		{"triage: [sh]\n#" + strings.Repeat("x", strategiesMax-13), "has more than 65536 bytes"},
	} {
		all, err := DecodeStrategies("s.yaml", []byte(c.doc), p, t.TempDir())
		wrong, typed := errors.AsType[*scenario.Error](err)
		switch {
		case c.want == "" && (err != nil || len(all) != 1):
			t.Errorf("%.40q: %v", c.doc, err)
		case c.want != "" && (!typed || wrong.File != "s.yaml" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.40q: %v\nwant %s", c.doc, err, c.want)
		}
	}
}

// FuzzDecodeStrategies: what is read is a list of strategies that the policy
// declares, each with a program.
func FuzzDecodeStrategies(f *testing.F) {
	f.Add([]byte("triage: [sh, -c, true]\n"))
	f.Add([]byte("traige: [sh]\n"))
	f.Add([]byte("0\x00\x80000: !0000 00000"))
	f.Add([]byte("triage: &a [sh]\nother: *a\n"))
	p := triagePolicy(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		all, err := DecodeStrategies("s.yaml", doc, p, ".")
		for _, s := range all {
			if c, ok := s.(*Command); err != nil || !ok || c.Is.Name != "triage" || len(c.Argv) == 0 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
	})
}
