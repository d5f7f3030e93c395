package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// plain is a case without effects that nothing speaks against recovering.
func plain(class, code string) recovery.History {
	return recovery.History{Case: class + "." + code, Step: "s", Model: "primary", Effect: entry.EffectNone, Checkpoint: true,
		Failure: recovery.Failure{Class: class, Code: code, Effects: entry.EffectsNone, Evidence: true}}
}

// with changes a case.
func with(h recovery.History, change func(*recovery.History)) recovery.History {
	change(&h)
	return h
}

// table has the rows of the taxonomy's table, and of what it implies, with the
// way that a case goes if everything fails. It is written from the table, not
// from default.yaml. Names are class.code, and which case of it.
func table() []walkCase {
	noCheckpoint := func(h *recovery.History) { h.Checkpoint = false }
	idempotent := func(h *recovery.History) { h.Idempotent = true }
	doubtful := func(h *recovery.History) {
		h.Effect, h.Failure.Effects = entry.EffectCompensable, entry.EffectsUnknown
	}
	noEvidence := func(h *recovery.History) { h.Failure.Evidence = false }
	cases := []walkCase{
		{name: "transient.unavailable", want: "retry retry retry fallback_model:alternate escalate:ladder_exhausted"},
		{name: "transient.timeout", want: "retry retry fallback_model:alternate escalate:ladder_exhausted"},
		{name: "transient.timeout, effect gate", given: with(plain("transient", "timeout"), doubtful), want: "reconcile escalate:effects_unknown"},
		{name: "transient.timeout, effect gate opens", given: with(plain("transient", "timeout"), doubtful), world: world{probe: entry.EffectsNone},
			want: "reconcile retry reconcile retry reconcile fallback_model:alternate reconcile escalate:ladder_exhausted"},
		{name: "capacity.rate_limited", want: "wait retry retry retry fallback_model:alternate escalate:ladder_exhausted"},
		{name: "capacity.overloaded", want: "wait fallback_model:alternate escalate:ladder_exhausted"},
		{name: "capacity.quota_exhausted", want: "fallback_model:alternate escalate:ladder_exhausted"},
		{name: "capacity.quota_exhausted, of the other account", given: with(plain("capacity", "quota_exhausted"),
			func(h *recovery.History) { h.Model = "alternate" }), want: "fallback_model:primary escalate:ladder_exhausted"},
		{name: "request.context_overflow", want: "retry_altered:compact_context fallback_model:alternate escalate:ladder_exhausted"},
		{name: "request.context_overflow, of a long one", given: with(plain("request", "context_overflow"),
			func(h *recovery.History) { h.Model = "alternate" }), want: "retry_altered:compact_context fallback_model:long-context escalate:ladder_exhausted"},
		{name: "request.invalid", want: "retry_altered:repair_args escalate:ladder_exhausted"},
		{name: "output.malformed", want: "retry_altered:stricter_schema retry_altered:stricter_schema fallback_model:alternate escalate:ladder_exhausted"},
		{name: "output.hallucinated_tool", want: "retry_altered:reflect fallback_model:alternate escalate:ladder_exhausted"},
		{name: "output.bad_arguments", want: "retry_altered:repair_args retry_altered:repair_args retry_altered:alternate_tool escalate:ladder_exhausted"},
		{name: "output.ungrounded", want: "state_reset:context retry_altered:fresh_context escalate:ladder_exhausted"},
		{name: "output.ungrounded, without evidence", given: with(plain("output", "ungrounded"), noEvidence), want: "retry escalate:ladder_exhausted"},
		{name: "output.refused", want: "escalate:ladder_exhausted"},
		{name: "progress.no_progress", severity: entry.SeverityCritical, // four times the same: a poisoned loop
			want: "state_reset:progress retry_altered:decompose fail_reassign escalate:guard"},
		{name: "progress.no_progress, no checkpoint", given: with(plain("progress", "no_progress"), noCheckpoint),
			want: "retry_altered:decompose fail_reassign escalate:ladder_exhausted"},
		{name: "progress.no_progress, without evidence", given: with(plain("progress", "no_progress"), noEvidence), want: "retry escalate:ladder_exhausted"},
		{name: "progress.step_limit", want: "retry_altered:decompose escalate:ladder_exhausted"},
		{name: "progress.premature_end", want: "retry_altered:reflect fail_reassign escalate:ladder_exhausted"},
		{name: "progress.off_task", want: "state_reset:start fail_reassign escalate:ladder_exhausted"},
		{name: "progress.off_task, without evidence", given: with(plain("progress", "off_task"), noEvidence), want: "retry escalate:ladder_exhausted"},
		{name: "verify.gate_failed", want: "retry_altered:reflect retry_altered:reflect fallback_model:alternate escalate:ladder_exhausted"},
		{name: "verify.gate_failed, without evidence", given: with(plain("verify", "gate_failed"), noEvidence), want: "retry escalate:ladder_exhausted"},
		{name: "tool.error", want: "retry retry_altered:alternate_tool escalate:ladder_exhausted"},
		{name: "tool.error, not idempotent", given: with(plain("tool", "error"), func(h *recovery.History) {
			h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectReversible, entry.EffectsComplete, entry.ReplayUnsafe
		}), want: "escalate:effects_complete"},
		{name: "tool.error, idempotent", given: with(with(plain("tool", "error"), doubtful), idempotent),
			want: "retry retry_altered:alternate_tool escalate:ladder_exhausted"},
		{name: "tool.effect_uncertain", want: "reconcile escalate:ladder_exhausted"},
		{name: "tool.effect_uncertain, did not occur", given: with(plain("tool", "effect_uncertain"), doubtful), world: world{probe: entry.EffectsNone},
			want: "reconcile escalate:ladder_exhausted"},
		{name: "tool.effect_uncertain, occurred", given: with(plain("tool", "effect_uncertain"), doubtful), world: world{probe: entry.EffectsComplete},
			want: "reconcile escalate:ladder_exhausted"},
		{name: "tool.effect_uncertain, nobody knows", given: with(plain("tool", "effect_uncertain"), doubtful), want: "reconcile escalate:effects_unknown"},
		{name: "access.unauthenticated", want: "retry_altered:refresh_credential escalate:ladder_exhausted"},
		{name: "access.denied", want: "escalate:rule"},
		{name: "safety.content_filtered", want: "escalate:ladder_exhausted"},
		{name: "safety.content_filtered, benign", given: with(plain("safety", "content_filtered"), func(h *recovery.History) { h.Benign = true }),
			want: "retry_altered:reflect escalate:ladder_exhausted"},
		{name: "safety.violation", severity: entry.SeverityCritical, want: "quarantine escalate:after_quarantine"},
		{name: "budget.exceeded", want: "abort escalate:after_abort"},
		{name: "state.corrupt", want: "state_reset:verified rollback escalate:after_rollback"},
		{name: "state.corrupt, no checkpoint", given: with(plain("state", "corrupt"), noCheckpoint), want: "rollback escalate:after_rollback"},
		{name: "state.conflict", want: "retry_altered:reread escalate:ladder_exhausted"},
		{name: "coord.dependency_failed", want: "wait rollback escalate:after_rollback"},
		{name: "coord.delegation_failed", question: true, want: "fail_reassign escalate:ladder_exhausted"},
		{name: "crash.lost", want: "checkpoint_resume checkpoint_resume escalate:ladder_exhausted"},
		{name: "crash.oom", want: "checkpoint_resume checkpoint_resume escalate:ladder_exhausted"},
		{name: "crash.panic", want: "checkpoint_resume checkpoint_resume escalate:ladder_exhausted"},
		{name: "crash.lost, no checkpoint", given: with(plain("crash", "lost"), noCheckpoint), want: "fail_reassign escalate:ladder_exhausted"},
		{name: "crash.oom, no checkpoint", given: with(plain("crash", "oom"), noCheckpoint), want: "fail_reassign escalate:ladder_exhausted"},
		{name: "crash.panic, no checkpoint", given: with(plain("crash", "panic"), noCheckpoint), want: "fail_reassign escalate:ladder_exhausted"},
		{name: "crash.lost, effect gate", given: with(plain("crash", "lost"), doubtful), want: "reconcile escalate:effects_unknown"},
		{name: "crash.interrupted", want: strings.Repeat("checkpoint_resume ", 8) + "escalate:ladder_exhausted"},
		{name: "crash.interrupted, no checkpoint", given: with(plain("crash", "interrupted"), noCheckpoint),
			want: strings.Repeat("fail_reassign ", 8) + "escalate:ladder_exhausted"},
		{name: "unknown.unknown", want: "retry escalate:ladder_exhausted"},
		{name: "unknown.unknown, effects", given: with(plain("unknown", "unknown"), func(h *recovery.History) {
			h.Effect, h.Failure.Effects, h.Idempotent = entry.EffectReversible, entry.EffectsComplete, true
		}), want: "escalate:ladder_exhausted"},
		{name: "of_our_own.invention", want: "retry escalate:ladder_exhausted"},

		// codes that their class does not know
		{name: "transient.new", want: "retry retry retry fallback_model:alternate escalate:ladder_exhausted"},
		{name: "capacity.new", want: "wait fallback_model:alternate escalate:ladder_exhausted"},
		{name: "request.new", want: "retry_altered:repair_args escalate:ladder_exhausted"},
		{name: "output.new", want: "retry escalate:ladder_exhausted"},
		{name: "progress.new", want: "retry escalate:ladder_exhausted"},
		{name: "verify.new", want: "retry escalate:ladder_exhausted"},
		{name: "tool.new", want: "retry retry_altered:alternate_tool escalate:ladder_exhausted"},
		{name: "access.new", want: "escalate:rule"},
		{name: "safety.new", severity: entry.SeverityCritical, want: "quarantine escalate:after_quarantine"},
		{name: "budget.new", want: "abort escalate:after_abort"},
		{name: "state.new", want: "escalate:rule"},
		{name: "coord.new", want: "escalate:rule"},
		{name: "crash.new", want: "checkpoint_resume checkpoint_resume escalate:ladder_exhausted"},
	}
	for i := range cases {
		if cases[i].given.Case == "" {
			class, code, _ := strings.Cut(cases[i].name, ".")
			cases[i].given = plain(class, code)
		}
	}
	return cases
}

// Every row of the taxonomy is taken by the default policy as it is written.
func TestDefaultPolicyIsTheTable(t *testing.T) {
	runWalks(t, table())
	var covered []string
	for _, c := range table() {
		name, _, _ := strings.Cut(c.name, ",")
		covered = append(covered, name)
	}
	for _, class := range entry.Classes() {
		for _, code := range append(entry.Codes(class), "new") {
			if name := class + "." + code; class != entry.ClassUnknown && !slices.Contains(covered, name) {
				t.Errorf("%s has no row", name)
			}
		}
	}
}

// Every strategy, variant and scope is taken by some row, or by a policy that
// has it.
func TestEveryStrategyIsTaken(t *testing.T) {
	var taken []string
	for _, c := range table() {
		for way := range strings.FieldsSeq(c.want) {
			taken = append(taken, way)
			strategy, _, _ := strings.Cut(way, ":")
			taken = append(taken, strategy)
		}
	}
	for _, s := range recovery.Strategies() {
		if !slices.Contains(taken, string(s)) {
			t.Errorf("no row takes %s", s)
		}
	}
	for _, scope := range recovery.Scopes() {
		if !slices.Contains(taken, fmt.Sprintf("%s:%s", recovery.StateReset, scope)) {
			t.Errorf("no row takes the scope %s", scope)
		}
	}
	for _, v := range recovery.Variants() {
		if v == recovery.LowerVariance { // in no row of the table: see the test of all variants
			continue
		}
		if !slices.Contains(taken, fmt.Sprintf("%s:%s", recovery.RetryAltered, v)) {
			t.Errorf("no row takes the variant %s", v)
		}
	}
}

// A policy may use every variant.
func TestEveryVariantCanBeTaken(t *testing.T) {
	for _, v := range recovery.Variants() {
		p := rules(t, fmt.Sprintf(`rules:
  - id: all
    when: "true"
    ladder: [{ strategy: retry_altered, variant: %s }, { strategy: escalate }]
`, v))
		want := fmt.Sprintf("retry_altered:%s escalate:ladder_exhausted", v)
		if got := ways(walk(t, plain("tool", "error"), p, world{})); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
