package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

func oneOf[T any](values ...T) *rapid.Generator[T] { return rapid.SampledFrom(values) }

// anyHistory draws a case: any failure, any facts, no past.
func anyHistory(t *rapid.T) recovery.History {
	count := func(name string, most int64) *int64 {
		if rapid.Bool().Draw(t, name+" given") {
			return new(rapid.Int64Range(0, most).Draw(t, name))
		}
		return nil
	}
	class := oneOf(append(entry.Classes(), "invented")...).Draw(t, "class")
	return recovery.History{
		Case: "c", Step: "s", Seed: rapid.Int64().Draw(t, "seed"), Epoch: rapid.Int64Range(0, 3).Draw(t, "epoch"),
		Risk:           oneOf("", "low", "critical").Draw(t, "risk"),
		SafetyCritical: rapid.IntRange(0, 9).Draw(t, "safety critical") == 0,
		Benign:         rapid.Bool().Draw(t, "benign"),
		Tags:           oneOf(nil, []string{"a"}, []string{"a", "b"}, []string{"adversarial"}, []string{"holdout"}).Draw(t, "tags"),
		Model:          oneOf("", "primary", "alternate", "long-context", "cheap", "middle", "dear", "else").Draw(t, "model"),
		Effect: oneOf("", entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable,
			entry.EffectUndeclared).Draw(t, "effect"),
		Idempotent: rapid.Bool().Draw(t, "idempotent"),
		Checkpoint: rapid.Bool().Draw(t, "checkpoint"),
		Failure:    anyFailure(t, class),
		Budget:     recovery.Budget{Attempts: count("attempts", 9), DeadlineMS: count("deadline", 100000)},
		MaxRetries: count("max retries", 100),
		StartedAt:  rapid.Int64Range(0, 1).Draw(t, "started"),
	}
}

func anyFailure(t *rapid.T, class string) recovery.Failure {
	f := recovery.Failure{
		Class: class, Code: oneOf(append(entry.Codes(class), "new")...).Draw(t, "code"),
		Effects:      oneOf("", entry.EffectsNone, entry.EffectsPartial, entry.EffectsComplete, entry.EffectsUnknown).Draw(t, "effects"),
		ReplaySafety: oneOf("", entry.ReplaySafe, entry.ReplayUnsafe, entry.ReplayUnknown).Draw(t, "replay safety"),
		Evidence:     rapid.Bool().Draw(t, "evidence"),
	}
	if rapid.Bool().Draw(t, "asked to wait") {
		f.RetryAfterMS = new(rapid.Int64Range(0, 200000).Draw(t, "retry after"))
	}
	return f
}

// anyPolicy draws a policy that loads.
func anyPolicy(t *rapid.T) *recovery.Policy {
	rung := rapid.Custom(func(t *rapid.T) string {
		text := oneOf("strategy: retry, max: 3, backoff: { base_ms: 10, factor: 2, max_ms: 100, jitter_ppm: 1000000 }",
			"strategy: fallback_model, max: 3", "strategy: fallback_model, account: other", "strategy: fallback_model, context: larger, max: 64",
			"strategy: fail_reassign, max: 64", "strategy: checkpoint_resume, max: 64", "strategy: reconcile", "strategy: rollback",
			"strategy: quarantine", "strategy: abort", "strategy: wait, min_ms: 1, max_ms: 60000",
			"strategy: retry_altered, max: 2, variant: "+string(oneOf(recovery.Variants()...).Draw(t, "variant")),
			"strategy: state_reset, scope: "+string(oneOf(recovery.Scopes()...).Draw(t, "scope"))).Draw(t, "rung")
		if condition := oneOf("", "", "idempotent", "tags[1] == 'b'", "attempts < 3", "'retry' in tried", "repeats > 1").Draw(t, "rung when"); condition != "" {
			text += fmt.Sprintf(", when: %q", condition)
		}
		return text
	})
	ladder := func(t *rapid.T) string {
		rungs := rapid.SliceOfNDistinct(rung, 0, 8, func(text string) string {
			way, _, _ := strings.Cut(text, ", when")
			way, _, _ = strings.Cut(strings.Replace(way, "max: 2, ", "", 1), ", max")
			return way
		}).Draw(t, "rungs")
		return "[{ " + strings.Join(append(rungs, "strategy: escalate"), " }, { ") + " }]"
	}
	var doc strings.Builder
	doc.WriteString("guards:\n")
	for i := range rapid.IntRange(0, 3).Draw(t, "guards") {
		fmt.Fprintf(&doc, "  - { id: g%d, when: %q, then: %s, severity: %s }\n", i,
			oneOf("repeats > 3", "attempts >= 2", "tags[0] == 'a'", "class == 'safety'", "effects != 'none'", "true").Draw(t, "guard when"),
			oneOf("escalate", "abort", "quarantine").Draw(t, "then"), oneOf("info", "critical").Draw(t, "severity"))
	}
	if !strings.Contains(doc.String(), "-") {
		doc.Reset()
	}
	doc.WriteString("rules:\n")
	for i, when := range []string{"effects == 'unknown' && repeats == 2", `class in ["transient", "capacity", "budget"]`, "tags.exists(t, t == 'b')", "tags.exists(t, t == 'adversarial')", "true"} {
		if i == 4 || rapid.Bool().Draw(t, "rule") {
			fmt.Fprintf(&doc, "  - { id: r%d, when: %q, verify: %t, ladder: %s }\n", i, when, rapid.Bool().Draw(t, "verify"), ladder(t))
		}
	}
	p, err := recovery.Load("any.yaml", []byte(document(doc.String())))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.String())
	}
	return p
}

// Whatever the policy, the case and the answers of the world: the walk ends, the
// decisions repeat, no fallback breaks its rules (see checkDecision), and the
// limits are kept.
func TestPropertyWalks(t *testing.T) {
	standard := recovery.Default()
	rapid.Check(t, func(t *rapid.T) {
		p := standard
		if rapid.Bool().Draw(t, "own policy") {
			p = anyPolicy(t)
		}
		h := anyHistory(t)
		reported, now, attempts := h.Probe, int64(1), int64(0)
		for n := 0; ; n++ {
			if n == walkMax {
				t.Fatalf("no end after %d decisions", n)
			}
			a, r := recovery.Decide(&h, p, now)
			checkDecision(t, &h, p, decision{a, r}, now)
			checkEffects(t, &h, &a)
			if a.Final() {
				return
			}
			class, code := h.Effective()
			result := recovery.ResultOK
			if a.Strategy.Attempts() {
				result = oneOf(recovery.ResultFailed, recovery.ResultFailed, recovery.ResultFailed, recovery.ResultUnverified,
					recovery.ResultNotObserved).Draw(t, "result")
				if class != "crash" || code != "interrupted" {
					attempts++
				}
			}
			if limit := p.Limits().Attempts; attempts > limit || h.Budget.Attempts != nil && attempts > *h.Budget.Attempts {
				t.Fatalf("%d attempts", attempts)
			}
			h.Rungs = append(h.Rungs, h.RungOf(a, r, result))
			now += a.WaitMS + rapid.Int64Range(0, 1000).Draw(t, "effort")
			switch {
			case a.Strategy == recovery.Reconcile:
				h.Probe = oneOf("", entry.EffectsNone, entry.EffectsComplete, entry.EffectsUnknown).Draw(t, "probe")
			case a.Strategy.Attempts():
				h.Probe = reported
				if rapid.Bool().Draw(t, "fails in another way") {
					h.Failure = anyFailure(t, oneOf(entry.Classes()...).Draw(t, "class"))
				}
			}
		}
	})
}

// checkEffects is the effect gate, said in another way than the code says it.
func checkEffects(t *rapid.T, h *recovery.History, a *recovery.Action) {
	t.Helper()
	repeatable := h.Failure.ReplaySafety == entry.ReplaySafe || h.Idempotent && h.Failure.ReplaySafety != entry.ReplayUnsafe
	harmless := h.Failure.Effects == entry.EffectsNone ||
		h.Effect == entry.EffectNone && (h.Failure.Effects == "" || h.Failure.Effects == entry.EffectsUnknown) ||
		h.Failure.Effects != entry.EffectsComplete && h.Probe == entry.EffectsNone
	for i := range h.Rungs {
		if last := &h.Rungs[len(h.Rungs)-1-i]; last.Step == h.Step {
			harmless = harmless && (last.Result != recovery.ResultUnverified || h.Effect == entry.EffectNone)
			break
		}
	}
	back := a.Strategy == recovery.Rollback || a.Strategy == recovery.StateReset && a.Scope != recovery.ScopeContext
	lost := slices.Contains([]entry.Effect{"", entry.EffectIrrevocable, entry.EffectUndeclared}, h.Effect)
	if a.Strategy.Attempts() && !back && !repeatable && !harmless {
		t.Fatalf("%v would add an effect", a)
	}
	if back && lost && !harmless {
		t.Fatalf("%v rolls back past what cannot be undone", a)
	}
}

// TestNoSliceRepeatsAnEffect has candidates that try again in one slice alone: where an effect may
// be there, and another execution is not known to be safe, none of them executes anything, in any
// slice. TestPropertyWalks asks the same of policies and cases of any kind.
func TestNoSliceRepeatsAnEffect(t *testing.T) {
	for _, slice := range []string{"adversarial", "holdout"} {
		p := rules(t, fmt.Sprintf("rules:\n  - { id: s, when: \"tags.exists(t, t == '%s')\", ladder: [{ strategy: fail_reassign, max: 3 }, { strategy: escalate }] }\n", slice)+
			"  - { id: rest, when: \"true\", ladder: [{ strategy: escalate }] }\n")
		for _, tags := range [][]string{nil, {slice}, {"adversarial", "holdout"}} {
			for _, effects := range []entry.Effects{entry.EffectsPartial, entry.EffectsComplete, entry.EffectsUnknown} {
				for _, safety := range []entry.ReplaySafety{entry.ReplaySafe, entry.ReplayUnsafe, entry.ReplayUnknown} {
					h := recovery.History{Case: "c", Step: "s", Tags: tags, Effect: entry.EffectIrrevocable,
						Failure: recovery.Failure{Class: "transient", Code: "timeout", Effects: effects, ReplaySafety: safety}}
					for range 3 { // the probe finds nothing out
						a, r := recovery.Decide(&h, p, 1)
						if executes := a.Strategy.Attempts(); executes != (safety == entry.ReplaySafe && len(tags) > 0) {
							t.Errorf("slice %s, case of %q: effects %s, %s to repeat: %v", slice, tags, effects, safety, a)
						}
						if a.Final() {
							break
						}
						h.Rungs = append(h.Rungs, h.RungOf(a, r, recovery.ResultFailed))
						h.Probe = entry.EffectsUnknown
					}
				}
			}
		}
	}
}

// No guard makes anything milder: with guards, a decision is at least as grave
// as without.
func TestPropertyGuardsOnlyRaise(t *testing.T) {
	const without = `rules:
  - { id: a, when: class == "transient", ladder: [{ strategy: retry }, { strategy: escalate, severity: info }] }
  - { id: b, when: class == "safety", ladder: [{ strategy: quarantine }, { strategy: escalate, severity: critical }] }
  - { id: c, when: class == "budget", ladder: [{ strategy: abort }, { strategy: escalate }] }
  - { id: d, when: "true", ladder: [{ strategy: wait, min_ms: 1, max_ms: 1 }, { strategy: rollback }, { strategy: escalate, severity: warning }] }
`
	bare := rules(t, without)
	rank := func(a recovery.Action) int {
		severity := slices.Index([]entry.Severity{"", "info", "warning", "error", "critical"}, a.Severity)
		return 10*slices.Index([]recovery.Strategy{recovery.Escalate, recovery.Abort, recovery.Quarantine}, a.Strategy) + severity
	}
	var guarded []*recovery.Policy
	for _, then := range []string{"escalate", "abort", "quarantine"} {
		for _, severity := range []string{"info", "warning", "error", "critical"} {
			guarded = append(guarded, rules(t, fmt.Sprintf("guards: [{ id: g, when: \"attempts >= 0\", then: %s, severity: %s }]\n%s", then, severity, without)))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := anyHistory(t)
		milder, _ := recovery.Decide(&h, bare, 1)
		graver, _ := recovery.Decide(&h, oneOf(guarded...).Draw(t, "policy"), 1)
		if rank(graver) < rank(milder) {
			t.Fatalf("%v without guards, %v with", milder, graver)
		}
	})
}
