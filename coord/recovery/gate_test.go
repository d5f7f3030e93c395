package recovery_test

import (
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// The effect gate comes before any ladder, and bars every rung that would repeat
// or roll back past an effect.
func TestEffectGate(t *testing.T) { runWalks(t, gateCases()) }

func gateCases() []walkCase {
	const policy = `rules:
  - id: all
    when: "true"
    ladder:
      - { strategy: retry }
      - { strategy: retry_altered, variant: reflect }
      - { strategy: fallback_model }
      - { strategy: checkpoint_resume }
      - { strategy: fail_reassign }
      - { strategy: state_reset, scope: context }
      - { strategy: state_reset, scope: verified }
      - { strategy: rollback }
      - { strategy: escalate }
`
	const (
		everything = "retry retry_altered:reflect fallback_model:cheap checkpoint_resume fail_reassign state_reset:context"
		undone     = "state_reset:verified rollback"
	)
	var cases []walkCase
	for _, c := range []struct {
		desc       string
		effect     entry.Effect
		effects    entry.Effects
		probe      entry.Effects
		replay     entry.ReplaySafety
		idempotent bool
		want       string
	}{
		{desc: "none", effect: entry.EffectIrrevocable, effects: entry.EffectsNone, want: everything + " " + undone + " escalate:after_rollback"},
		{desc: "unknown, of a step without effects", effect: entry.EffectNone, effects: entry.EffectsUnknown, want: everything + " " + undone + " escalate:after_rollback"},
		{desc: "not said, of a step without effects", effect: entry.EffectNone, want: everything + " " + undone + " escalate:after_rollback"},
		{desc: "partial, of a step said to have none", effect: entry.EffectNone, effects: entry.EffectsPartial, want: "reconcile escalate:effects_unknown"},
		{desc: "unknown", effect: entry.EffectReversible, effects: entry.EffectsUnknown, want: "reconcile escalate:effects_unknown"},
		{desc: "not said", effect: entry.EffectReversible, want: "reconcile escalate:effects_unknown"},
		{desc: "partial", effect: entry.EffectReversible, effects: entry.EffectsPartial, want: "reconcile escalate:effects_unknown"},
		{desc: "unknown, the probe says complete, reversible", effect: entry.EffectReversible, effects: entry.EffectsUnknown, probe: entry.EffectsComplete,
			want: "reconcile state_reset:verified reconcile rollback escalate:after_rollback"},
		{desc: "partial, the probe says complete, irrevocable", effect: entry.EffectIrrevocable, effects: entry.EffectsPartial, probe: entry.EffectsComplete,
			want: "reconcile escalate:effects_complete"},
		{desc: "unknown, idempotent, reversible", effect: entry.EffectReversible, effects: entry.EffectsUnknown, idempotent: true, want: everything + " " + undone + " escalate:after_rollback"},
		{desc: "unknown, replay safe, reversible", effect: entry.EffectReversible, effects: entry.EffectsUnknown, replay: entry.ReplaySafe, want: everything + " " + undone + " escalate:after_rollback"},
		{desc: "unknown, declared idempotent but replay unsafe", effect: entry.EffectReversible, effects: entry.EffectsUnknown, idempotent: true,
			replay: entry.ReplayUnsafe, want: "reconcile escalate:effects_unknown"},
		{desc: "unknown, idempotent, irrevocable", effect: entry.EffectIrrevocable, effects: entry.EffectsUnknown, idempotent: true, want: everything + " escalate:effects_complete"},
		{desc: "complete, reversible", effect: entry.EffectReversible, effects: entry.EffectsComplete, want: undone + " escalate:after_rollback"},
		{desc: "complete, compensable", effect: entry.EffectCompensable, effects: entry.EffectsComplete, want: "rollback escalate:after_rollback"},
		{desc: "complete, irrevocable", effect: entry.EffectIrrevocable, effects: entry.EffectsComplete, want: "escalate:effects_complete"},
		{desc: "complete, undeclared", effect: entry.EffectUndeclared, effects: entry.EffectsComplete, want: "escalate:effects_complete"},
		{desc: "complete, effect not said", effects: entry.EffectsComplete, want: "escalate:effects_complete"},
		{desc: "complete, irrevocable, idempotent", effect: entry.EffectIrrevocable, effects: entry.EffectsComplete, idempotent: true, want: everything + " escalate:effects_complete"},
	} {
		h := plain("tool", "error")
		h.Effect, h.Idempotent, h.Failure.Effects, h.Failure.ReplaySafety = c.effect, c.idempotent, c.effects, c.replay
		cases = append(cases, walkCase{name: c.desc, given: h, policy: policy, world: world{probe: c.probe}, want: c.want})
	}
	unverified := plain("tool", "error")
	unverified.Effect = entry.EffectCompensable
	return append(cases, walkCase{name: "none, then a success that nothing verified", given: unverified, policy: policy,
		world: world{result: recovery.ResultUnverified}, want: "retry rollback escalate:after_rollback"})
}
