package recovery_test

import (
	"fmt"
	"slices"
	"testing"

	"recoveryledger/coord/recovery"
)

// A pause grows by its factor up to its maximum, and is never shorter than what
// the server asked for.
func TestBackoff(t *testing.T) { runWalks(t, pauseCases()) }

func pauseCases() []walkCase {
	const policy = `rules:
  - id: wait
    when: class == "capacity"
    ladder:
      - { strategy: wait, min_ms: 700, max_ms: 4000 }
      - { strategy: retry, max: 2, backoff: { base_ms: 1000, factor: 3, max_ms: 5000 } }
      - { strategy: fallback_model, backoff: { base_ms: 50, factor: 1, max_ms: 50 } }
      - { strategy: escalate }
  - id: all
    when: "true"
    ladder:
      - { strategy: retry, max: 4, backoff: { base_ms: 1000, factor: 3, max_ms: 5000 } }
      - { strategy: retry_altered, variant: reflect }
      - { strategy: escalate }
`
	var cases []walkCase
	for _, c := range []struct {
		class string
		after *int64
		way   string
		want  []int64
	}{
		{"tool", nil, "retry retry retry retry retry_altered:reflect escalate:ladder_exhausted", []int64{1000, 3000, 5000, 5000, 0, 0}},
		{"tool", new(int64(2000)), "retry retry retry retry retry_altered:reflect escalate:ladder_exhausted", []int64{2000, 3000, 5000, 5000, 2000, 0}},
		{"tool", new(int64(-1)), "retry retry retry retry retry_altered:reflect escalate:ladder_exhausted", []int64{1000, 3000, 5000, 5000, 0, 0}},
		{"tool", new(int64(5000)), "retry retry retry retry retry_altered:reflect escalate:ladder_exhausted", []int64{5000, 5000, 5000, 5000, 5000, 0}},
		{"tool", new(int64(5001)), "retry_altered:reflect escalate:ladder_exhausted", []int64{5001, 0}}, // longer than the retry waits
		{"tool", new(int64(1)<<53 - 1), "escalate:deadline_exceeded", []int64{0}},
		{"capacity", nil, "wait retry retry fallback_model:cheap escalate:ladder_exhausted", []int64{700, 0, 3000, 50, 0}},
		{"capacity", new(int64(4000)), "wait retry retry fallback_model:cheap escalate:ladder_exhausted", []int64{4000, 0, 4000, 50, 0}},
		{"capacity", new(int64(4001)), "retry retry fallback_model:cheap escalate:ladder_exhausted", []int64{4001, 4001, 50, 0}},
		{"capacity", new(int64(99999)), "fallback_model:cheap escalate:ladder_exhausted", []int64{50, 0}},
	} {
		h := plain(c.class, "new")
		h.Failure.RetryAfterMS = c.after
		name := c.class
		if c.after != nil {
			name += fmt.Sprintf(", asked to wait %d ms", *c.after)
		}
		cases = append(cases, walkCase{name: name, given: h, policy: policy, want: c.way, waits: c.want})
	}
	return cases
}

// Jitter depends on seed, case, attempt and epoch, and on nothing else; it
// shortens a pause by at most its part.
func TestJitter(t *testing.T) {
	p := rules(t, `rules:
  - id: all
    when: "true"
    ladder: [{ strategy: retry, max: 2, backoff: { base_ms: 400000, factor: 1, max_ms: 400000, jitter_ppm: 250000 } }, { strategy: escalate }]
`)
	base := plain("tool", "error")
	first := walk(t, base, p, world{})
	var seen []int64
	for _, change := range []func(*recovery.History){
		func(*recovery.History) {},
		func(h *recovery.History) { h.Seed = 1 },
		func(h *recovery.History) { h.Epoch = 1 },
		func(h *recovery.History) { h.Case = "another" },
	} {
		h := base
		change(&h)
		actions := walk(t, h, p, world{})
		for _, a := range actions[:2] {
			if a.WaitMS < 300000 || a.WaitMS > 400000 || slices.Contains(seen, a.WaitMS) {
				t.Errorf("%d ms, want another one from 300000 to 400000", a.WaitMS)
			}
			seen = append(seen, a.WaitMS)
		}
	}
	h := base
	h.Tool, h.Intent, h.Tags, h.SpentTokens = "t", "i", []string{"x"}, 5
	if got := waits(walk(t, h, p, world{})); !slices.Equal(got, waits(first)) {
		t.Errorf("waits %v, want %v", got, waits(first))
	}
}

// Draw is what protocol.md says, computed here with another HMAC.
func TestDraw(t *testing.T) {
	// printf 'backoff|case-1|2|3' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000000000000002a
	if got := recovery.Draw(42, "backoff", "case-1", 2, 3); got != 0x9f4ab68c99137b8e {
		t.Errorf("%#x", got)
	}
	if recovery.Draw(-1, "a", "b", 1, 1) == recovery.Draw(1, "a", "b", 1, 1) {
		t.Error("seeds of different sign give the same")
	}
}

// The chain is gone down in order, from whatever model the case began with.
func TestModelChain(t *testing.T) { runWalks(t, chainCases()) }

func chainCases() []walkCase {
	chain := func(rung string) string {
		return "rules:\n  - id: all\n    when: \"true\"\n    ladder: [{ strategy: fallback_model, max: 9" + rung + " }, { strategy: escalate }]\n"
	}
	var cases []walkCase
	for _, c := range []struct {
		desc, model, rung, class string
		want                     string
	}{
		{"in order", "cheap", "", "tool", "fallback_model:middle fallback_model:dear escalate:ladder_exhausted"},
		{"also those before it", "dear", "", "tool", "fallback_model:cheap fallback_model:middle escalate:ladder_exhausted"},
		{"from an unknown model", "else", "", "tool", "fallback_model:cheap fallback_model:middle fallback_model:dear escalate:ladder_exhausted"},
		{"other account", "cheap", ", account: other", "tool", "fallback_model:dear fallback_model:middle escalate:ladder_exhausted"},
		{"larger context", "cheap", ", context: larger", "tool", "fallback_model:middle fallback_model:dear escalate:ladder_exhausted"},
		{"larger context, of the largest", "dear", ", context: larger", "tool", "escalate:ladder_exhausted"},
		{"budget: never a dearer one", "middle", "", "budget", "fallback_model:cheap escalate:ladder_exhausted"},
		{"budget: from the cheapest", "cheap", "", "budget", "escalate:ladder_exhausted"},
		{"budget: a price that nobody knows", "else", "", "budget", "escalate:ladder_exhausted"},
		{"safety: never another one", "cheap", "", "safety", "escalate:ladder_exhausted"},
	} {
		h := plain(c.class, "new")
		h.Model = c.model
		cases = append(cases, walkCase{name: c.desc, given: h, policy: chain(c.rung), want: c.want})
	}
	return cases
}

// What was once refused for safety, or cut for money, stays so when the step
// fails in another way afterwards.
func TestSafetyAndBudgetAreRemembered(t *testing.T) { runWalks(t, memoryCases()) }

func memoryCases() []walkCase {
	var cases []walkCase
	for _, c := range []struct{ class, step, want string }{
		{"safety", "s", "retry retry retry escalate:ladder_exhausted"},
		{"safety", "another", "retry retry retry fallback_model:alternate escalate:ladder_exhausted"},
		{"budget", "s", "retry retry retry fallback_model:long-context escalate:ladder_exhausted"},
		{"budget", "another", "retry retry retry fallback_model:long-context escalate:ladder_exhausted"},
		{"tool", "s", "retry retry retry fallback_model:alternate escalate:ladder_exhausted"},
	} {
		h := plain("transient", "unavailable")
		h.Rungs = []recovery.Rung{{Step: c.step, Class: c.class, Code: "x", Rule: recovery.Rule{ID: "other"},
			Strategy: recovery.RetryAltered, Variant: recovery.Reflect, Result: recovery.ResultFailed}}
		cases = append(cases, walkCase{name: fmt.Sprintf("after %s in step %s", c.class, c.step), given: h, want: c.want})
	}
	dearer := plain("transient", "unavailable") // both others read, or write, for more
	dearer.Model, dearer.Rungs = "long-context", []recovery.Rung{{Step: "s", Class: "budget", Code: "x", Rule: recovery.Rule{ID: "other"},
		Strategy: recovery.RetryAltered, Variant: recovery.Reflect, Result: recovery.ResultFailed}}
	return append(cases, walkCase{name: "after budget on the model that reads for least", given: dearer, want: "retry retry retry escalate:ladder_exhausted"})
}

// An attempt goes on with the model of the one before.
func TestAttemptsKeepTheModel(t *testing.T) {
	h := plain("transient", "unavailable")
	h.Rungs = []recovery.Rung{
		{Step: "s", Class: "output", Code: "malformed", Rule: recovery.Rule{ID: "output.malformed", Rung: 1}, Strategy: recovery.FallbackModel, Model: "alternate", Result: recovery.ResultFailed},
		{Step: "other", Class: "output", Code: "malformed", Strategy: recovery.FallbackModel, Model: "long-context", Result: recovery.ResultFailed},
	}
	if a, _ := recovery.Decide(&h, recovery.Default(), 1); a.Strategy != recovery.Retry || a.Model != "alternate" {
		t.Errorf("%v", a)
	}
}
