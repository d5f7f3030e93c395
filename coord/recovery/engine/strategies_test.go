package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
	"recoveryledger/ledger/entry"
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
			all, err := program.DecodeStrategies("strategies.yaml", []byte("triage: [./triage, now]\n"), p, where)
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

// strategiesGateOf is what a report says of strategies that are not registered.
func strategiesGateOf(t *testing.T, r *Report) (verdict Verdict, cases int64) {
	t.Helper()
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Gate == gateStrategies {
			if g.Value != nil {
				cases = *g.Value
			}
			return g.Verdict, cases
		}
	}
	t.Fatal("no such gate")
	return "", 0
}

// Where a ladder decided in place of a strategy that nobody registered, no report
// promotes: the gate is unknown, and so is that of a run which is compared with it.
// A strategy that no case needed is named, and stands in nobody's way. All of it is
// replayed.
func TestMissingStrategyIsNoPass(t *testing.T) {
	rule := func(id, class, strategy string) string {
		return fmt.Sprintf("    - id: %s\n      when: class == %q && task_type != \"refund\"\n      strategy: %s\n      ladder:\n        - { "+
			"strategy: retry }\n        - { strategy: escalate }\n", id, class, strategy)
	}
	document := strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n", `
  strategies:
    - { name: triage, version: "2", capabilities: [retry, escalate] }
    - { name: oracle, version: "1", capabilities: [retry, escalate] }
  rules:
`+rule("a", "transient", "triage")+rule("b", "crash", "oracle"), 1)
	document = regexp.MustCompile(`cases_min: \d+`).ReplaceAllString(document, "cases_min: 1")
	p, err := recovery.Load("policy.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	triage := []recovery.RecoveryStrategy{&program.Command{Argv: []string{"sh", "-c", `echo '{"strategy":"retry"}'`}, Is: p.Strategies()[0]}}
	failing := func(class, code string) string {
		return fmt.Sprintf(`{"v":1,"id":%q,"agent":"x","steps":[{"id":"s","effect":"none","outcome":"failed","cost_micro_usd":1,"latency_ms":1,`+
			`"failure":{"class":%q,"code":%q},"attempts":[{"strategy":"retry","outcome":"ok","cost_micro_usd":1,"latency_ms":1}]}]}`+"\n", class, class, code)
	}
	both := failing("transient", "timeout") + failing("crash", "oom")
	var incomplete *Baseline
	for _, c := range []struct {
		desc, scenario string
		registered     []recovery.RecoveryStrategy
		missing        []string
		verdict        Verdict
		cases          int64
		want           Recommendation
	}{
		{"none is registered", both, nil, []string{"triage", "oracle"}, Unknown, 2, Inconclusive},
		{"one is", both, triage, []string{"oracle"}, Unknown, 1, Inconclusive},
		{"the other one is not needed", failing("transient", "timeout"), triage, []string{"oracle"}, Pass, 0, Promote},
	} {
		t.Run(c.desc, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			r := newTestRun(t, c.scenario, dir)
			r.Policy, r.Strategies = p, c.registered
			report, err := r.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			verdict, cases := strategiesGateOf(t, &report)
			if verdict != c.verdict || cases != c.cases || report.Recommendation != c.want || !slices.Equal(report.MissingStrategies, c.missing) {
				t.Errorf("%s, gate %s with %d cases, missing %v; want %s, %s, %d, %v", report.Recommendation, verdict, cases, report.MissingStrategies,
					c.want, c.verdict, c.cases, c.missing)
			}
			if !strings.Contains(report.Summary(), "> not registered: "+strings.Join(c.missing, ", ")) {
				t.Errorf("the summary does not say so:\n%s", report.Summary())
			}
			compared, err := Replay(t.Context(), dir, ReplayOptions{Scenario: r.Scenario})
			if err != nil || compared.Match != Matches || !slices.Equal(compared.MissingStrategies, c.missing) {
				t.Errorf("replay %+v, %v", compared, err)
			}
			if incomplete == nil {
				incomplete = NewBaseline(&report, entry.DigestOf("baseline"))
			}
		})
	}
	incomplete.Classes = slices.DeleteFunc(incomplete.Classes, func(c BaselineClass) bool { return c.Class == "crash" })
	r := newTestRun(t, failing("transient", "timeout"), filepath.Join(t.TempDir(), "run"))
	r.Policy, r.Strategies, r.Baseline = p, triage, incomplete
	if _, err := r.Do(t.Context()); !errors.Is(err, ErrOtherCases) {
		t.Errorf("a baseline of other cases: %v", err)
	}
	incomplete.ScenarioDigest = "" // as of no file of cases
	r = newTestRun(t, failing("transient", "timeout"), filepath.Join(t.TempDir(), "run"))
	r.Policy, r.Strategies, r.Baseline = p, triage, incomplete
	if report, err := r.Do(t.Context()); err != nil || verdicts(&report)["baseline"] != Unknown || report.Recommendation != Inconclusive {
		t.Errorf("%s, gates %+v, %v", report.Recommendation, report.Gates, err)
	}
}

// A strategy that answers with what stands for no answer has given none, at once
// and in the replay.
func TestAnswerThatStandsForNone(t *testing.T) {
	p := triagePolicy(t)
	for _, reason := range []recovery.Reason{recovery.ReasonStrategyFailed, recovery.ReasonStrategyMissing} {
		dir := filepath.Join(t.TempDir(), "run")
		r := newTestRun(t, string(fixture(t)), dir)
		about := p.Strategies()[0]
		about.Capabilities = append(about.Capabilities, recovery.Escalate)
		document := strings.Replace(string(p.JSON()), `"capabilities":["retry","fallback_model"]`, `"capabilities":["retry","fallback_model","escalate"]`, 1)
		policy, err := recovery.Load("policy.json", []byte(`{"recovery":`+document+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Policy = policy
		r.Strategies = []recovery.RecoveryStrategy{&program.Command{Argv: []string{"echo", fmt.Sprintf(`{"strategy":"escalate","reason":%q}`, reason)}, Is: about}}
		if _, err := r.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if compared, err := Replay(t.Context(), dir, ReplayOptions{}); err != nil || compared.Match != Matches {
			t.Errorf("%s: replay %+v, %v", reason, compared, err)
		}
	}
}
