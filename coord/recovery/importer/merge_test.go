package importer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// foldAll folds cases and checks what Fold promises of each.
func foldAll(tb testing.TB, cases []scenario.Case) []scenario.Case {
	tb.Helper()
	var out []scenario.Case
	for _, c := range cases {
		folded := MergeRetries(c)
		checkCase(tb, folded)
		before, after := 0, 0
		for _, s := range c.Steps {
			before += 1 + len(s.Attempts)
		}
		for _, s := range folded.Steps {
			after += 1 + len(s.Attempts)
			if s.RetryOf != "" || s.Strategy != "" || s.Variant != "" {
				tb.Fatalf("case %s step %s: first attempt %+v", c.ID, s.ID, s.Variation)
			}
			for _, a := range s.Attempts {
				if a.Strategy == "" || s.Outcome != scenario.Failed || a.Outcome == scenario.NotObserved || (a.Failure != nil) != (a.Outcome == scenario.Failed) {
					tb.Fatalf("case %s step %s: attempt %+v", c.ID, s.ID, a)
				}
			}
		}
		if c.Verdict != nil || before == 0 {
			before++
		}
		if before != after {
			tb.Fatalf("case %s: %d attempts became %d", c.ID, before, after)
		}
		out = append(out, folded)
	}
	return out
}

// checkScenario writes cases as lines of a scenario and reads them again. Only
// a limit of the format may stand against that.
func checkScenario(tb testing.TB, cases []scenario.Case) {
	tb.Helper()
	for _, c := range foldAll(tb, cases) {
		line, err := scenario.Encode(c)
		var wrong *scenario.Error
		if errors.As(err, &wrong) && wrong.Problem == entry.TooLarge {
			continue
		}
		if err != nil {
			tb.Fatalf("case %s: %v", c.ID, err)
		}
		back, err := scenario.Decode(line)
		if err != nil {
			tb.Fatalf("case %s: %v\n%s", c.ID, err, line)
		}
		if again, err := scenario.Encode(back); err != nil || string(again) != string(line) {
			tb.Fatalf("case %s reads as another:\n%s\n%s", c.ID, line, again)
		}
	}
}

// attemptLists writes the attempts of each step with the edges into it.
func attemptLists(c scenario.Case) string {
	var all []string
	for _, s := range c.Steps {
		all = append(all, s.ID+"("+parentList(s)+") "+attemptList(s))
	}
	return strings.Join(all, "; ")
}

// A call that tries one again that failed becomes an attempt of it; calls that
// only follow stay steps.
func TestFoldTranscript(t *testing.T) {
	call := func(name, arguments string) string {
		return `{"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "` + name + `", "arguments": "` + strings.ReplaceAll(arguments, `"`, `\"`) + `"}}]}`
	}
	answer := func(text string) string { return `{"role": "tool", "tool_call_id": "x", "content": "` + text + `"}` }
	transcript := func(reward string, messages ...string) string {
		return `{"id": "r", "reward": ` + reward + `, "messages": [` + strings.Join(messages, ", ") + `]}`
	}
	const bad, good = "Error: payment method not found", "done AB1234"
	for _, c := range []struct{ desc, text, want string }{
		{"other arguments", transcript("1", call("book", `{"seat": "AB1234", "n": 1}`), answer(bad), call("think", `{}`), answer(good),
			call("book", `{"seat": "AB1234"}`), answer(good), call("get_seat", `{"seat": "AB1234"}`), answer(good)),
			"0() =failed[output.bad_arguments] retry_altered/repair_args=ok; 1(0~) =ok; 3(1 0) =ok"},
		{"the same arguments, twice", transcript("1", call("book", `{}`), answer(bad), call("book", `{}`), answer(bad), call("book", `{"n": 1}`), answer(good)),
			"0() =failed[output.bad_arguments] retry=failed[output.bad_arguments] retry_altered/repair_args=ok"},
		{"another thing", transcript("1", call("book", `{"seat": "AB1234"}`), answer(bad), call("book", `{"seat": "CD5678"}`), answer(good)),
			"0() =failed[output.bad_arguments]; 1(0~) =ok"},
		{"no answer", transcript("1", call("book", `{}`), answer(bad), call("book", `{}`)),
			"0() =failed[output.bad_arguments]; 1(0~) =not_observed"},
		{"a failed run", transcript("0", call("cancel_reservation", `{}`), answer(good)),
			"0() =ok; verdict(0~) =failed[verify.gate_failed]"},
		{"a run without a call", transcript("1"), "run() =ok"},
		{"a failed run without a step", transcript("0"), "verdict() =failed[verify.gate_failed]"},
	} {
		folded := foldAll(t, importText(t, OpenAIChat, c.text))
		if got := attemptLists(folded[0]); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.desc, got, c.want)
		}
	}
}

// The verdict's effects are the gravest that took place.
func TestVerdictKnowsWhatTookPlace(t *testing.T) {
	step := func(id string, effect entry.Effect, outcome scenario.Outcome) scenario.Step {
		return scenario.Step{ID: id, Agent: "a", Effect: effect, Attempt: scenario.Attempt{Outcome: outcome}}
	}
	c := scenario.Case{ID: "c", Agent: "a", Workflow: "w", Outcome: scenario.Failed, Verdict: &scenario.Failure{Label: scenario.Label{Class: "verify", Code: "gate_failed"}, Evidence: entry.DigestOf("")},
		Steps: []scenario.Step{step("verdict", entry.EffectCompensable, scenario.OK), step("2", entry.EffectIrrevocable, scenario.NotObserved)}}
	folded := foldAll(t, []scenario.Case{c})[0]
	last := folded.Steps[2]
	if last.ID == "verdict" || last.Effect != entry.EffectCompensable || last.Failure.Effects != entry.EffectsComplete || last.Failure.ReplaySafety != entry.ReplayUnsafe {
		t.Errorf("verdict %+v, failure %+v", last, last.Failure)
	}
	if c.Verdict == nil || c.Verdict.Effects != "" {
		t.Errorf("the case itself changed: %+v", c.Verdict)
	}
}

// attemptTally counts attempts after the first by their way and outcome.
func attemptTally(cases []scenario.Case) map[string]int {
	n := map[string]int{}
	for _, c := range cases {
		for _, s := range c.Steps {
			for _, a := range s.Attempts {
				n[strings.Trim(a.Strategy+"/"+a.Variant, "/")+" "+string(a.Outcome)]++
			}
		}
	}
	return n
}

// What the real runs show of second attempts.
func TestFoldRealRuns(t *testing.T) {
	for _, set := range []struct {
		format    Format
		name, ext string
		cases     int
		want      map[string]int
	}{
		{OpenAIChat, "tau_bench_airline", ".json", 200, map[string]int{"retry failed": 9, "retry_altered/repair_args failed": 26, "retry_altered/repair_args ok": 28}},
		{Attempts, "aider_swe_bench", ".ndjson", 300, map[string]int{"retry failed": 356, "retry ok": 29, "fallback_model failed": 108, "fallback_model ok": 32}},
		{ToolBench, "toolbench", ".json", 15, map[string]int{"retry failed": 34, "retry_altered/repair_args failed": 19, "retry_altered/repair_args ok": 13}},
	} {
		t.Run(set.name, func(t *testing.T) {
			folded := foldAll(t, importFiles(t, set.format, dataFiles(t, set.name, set.ext)))
			checkScenario(t, folded)
			if len(folded) != set.cases {
				t.Errorf("%d cases, want %d", len(folded), set.cases)
			}
			if diff := cmp.Diff(set.want, attemptTally(folded)); diff != "" {
				t.Errorf("attempts after the first (-want +got):\n%s", diff)
			}
		})
	}
}

// A step that succeeded in the end is an execution that did; no signal is made
// of its first attempts.
func TestEntriesOfSecondAttempts(t *testing.T) {
	c := importText(t, OTLP, otlpSample())[0]
	c.Steps = c.Steps[:1]
	bodies := testStream("sha256:0").Entries(c)
	if len(bodies) != 1 || bodies[0].(*entry.Execution).Progress != entry.Confirmed {
		t.Errorf("entries %+v", bodies)
	}
}
