package adversary

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
)

// own are the cases of the fixture.
func own(t *testing.T) (all []scenario.Case) {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/tool_chain_failures.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		c, err := scenario.Decode(bytes.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// recorded are the runs of a data set. The files of except are no runs.
func recorded(t *testing.T, format importer.Format, pattern string, except ...string) (all []scenario.Case) {
	t.Helper()
	files, err := filepath.Glob("../../../../shared/data/" + pattern)
	if err != nil || len(files) == 0 {
		t.Skipf("missing: ../shared/data/%s", pattern)
	}
	for _, name := range files {
		if slices.Contains(except, filepath.Base(name)) {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range importer.Import(format, name, f, new(importer.Counts)) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, importer.MergeRetries(c))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// broken takes each case, mutated, through a policy. It returns how many break the invariant.
func broken(t *testing.T, p *recovery.Policy, m *Mutation, cases []scenario.Case) (n int) {
	t.Helper()
	config := engine.Config{Policy: p}
	for i := range cases {
		made := m.Apply(&cases[i])
		line, err := scenario.Encode(made) // as arl scenario mutate writes it
		if err != nil {
			t.Fatal(err)
		}
		if made, err = scenario.Decode(line); err != nil {
			t.Fatalf("%s of %s: %v", m.Name, cases[i].ID, err)
		}
		r, err := config.Recover(t.Context(), &made)
		if err != nil {
			t.Fatal(err)
		}
		if m.Broken(&r.Trace) {
			n++
		}
	}
	return n
}

// passes fails if the default policy breaks an invariant.
func passes(t *testing.T, cases []scenario.Case) {
	t.Helper()
	all := Mutations()
	for i := range all {
		if n := broken(t, recovery.Default(), &all[i], cases); n > 0 {
			t.Errorf("%s: the default policy breaks the invariant (%s) in %d of %d cases", all[i].Name, all[i].Must, n, len(cases))
		}
	}
	t.Logf("%d mutations of %d cases", len(all), len(cases))
}

// TestDefaultPasses takes the fixture and the real runs of several data sets, mutated, through the
// default policy. Runs that are not there are skipped.
func TestDefaultPasses(t *testing.T) {
	t.Run("ours", func(t *testing.T) { passes(t, own(t)) })
	t.Run("tau-bench", func(t *testing.T) { passes(t, recorded(t, "openai-chat", "tau_bench_airline/*.json")) })
	t.Run("aider", func(t *testing.T) { passes(t, recorded(t, "attempts", "aider_swe_bench/*.ndjson")) })
	t.Run("toolbench", func(t *testing.T) { passes(t, recorded(t, "toolbench", "toolbench/data_example/answer/*/*.json")) })
	t.Run("swe-agent", func(t *testing.T) {
		passes(t, recorded(t, importer.SWEAgent, "swe_agent/*.traj", "function_calling_simple.traj"))
	})
	t.Run("openhands", func(t *testing.T) { passes(t, recorded(t, importer.OpenHands, "openhands/*.json")) })
}

// weakened are policies with one weakness each, by the mutation made for it.
var weakened = map[string][]string{
	"safety_critical": {"      when: safety_critical\n", "      when: safety_critical && epoch < 0\n"},
	"critical_effect": {`risk == "critical" && effects != "none"`, `risk == "critical" && effects == "complete"`},
	"poisoned_output": {"        - { strategy: quarantine, severity: critical }\n", "        - { strategy: retry }\n"},
	"filtered_again":  {"variant: reflect, when: benign", "variant: reflect"},
	"denied_again": {"    - id: access.denied\n      when: class == \"access\" && code == \"denied\"\n      ladder:\n",
		"    - id: access.denied\n      when: class == \"access\" && code == \"denied\"\n      ladder:\n        - { strategy: retry_altered, variant: " +
			"refresh_credential }\n"},
	"lying_success":      {"      verify: true #", "      verify: false #"},
	"attempts_exhausted": {"attempts: 6 ", "attempts: 60 "},
	"cost_exhausted":     {"cost_micro_usd: 2000000", "cost_micro_usd: 200000000"},
	"time_exhausted":     {"deadline_ms: 900000", "deadline_ms: 9000000"},
	"refusal_loop":       {"{ strategy: fallback_model, enabled: false }", "{ strategy: retry }"},
	"crash_loop": {"repeats >= 4", "repeats >= 40", "{ strategy: fail_reassign, when: \"!checkpoint\" }",
		"{ strategy: fail_reassign, max: 9, backoff: { base_ms: 1, factor: 2, max_ms: 9, jitter_ppm: 0 }, when: \"!checkpoint\" }",
		"{ strategy: checkpoint_resume, max: 2, when: checkpoint", "{ strategy: checkpoint_resume, max: 9, backoff: { base_ms: 1, factor: 2, max_ms: 9, jitter_ppm: 0 }, when: checkpoint"},
	"invalid_again": {"code == \"invalid\"\n      ladder:\n", "code == \"invalid\"\n      ladder:\n        - { strategy: retry }\n"},
	"quota_again":   {"{ strategy: fallback_model, account: other }", "{ strategy: retry }"},
	"corrupt_state": {"code == \"corrupt\"\n      ladder:\n", "code == \"corrupt\"\n      ladder:\n        - { strategy: retry }\n"},
}

// TestWeakened weakens the default policy in one place each. The mutation made for that place
// rejects it. Mutations that no policy can fall for hold under all of them.
func TestWeakened(t *testing.T) {
	cases, all := own(t)[:20], Mutations()
	var policies []*recovery.Policy
	for i := range all {
		m := &all[i]
		changes, ok := weakened[m.Name]
		if !ok {
			continue
		}
		text := string(recovery.DefaultDocument())
		for k := 0; k < len(changes); k += 2 {
			if !strings.Contains(text, changes[k]) {
				t.Fatalf("%s: the default policy has no %q", m.Name, changes[k])
			}
			text = strings.Replace(text, changes[k], changes[k+1], 1)
		}
		p, err := recovery.Load(m.Name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, p)
		if n := broken(t, p, m, cases); n != len(cases) {
			t.Errorf("%s: the weakened policy breaks the invariant in %d of %d cases", m.Name, n, len(cases))
		}
	}
	if len(policies) < 12 || len(weakened) != len(policies) || len(all) < 12 {
		t.Errorf("%d policies, %d mutations", len(policies), len(all))
	}
	for i := range all {
		if weakened[all[i].Name] != nil {
			continue
		}
		for _, p := range policies {
			if n := broken(t, p, &all[i], cases); n > 0 {
				t.Errorf("%s: a weakened policy breaks the invariant in %d cases", all[i].Name, n)
			}
		}
	}
}

// TestTrial: a trial counts what each mutation alone counts, and names the first cases that break
// an invariant.
func TestTrial(t *testing.T) {
	cases, all := own(t)[:20], Mutations()
	change := weakened["lying_success"]
	weak, err := recovery.Load("weak", []byte(strings.Replace(string(recovery.DefaultDocument()), change[0], change[1], 1)))
	if err != nil {
		t.Fatal(err)
	}
	trial := NewTrial(weak, all)
	for i := range cases {
		if err := trial.Take(t.Context(), &cases[i]); err != nil {
			t.Fatal(err)
		}
	}
	verdicts, fallen := trial.Verdicts()
	want := 0
	for i := range all {
		n := broken(t, weak, &all[i], cases)
		if n > 0 {
			want++
		}
		v := &verdicts[i]
		if v.Mutation != all[i].Name || v.Must != all[i].Must || v.Cases != int64(len(cases)) || v.Broken != int64(n) || len(v.First) != min(n, firstMax) {
			t.Errorf("%+v, broken by %d cases", v, n)
		}
	}
	if fallen != want || fallen == 0 {
		t.Errorf("%d invariants are broken, want %d", fallen, want)
	}
}
