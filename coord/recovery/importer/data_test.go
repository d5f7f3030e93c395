package importer

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// tally counts what the tests below compare: the cases by outcome, the steps
// by outcome, effect, edge, mark and label.
func tally(cases []scenario.Case) map[string]int {
	n := map[string]int{"cases": len(cases)}
	for _, c := range cases {
		n["case "+string(c.Outcome)]++
		n["steps"] += len(c.Steps)
		for _, s := range c.Steps {
			n[string(s.Outcome)]++
			n["effect "+string(s.Effect)]++
			for _, p := range s.Parents {
				n[string(p.Dep)]++
			}
			if s.Checkpoint {
				n["checkpoints"]++
			}
			if s.Conditional {
				n["conditional"]++
			}
			if s.CostMicroUSD != nil {
				n["cost"] += int(*s.CostMicroUSD)
			}
			if s.Failure != nil {
				n[s.Failure.String()]++
				n["effects "+string(s.Failure.Effects)]++
			}
		}
	}
	return n
}

func checkTally(t *testing.T, cases []scenario.Case, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, tally(cases)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// The airline runs yield what the data's README counts: 1,164 calls, 73
// errors with their split, 116 failed runs, of which 87 had called a write
// (86 one that succeeded), and 48 hand-overs.
func TestAirlineRunsAsCounted(t *testing.T) {
	cases := importFiles(t, OpenAIChat, dataFiles(t, "tau_bench_airline", ".json"))
	checkTally(t, cases, map[string]int{
		"cases": 200, "case ok": 84, "case failed": 116,
		"steps": 1164, "ok": 1091, "failed": 73, "checkpoints": 518, "hard": 818, "soft": 817,
		"effect none": 866, "effect compensable": 173, "effect irrevocable": 125,
		"output.bad_arguments": 35, "tool.error": 38, "effects none": 73,
	})
	errs, called, wrote, handedOver := map[string]int{}, 0, 0, 0
	for _, c := range cases {
		calls, writes := 0, 0
		for _, s := range c.Steps {
			switch {
			case s.Tool == "transfer_to_human_agents":
				handedOver++
			case s.Effect != entry.EffectNone && s.Outcome == scenario.OK:
				calls, writes = 1, 1
			case s.Effect != entry.EffectNone:
				calls = 1
			}
			if s.Failure != nil {
				errs[airlineRule(s.Failure.Raw.Text)]++
			}
		}
		if c.Outcome == scenario.Failed {
			called, wrote = called+calls, wrote+writes
		}
	}
	want := map[string]int{"payment sum": 24, "flight unavailable": 15, "balance": 14, "payment method": 11, "no seats": 9}
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if called != 87 || wrote != 86 || handedOver != 48 {
		t.Errorf("failed after a write call %d, after a write %d, handed over %d; want 87, 86 and 48", called, wrote, handedOver)
	}
}

// airlineRule names the business rule in an error as the README does.
func airlineRule(text string) string {
	switch {
	case strings.HasPrefix(text, "payment amount"):
		return "payment sum"
	case strings.Contains(text, "not available on date"):
		return "flight unavailable"
	case strings.Contains(text, "balance"):
		return "balance"
	case strings.HasPrefix(text, "payment method"), strings.HasPrefix(text, "certificate"):
		return "payment method"
	case strings.HasPrefix(text, "not enough seats"):
		return "no seats"
	}
	return text
}

// The attempts yield what the README counts: 300 cases, 835 attempts by
// class, 155 that pass at once, 60 later and 85 never; money is exact.
func TestAttemptsAsCounted(t *testing.T) {
	cases := importFiles(t, Attempts, dataFiles(t, "aider_swe_bench", ".ndjson"))
	checkTally(t, cases, map[string]int{
		"cases": 300, "case ok": 215, "case failed": 85,
		"steps": 835, "ok": 223, "failed": 612, "checkpoints": 223, "soft": 535, "effect reversible": 835,
		"verify.gate_failed": 292 + 37, "output.malformed": 233, "progress.premature_end": 50,
		"effects complete": 323, "effects none": 94, "effects partial": 195,
		"cost": 908_826_655,
	})
	classes, atOnce, agents := map[string]int{}, 0, map[string]int{}
	for _, c := range cases {
		if c.Steps[0].Outcome == scenario.OK {
			atOnce++
		}
		for _, s := range c.Steps {
			agents[string(s.Agent)]++
			if s.Failure != nil {
				classes[s.Failure.Raw.ProviderCode]++
			}
		}
	}
	want := map[string]int{"test_fail": 292, "edit_fail": 233, "no_edit": 50, "lint_fail": 37}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	wantAgents := map[string]int{"attempts/gpt-4o": 499, "attempts/openrouter/anthropic/claude-3-opus": 321, "attempts/harness": 15}
	if diff := cmp.Diff(wantAgents, agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if atOnce != 155 {
		t.Errorf("%d pass at once, want 155", atOnce)
	}
}

// The search trees yield 328 observations. By content 180 of them are
// failures: 30 of the 42 "message errors" are good answers with the word
// error in them, and 98 errors stand behind an empty error member.
func TestSearchTreesAsCounted(t *testing.T) {
	cases := importFiles(t, ToolBench, dataFiles(t, "toolbench", ".json"))
	checkTally(t, cases, map[string]int{
		"cases": 15, "case ok": 9, "case failed": 6,
		"steps": 328, "ok": 148, "failed": 180, "checkpoints": 118, "hard": 306,
		"effect none": 221, "effect undeclared": 107,
		"request.invalid": 76, "output.bad_arguments": 35, "tool.error": 21, "transient.unavailable": 18,
		"output.hallucinated_tool": 14, "access.unauthenticated": 11, "access.denied": 4, "transient.timeout": 1,
		"effects none": 133, "effects unknown": 47,
	})
}

// The wrapper of the search trees itself reports 112 errors, as the README
// counts them by its error member; of its 34 bad statuses 18 are 500 and 16
// are 400. Each of them is compared with what the content says.
func TestSearchTreeWrapperErrors(t *testing.T) {
	reported, confirmed, hidden := map[string]int{}, map[string]int{}, 0
	var walk func(node toolbenchNode)
	walk = func(node toolbenchNode) {
		if node.Observation != nil {
			raw, failed := observed(*node.Observation)
			kind := wrapperError(*node.Observation)
			if kind == "" && failed {
				hidden++
			}
			if kind != "" {
				reported[kind]++
			}
			if kind != "" && failed {
				confirmed[kind+" "+scenario.Classify(raw).String()]++
			}
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	for _, file := range dataFiles(t, "toolbench", ".json") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc toolbenchFile
		if err := json.Unmarshal(content, &doc); err != nil {
			t.Fatal(err)
		}
		walk(*doc.Tree.Tree)
	}
	want := map[string]int{"Message": 42, "status_code=500": 18, "status_code=400": 16, "redirects": 20, "No such function": 14, "Timeout": 1, "argument": 1}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Errorf("reported by the wrapper (-want +got):\n%s", diff)
	}
	want = map[string]int{
		"Message output.bad_arguments":              12,
		"status_code=500 transient.unavailable":     18,
		"status_code=400 request.invalid":           16,
		"redirects tool.error":                      20,
		"No such function output.hallucinated_tool": 14,
		"Timeout transient.timeout":                 1,
		"argument output.bad_arguments":             1,
	}
	if diff := cmp.Diff(want, confirmed); diff != "" {
		t.Errorf("confirmed by the content (-want +got):\n%s", diff)
	}
	if hidden != 98 {
		t.Errorf("%d errors behind an empty error member, want 98", hidden)
	}
}

// wrapperError names the error member of an observation.
func wrapperError(observation string) string {
	for _, m := range scenario.Members(observation) {
		if m.Name != "error" {
			continue
		}
		for _, kind := range []string{"Message", "status_code=500", "status_code=400", "redirects", "No such function", "Timeout", "argument"} {
			if strings.Contains(m.Value, kind) {
				return kind
			}
		}
		return m.Value
	}
	return ""
}

// The workflow graphs: 94, with 29 conditions that make 43 steps conditional,
// because some stand on subworkflows. The longest path has 20 steps after
// flattening (19 before); the README's depth of 31 is not that of a path.
func TestWorkflowGraphsAsCounted(t *testing.T) {
	cases := importFiles(t, Galaxy, dataFiles(t, "galaxy_iwc", ".ga"))
	checkTally(t, cases, map[string]int{
		"cases": 94, "case not_observed": 94,
		"steps": 1668, "not_observed": 1668, "checkpoints": 572, "conditional": 43, "hard": 1924,
		"effect none": 481, "effect reversible": 1187,
	})
	deepest := 0
	for _, c := range cases {
		depth := map[string]int{}
		for _, s := range c.Steps {
			depth[s.ID] = 1
			for _, p := range s.Parents {
				depth[s.ID] = max(depth[s.ID], depth[p.Step]+1)
			}
			deepest = max(deepest, depth[s.ID])
		}
	}
	if deepest != 20 {
		t.Errorf("longest path has %d steps, want 20", deepest)
	}
}
