package recovery_test

import (
	"math"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

const twoRetries = `rules:
  - id: all
    when: "true"
    ladder:
      - { strategy: retry, max: 2, backoff: { base_ms: 1000, factor: 3, max_ms: 5000 } }
      - { strategy: escalate }
`

// All guards are evaluated, the most severe wins, and none makes an action
// milder than it would be.
func TestGuardsOnlyRaise(t *testing.T) { runWalks(t, guardCases()) }

func guardCases() []walkCase {
	guards := func(list ...string) string { return "guards:\n  - " + strings.Join(list, "\n  - ") + "\n" }
	const (
		info     = `{ id: info, when: "true", then: escalate, severity: info }`
		milder   = `{ id: milder, when: "true", then: escalate, severity: warning }`
		critical = `{ id: critical, when: "true", then: escalate, severity: critical }`
		abort    = `{ id: abort, when: "true", then: abort, severity: info }`
		fence    = `{ id: fence, when: "true", then: quarantine, severity: warning }`
		quiet    = `{ id: quiet, when: benign, then: quarantine }`
		broken   = `{ id: broken, when: 'tags[3] == "x"', then: quarantine }`
		violated = `rules: [{ id: all, when: "true", ladder: [{ strategy: quarantine }, { strategy: escalate, severity: critical }] }]`
		urgent   = `rules: [{ id: all, when: "true", ladder: [{ strategy: escalate, severity: critical }] }]`
	)
	var cases []walkCase
	for _, c := range []struct {
		desc, policy, want string
		severity           entry.Severity
	}{
		{"none holds", guards(quiet) + twoRetries, "retry retry escalate:ladder_exhausted", "error"},
		{"one holds", guards(quiet, info) + twoRetries, "escalate:guard", "info"},
		{"the most severe escalation wins", guards(info, critical, milder) + twoRetries, "escalate:guard", "critical"},
		{"abort outranks escalate", guards(critical, abort) + twoRetries, "abort escalate:guard", "critical"},
		{"quarantine outranks abort", guards(critical, fence, abort) + twoRetries, "quarantine abort escalate:guard", "critical"},
		{"after quarantine its own severity stays", guards(fence) + twoRetries, "quarantine escalate:after_quarantine", "warning"},
		{"a milder guard does not stop a quarantine", guards(info) + violated, "quarantine escalate:after_quarantine", "critical"},
		{"a milder guard does not lower an escalation", guards(info) + urgent, "escalate:rule", "critical"},
		{"a guard that cannot be evaluated escalates", guards(broken) + twoRetries, "escalate:condition_error", "error"},
		{"and does not hide another", guards(broken, fence) + twoRetries, "quarantine escalate:condition_error", "error"},
	} {
		cases = append(cases, walkCase{name: c.desc, given: plain("tool", "error"), policy: c.policy, want: c.want, severity: c.severity})
	}
	return cases
}

// The default guards raise what the table alone would leave to the ladder.
func TestDefaultGuards(t *testing.T) {
	for _, c := range []struct {
		desc   string
		change func(*recovery.History)
		want   string
	}{
		{"safety-critical", func(h *recovery.History) { h.SafetyCritical = true }, "safety_critical"},
		{"critical with effects", func(h *recovery.History) {
			h.Risk, h.Effect, h.Failure.Effects = "critical", entry.EffectReversible, entry.EffectsPartial
		}, "critical_side_effects"},
		{"critical without effects", func(h *recovery.History) { h.Risk = "critical" }, "tool.error[0]"},
	} {
		h := plain("tool", "error")
		c.change(&h)
		a, r := recovery.Decide(&h, recovery.Default(), 1)
		if r.String() != c.want || strings.HasPrefix(c.want, "s") && (!a.Final() || a.Severity != entry.SeverityCritical) {
			t.Errorf("%s: %v by %v, want %s", c.desc, a, r, c.want)
		}
	}
}

// A condition that cannot be evaluated escalates; it never skips, wherever it
// stands.
func TestConditionErrorsEscalate(t *testing.T) {
	for _, c := range []struct{ desc, policy, rule string }{
		{"rule", `rules:
  - { id: broken, when: 'tags[0] == "a"', ladder: [{ strategy: retry }, { strategy: escalate }] }
  - { id: all, when: "true", ladder: [{ strategy: retry }, { strategy: escalate }] }
`, "broken"},
		{"rung", `rules:
  - id: all
    when: "true"
    ladder: [{ strategy: retry, when: "attempts / (repeats - 1) > 0" }, { strategy: fallback_model }, { strategy: escalate }]
`, "all"},
	} {
		h := plain("tool", "error")
		a, r := recovery.Decide(&h, rules(t, c.policy), 1)
		if a.Strategy != recovery.Escalate || a.Reason != recovery.ReasonConditionError || r.ID != c.rule {
			t.Errorf("%s: %v by %v", c.desc, a, r)
		}
	}
}

// Class and code in front of a condition shield what stands behind them.
func TestConditionsShortCircuit(t *testing.T) {
	p := rules(t, `rules:
  - { id: shielded, when: 'class == "verify" && tags[0] == "a"', ladder: [{ strategy: escalate }] }
  - { id: all, when: "true", ladder: [{ strategy: retry }, { strategy: escalate }] }
`)
	h := plain("tool", "error")
	if a, r := recovery.Decide(&h, p, 1); r.ID != "all" {
		t.Errorf("%v by %v", a, r)
	}
}

// What stands beside class and code counts too, on whichever side.
func TestConditionsAreWhole(t *testing.T) {
	for _, when := range []string{`benign && class == "tool"`, `class == "tool" && benign`, `code == "error" && (benign || class == "verify")`,
		`class == "tool" && code != "error"`, `class in ["tool"] && !idempotent`} {
		p := rules(t, "rules: [{ id: narrow, when: '"+when+"', ladder: [{ strategy: escalate }] }, { id: all, when: 'true', ladder: [{ strategy: escalate }] }]")
		h := plain("tool", "error")
		if a, r := recovery.Decide(&h, p, 1); r.ID != "all" {
			t.Errorf("%s: %v by %v", when, a, r)
		}
	}
}

// A ladder is never climbed down, whatever a history says was done last.
func TestLaddersAreNotClimbedDown(t *testing.T) {
	p := rules(t, `rules:
  - id: all
    when: "true"
    ladder:
      - { strategy: retry_altered, variant: reflect, max: 9 }
      - { strategy: retry_altered, variant: reread, max: 2 }
      - { strategy: escalate }
`)
	h := plain("tool", "error")
	for _, at := range []int{1, 0, 0} {
		h.Rungs = append(h.Rungs, recovery.Rung{Step: "s", Class: "tool", Code: "error", Rule: recovery.Rule{ID: "all", Rung: at},
			Strategy: recovery.RetryAltered, Variant: recovery.Reflect, Result: recovery.ResultFailed})
	}
	if got := ways(walk(t, h, p, world{})); got != "retry_altered:reread escalate:ladder_exhausted" {
		t.Error(got)
	}
}

// No limit is passed, the policy's or the case's own, whichever is stricter.
func TestLimits(t *testing.T) { runWalks(t, limitCases()) }

func limitCases() []walkCase {
	var cases []walkCase
	for _, c := range []struct {
		desc   string
		change func(*recovery.History)
		want   string
	}{
		{"none near", func(*recovery.History) {}, "retry retry escalate:ladder_exhausted"},
		{"own attempts", func(h *recovery.History) { h.Budget.Attempts = new(int64(1)) }, "retry escalate:attempts_exhausted"},
		{"no attempts", func(h *recovery.History) { h.Budget.Attempts = new(int64(0)) }, "escalate:attempts_exhausted"},
		{"own attempts beyond the policy's", func(h *recovery.History) { h.Budget.Attempts = new(int64(99)) }, "retry retry escalate:ladder_exhausted"},
		{"money, at the limit", func(h *recovery.History) { h.SpentMicroUSD = 2000000 }, "escalate:cost_exhausted"},
		{"money, before it", func(h *recovery.History) { h.SpentMicroUSD = 1999999 }, "retry retry escalate:ladder_exhausted"},
		{"own money", func(h *recovery.History) { h.SpentMicroUSD, h.Budget.CostMicroUSD = 10, new(int64(10)) }, "escalate:cost_exhausted"},
		{"tokens, at the limit", func(h *recovery.History) { h.SpentTokens = 500000 }, "escalate:tokens_exhausted"},
		{"own money beyond the policy's", func(h *recovery.History) { h.SpentMicroUSD, h.Budget.CostMicroUSD = 2000000, new(int64(9000000)) }, "escalate:cost_exhausted"},
		{"own tokens", func(h *recovery.History) { h.SpentTokens, h.Budget.Tokens = 10, new(int64(10)) }, "escalate:tokens_exhausted"},
		{"own deadline, over", func(h *recovery.History) { h.StartedAt, h.Budget.DeadlineMS = 1, new(int64(0)) }, "escalate:deadline_exceeded"},
		{"own deadline, a pause of 3 s outlasts it", func(h *recovery.History) { h.StartedAt, h.Budget.DeadlineMS = 1, new(int64(4000)) },
			"retry escalate:deadline_exceeded"},
		{"own deadline, just enough", func(h *recovery.History) { h.StartedAt, h.Budget.DeadlineMS = 1, new(int64(4001)) },
			"retry retry escalate:ladder_exhausted"},
	} {
		h := plain("tool", "error")
		c.change(&h)
		cases = append(cases, walkCase{name: c.desc, given: h, policy: twoRetries, want: c.want})
	}
	return cases
}

// No number that a history may have makes a pause slip by the deadline.
func TestDeadlineDoesNotOverflow(t *testing.T) {
	p := rules(t, `rules: [{ id: all, when: "true", ladder: [{ strategy: retry_altered, variant: reflect }, { strategy: escalate }] }]`)
	for _, started := range []int64{math.MinInt64, 0, 1, 1000, math.MaxInt64} {
		h := plain("tool", "error")
		h.StartedAt, h.Failure.RetryAfterMS = started, new(int64(math.MaxInt64))
		if a, _ := recovery.Decide(&h, p, 2000); a.Reason != recovery.ReasonDeadlineExceeded {
			t.Errorf("started at %d: %v", started, a)
		}
	}
}

// A deadline ends a case also where the pauses are short.
func TestDeadlineByEffort(t *testing.T) {
	h := plain("tool", "error")
	h.StartedAt = 1
	if got := ways(walk(t, h, rules(t, twoRetries), world{effort: 900000})); got != "retry escalate:deadline_exceeded" {
		t.Error(got)
	}
}

// Attempts after an interruption count against no limit of attempts, and an
// earlier interruption takes nothing away from later retries.
func TestInterruptionsCostNoRetries(t *testing.T) {
	p := recovery.Default()
	h := plain("crash", "interrupted")
	h.Budget.Attempts = new(int64(0))
	if got, want := ways(walk(t, h, p, world{})), strings.Repeat("checkpoint_resume ", 8)+"escalate:ladder_exhausted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.Checkpoint, h.MaxRetries = false, new(int64(0))
	if got, want := ways(walk(t, h, p, world{})), strings.Repeat("fail_reassign ", 8)+"escalate:ladder_exhausted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h = plain("crash", "lost")
	h.Checkpoint, h.MaxRetries = false, new(int64(1))
	for range 5 {
		h.Rungs = append(h.Rungs, recovery.Rung{Step: "s", Class: "crash", Code: "interrupted",
			Rule: recovery.Rule{ID: "crash.interrupted", Rung: 1}, Strategy: recovery.FailReassign, Result: recovery.ResultFailed})
	}
	h.Budget.Attempts = new(int64(1))
	if got, want := ways(walk(t, h, p, world{})), "fail_reassign escalate:ladder_exhausted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The task's own number of retries replaces the rule's (TSK-1).
func TestMaxRetriesOfTheTask(t *testing.T) {
	for retries, want := range []string{"escalate:ladder_exhausted", "fail_reassign escalate:ladder_exhausted",
		"fail_reassign fail_reassign escalate:ladder_exhausted"} {
		h := plain("crash", "oom")
		h.Checkpoint, h.MaxRetries = false, new(int64(retries))
		if got := ways(walk(t, h, recovery.Default(), world{})); got != want {
			t.Errorf("%d retries: %s, want %s", retries, got, want)
		}
	}
}

// Each step has its own place on every ladder; the limits are those of the case.
func TestStepsOfOneCase(t *testing.T) {
	p := rules(t, twoRetries)
	h := plain("tool", "error")
	for _, step := range []string{"a", "b"} {
		h.Step = step
		for range 2 {
			a, r := recovery.Decide(&h, p, 1)
			if a.Strategy != recovery.Retry {
				t.Fatalf("step %s: %v by %v", step, a, r)
			}
			h.Rungs = append(h.Rungs, h.RungOf(a, r, recovery.ResultFailed))
		}
	}
	h.Step, h.Budget.Attempts = "c", new(int64(4))
	if a, r := recovery.Decide(&h, p, 1); a.Reason != recovery.ReasonAttemptsExhausted || r.ID != recovery.RuleLimits {
		t.Errorf("%v by %v", a, r)
	}
}

// Another failure has another ladder, from its beginning; back at the first one,
// the case goes on where it was.
func TestAnotherFailureAnotherLadder(t *testing.T) {
	p := recovery.Default()
	h := plain("transient", "timeout")
	var got []recovery.Action
	for _, failure := range []string{"transient.timeout", "output.malformed", "transient.timeout", "transient.timeout",
		"output.malformed", "output.malformed", "transient.timeout"} {
		h.Failure.Class, h.Failure.Code, _ = strings.Cut(failure, ".")
		h.Budget.Attempts = new(int64(6))
		a, r := recovery.Decide(&h, p, 1)
		got = append(got, a)
		h.Rungs = append(h.Rungs, h.RungOf(a, r, recovery.ResultFailed))
	}
	const want = "retry retry_altered:stricter_schema retry fallback_model:alternate retry_altered:stricter_schema " +
		"fallback_model:long-context escalate:ladder_exhausted"
	if ways(got) != want {
		t.Errorf("\n got %s\nwant %s", ways(got), want)
	}
}

// What nobody observed escalates with that reason, and a guard may still raise it.
func TestNotObserved(t *testing.T) {
	w := world{result: recovery.ResultNotObserved}
	actions := walk(t, plain("transient", "timeout"), recovery.Default(), w)
	if got := ways(actions); got != "retry escalate:not_observed" {
		t.Error(got)
	}
	h := plain("tool", "error")
	h.SafetyCritical = true
	h.Rungs = []recovery.Rung{{Step: "s", Class: "tool", Code: "error", Strategy: recovery.Retry, Result: recovery.ResultNotObserved}}
	if a, r := recovery.Decide(&h, recovery.Default(), 1); r.ID != "safety_critical" {
		t.Errorf("%v by %v", a, r)
	}
}

// Where a rule asks for it, every attempt must be verified; success that nothing
// verified goes on up the ladder.
func TestUnverified(t *testing.T) {
	actions := walk(t, plain("output", "ungrounded"), recovery.Default(), world{result: recovery.ResultUnverified})
	if got := ways(actions); got != "state_reset:context retry_altered:fresh_context escalate:unverified" {
		t.Error(got)
	}
	for _, a := range actions {
		if a.Verify != a.Strategy.Attempts() {
			t.Errorf("%v: verify is %t", a, a.Verify)
		}
	}
	h := plain("output", "malformed")
	if a, _ := recovery.Decide(&h, recovery.Default(), 1); a.Verify {
		t.Errorf("%v: to be verified, though its rule does not ask for it", a)
	}
}

// Success ends the walk: nothing is decided any more.
func TestSuccessEnds(t *testing.T) {
	if got := ways(walk(t, plain("transient", "timeout"), recovery.Default(), world{result: recovery.ResultOK})); got != "retry" {
		t.Error(got)
	}
}

// A rung that the policy does not enable is passed over; enabled it is taken.
func TestEnabled(t *testing.T) {
	doc := strings.Replace(string(recovery.DefaultDocument()), "strategy: fallback_model, enabled: false", "strategy: fallback_model, enabled: true", 1)
	p, err := recovery.Load("policy.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got := ways(walk(t, plain("output", "refused"), p, world{})); got != "fallback_model:alternate escalate:ladder_exhausted" {
		t.Error(got)
	}
}
