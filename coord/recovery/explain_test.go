package recovery_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// The reasoning names every stage: gate, guards, rule, ladder position, limits,
// result.
func TestExplain(t *testing.T) {
	h := plain("transient", "timeout")
	h.Effect, h.Failure.Effects, h.Probe = entry.EffectCompensable, entry.EffectsUnknown, entry.EffectsNone
	h.Rungs = []recovery.Rung{
		{Step: "s", Class: "transient", Code: "timeout", Rule: recovery.Rule{ID: "transient.timeout"}, Strategy: recovery.Retry, Result: recovery.ResultFailed},
		{Step: "s", Class: "transient", Code: "timeout", Rule: recovery.Rule{ID: "transient.timeout"}, Strategy: recovery.Retry, Result: recovery.ResultFailed},
	}
	var got strings.Builder
	for _, s := range recovery.Explain(&h, recovery.Default(), 1) {
		fmt.Fprintf(&got, "%s|%s|%s\n", s.Stage, s.Name, s.Finding)
	}
	const want = `failure|transient.timeout|effects none, executing again is safe; 2 attempts used
gate||effects none: open
guard|safety_critical|does not hold
guard|critical_side_effects|does not hold
guard|poisoned_loop|does not hold
rule|transient.timeout|is the first that matches
rung|0 retry|used 2 of 2 times
rung|1 fallback_model|taken, 1 of 1
limits||kept: 2 of 6 attempts used before this
result|transient.timeout[1]|fallback_model on alternate: ladder
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// Everything that stands against a rung, or for a guard, is said.
func TestExplainObstacles(t *testing.T) {
	p := rules(t, `guards:
  - { id: fence, when: benign, then: quarantine }
  - { id: stop, when: benign, then: abort }
  - { id: broken, when: 'tags[7] == "x"', then: escalate }
rules:
  - id: all
    when: "true"
    ladder:
      - { strategy: retry, enabled: false }
      - { strategy: retry_altered, variant: reflect, when: attempts > 99 }
      - { strategy: fallback_model }
      - { strategy: checkpoint_resume }
      - { strategy: reconcile }
      - { strategy: quarantine }
      - { strategy: wait, min_ms: 1, max_ms: 5 }
      - { strategy: fail_reassign, backoff: { base_ms: 900000, factor: 1, max_ms: 900000 } }
      - { strategy: rollback }
      - { strategy: retry_altered, variant: decompose, when: 'tags[7] == "x"' }
      - { strategy: escalate }
`)
	h := plain("safety", "content_filtered")
	h.Checkpoint, h.Benign, h.StartedAt, h.Effect, h.Idempotent = false, true, 1, entry.EffectIrrevocable, true
	h.Failure.Effects, h.Failure.RetryAfterMS, h.Probe = entry.EffectsUnknown, new(int64(6)), entry.EffectsUnknown
	h.Rungs = []recovery.Rung{
		{Step: "s", Class: "tool", Code: "error", Strategy: recovery.Quarantine, Result: recovery.ResultOK},
		{Step: "s", Class: "tool", Code: "error", Strategy: recovery.Abort, Result: recovery.ResultOK},
	}
	var got strings.Builder
	for _, s := range recovery.Explain(&h, p, 1) {
		fmt.Fprintf(&got, "%s|%s|%s\n", s.Stage, s.Name, s.Finding)
	}
	const want = `failure|safety.content_filtered|effects unknown, executing again is safe; 0 attempts used
gate||effects unknown, and executing again adds none: open
guard|fence|holds; quarantined already
guard|stop|holds; aborted already
guard|broken|cannot be evaluated: index out of bounds: 7
rule|all|is the first that matches
rung|0 retry|passed over: the policy does not enable it
rung|1 retry_altered(reflect)|passed over: its condition does not hold
rung|2 fallback_model|passed over: a fallback model must never take a safety failure
rung|3 checkpoint_resume|passed over: there is no usable checkpoint
rung|4 reconcile|passed over: reconciled already
rung|5 quarantine|passed over: done already
rung|6 wait|passed over: the server asks for a longer pause than the policy allows
rung|7 fail_reassign|passed over: its pause of 900000 ms outlasts the deadline
rung|8 rollback|passed over: a rollback must not go past an effect that cannot be undone
rung|9 retry_altered(decompose)|passed over: its condition cannot be evaluated: index out of bounds: 7
result|fence|escalate (critical): after_quarantine
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
