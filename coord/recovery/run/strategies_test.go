package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"recoveryledger/coord/recovery"
)

// triagePolicy is the default one with a rule in front that names a strategy for
// the failures of one class in tasks of one type.
func triagePolicy(t *testing.T) *recovery.Policy {
	t.Helper()
	document := strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n", `
  strategies:
    - { name: triage, version: "2", capabilities: [retry, fallback_model], timeout_ms: 5000 }
  rules:
    - id: triaged
      when: class == "transient" && task_type != "refund"
      strategy: triage
      ladder:
        - { strategy: retry, max: 2, backoff: { base_ms: 10, factor: 2, max_ms: 100 } }
        - { strategy: escalate }
`, 1)
	p, err := recovery.Load("policy.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A strategy that is added by configuration alone, a policy that names it and a
// file that says which program it is, decides where its rule matches. A program
// that fails leaves it to the ladder; the trace and the notices say so, and both
// runs are replayed without asking.
func TestStrategyByConfigurationAlone(t *testing.T) {
	for _, c := range []struct{ desc, script, rule, reason string }{
		{"it answers", `grep -q '"class":"transient"' && echo '{"strategy":"retry","reason":"told"}'`, "triage", "told"},
		{"it crashes", `echo out of luck >&2; exit 3`, "triaged", "strategy_failed"},
		{"it answers what it does not declare", `echo '{"strategy":"abort"}'`, "triaged", "strategy_failed"},
		{"it answers against the schema", `echo '{"strategy":"retry","cost":0.5}'`, "triaged", "strategy_failed"},
	} {
		t.Run(c.desc, func(t *testing.T) {
			where := t.TempDir()
			if err := os.WriteFile(filepath.Join(where, "triage"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			p := triagePolicy(t)
			all, err := DecodeStrategies("strategies.yaml", []byte("triage: [./triage, now]\n"), p, where)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "run")
			r := newTestRun(t, string(fixture(t)), dir)
			var mu sync.Mutex
			notices := 0
			r.Policy, r.Strategies, r.Notice = p, all, func(error) { mu.Lock(); notices++; mu.Unlock() }
			if _, err := r.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			traces := content(t, dir)[TracesFile]
			asked := strings.Count(traces, `"rule":"`+c.rule+`"`)
			if asked < 3 || !strings.Contains(traces, `"reason":"`+c.reason+`"`) || (notices > 0) != (c.reason == "strategy_failed") {
				t.Errorf("%d rungs of %s, %d notices; reason %s: %v", asked, c.rule, notices, c.reason, strings.Contains(traces, c.reason))
			}
			if err := os.Remove(filepath.Join(where, "triage")); err != nil {
				t.Fatal(err)
			}
			compared, err := Replay(t.Context(), dir, ReplayOptions{})
			if err != nil || compared.Match != Matches {
				t.Errorf("replay %+v, %v", compared, err)
			}
		})
	}
}

// A program beside a file of strategies in the current directory is found, and not
// another of its name in PATH.
func TestProgramIsBesideItsFile(t *testing.T) {
	for _, c := range []struct{ program, where, want string }{
		{"./triage", ".", "./triage"}, {"sub/../triage", ".", "./triage"}, {"../x/triage", "x", "x/triage"},
		{"./triage", "conf", "conf/triage"}, {"triage", "conf", "triage"}, {"/bin/triage", "conf", "/bin/triage"},
	} {
		if got := programAt(c.program, c.where); got != c.want {
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
		{"triage: [./not-there]\n", `"./not-there" is no program`},
		{"triage: sh\n", "is no list of strategies"},
		{"triage: [sh]\ntriage: [sh]\n", "line 2: field /triage: stands here twice"},
		{"triage: [sh, 7]\n", "argument that is no text"},
		{"triage: [sh, \xff]\n", "not UTF-8"},
		{"", "is no list of strategies"},
		{"- triage\n", "is no list of strategies"},
		{"triage: [sh]\n#" + strings.Repeat("x", strategiesBytesMax-14), ""},
		{"triage: [sh]\n#" + strings.Repeat("x", strategiesBytesMax-13), "is larger than 65536 bytes"},
	} {
		all, err := DecodeStrategies("s.yaml", []byte(c.doc), p, t.TempDir())
		wrong, typed := errors.AsType[*Error](err)
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
	p, err := recovery.Load("p", []byte(strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n",
		"\n  strategies: [{ name: triage, version: \"1\", capabilities: [retry] }]\n  rules:\n", 1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		all, err := DecodeStrategies("s.yaml", doc, p, ".")
		for _, s := range all {
			if c, ok := s.(*Command); err != nil || !ok || c.Is.Name != "triage" || len(c.Argv) == 0 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
	})
}
