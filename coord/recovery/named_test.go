package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// namedPolicy has a rule for crashes of one type of task that names a strategy,
// and gives the step to another agent if that does not answer.
func namedPolicy(t *testing.T, name, capabilities string) *recovery.Policy {
	t.Helper()
	declared := ""
	if !slices.Contains(recovery.Strategies(), recovery.Strategy(name)) {
		declared = strategies(name, capabilities)
	}
	rule := fmt.Sprintf("    - id: etl_crash\n      when: class == \"crash\" && task_type == \"etl\"\n      strategy: %s\n"+
		"      ladder:\n        - { strategy: fail_reassign }\n        - { strategy: escalate }\n", name)
	p, err := recovery.Load("p.yaml", []byte(strings.Replace(lintBase, "  rules:\n", declared+"  rules:\n"+rule, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fixed is a strategy that always answers the same.
type fixed struct {
	name   string
	answer recovery.Action
	err    error
	asked  *int
}

func (f fixed) About() recovery.About { return recovery.About{Name: f.name, Version: "1"} }

func (f fixed) Recover(context.Context, recovery.Case) (recovery.Action, error) {
	*f.asked++
	return f.answer, f.err
}

func crash(change func(*recovery.History)) *recovery.History {
	h := failedStep("crash", "oom", change)
	h.TaskType = "etl"
	return h
}

// A strategy that is registered in Go is asked where the policy names it, for one
// type of task and one class of failure, and nowhere else; what it answers stands
// with its name, and if it does not answer the ladder decides and says so.
func TestRecoverAsksTheNamedStrategy(t *testing.T) {
	p := namedPolicy(t, "triage", "retry, rollback, quarantine")
	retry, down := recovery.Action{Strategy: recovery.Retry, Reason: "cheap"}, errors.New("down")
	for _, c := range []struct {
		desc   string
		h      *recovery.History
		answer recovery.Action
		err    error
		asked  int
		want   string
		failed error
	}{
		{"its answer", crash(nil), retry, nil, 1, "triage retry on primary: cheap", nil},
		{"another type of task", failedStep("crash", "oom", nil), retry, nil, 0, "last[0] escalate (error): rule", nil},
		{"another class", func() *recovery.History { h := failedStep("tool", "error", nil); h.TaskType = "etl"; return h }(), retry, nil, 0, "last[0] escalate (error): rule", nil},
		{"it fails", crash(nil), retry, down, 1, "etl_crash[0] fail_reassign on primary: strategy_failed", down},
		{"it chooses what it does not declare", crash(nil), recovery.Action{Strategy: recovery.Escalate}, nil, 1, "etl_crash[0] fail_reassign on primary: strategy_failed", recovery.ErrIncapable},
		{"a guard is before it", crash(func(h *recovery.History) { h.SafetyCritical = true }), retry, nil, 1, "guard escalate (error): guard", nil},
		{
			"effects in doubt are not its business",
			crash(func(h *recovery.History) {
				h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectIrrevocable, entry.EffectsUnknown, ""
			}),
			retry, nil, 0, "gate reconcile: effects_uncertain", nil,
		},
		{
			"what a rung may not do",
			crash(func(h *recovery.History) {
				h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectIrrevocable, entry.EffectsComplete, entry.ReplayUnsafe
			}),
			retry, nil, 1, "triage escalate (error): effects_complete", nil,
		},
		{
			"after its fence a person decides",
			crash(func(h *recovery.History) {
				h.Rungs = []recovery.Rung{{Step: "s", Class: "crash", Code: "oom", Rule: recovery.Rule{ID: "triage", Rung: -1}, Strategy: recovery.Quarantine, Result: recovery.ResultDecided}}
			}),
			retry, nil, 0, "triage escalate (critical): after_quarantine", nil,
		},
		{
			"it was asked too often",
			crash(func(h *recovery.History) {
				h.Rungs = slices.Repeat([]recovery.Rung{{Step: "s", Class: "crash", Code: "oom", Rule: recovery.Rule{ID: "triage", Rung: -1}, Strategy: recovery.Wait, Result: recovery.ResultOK}}, 64)
			}),
			retry, nil, 0, "etl_crash[0] fail_reassign on primary: strategy_failed", recovery.ErrTooOften,
		},
	} {
		asked := 0
		got, err := recovery.Recover(t.Context(), recovery.Case{History: c.h}, p, 1, []recovery.RecoveryStrategy{fixed{"triage", c.answer, c.err, &asked}})
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Rule.String() + " " + got.Action.String(); text != c.want || asked != c.asked || !errors.Is(got.Failed, c.failed) {
			t.Errorf("%s: %s, asked %d times, %v\nwant %s, %d, %v", c.desc, text, asked, got.Failed, c.want, c.asked, c.failed)
		}
	}
	got, err := recovery.Recover(t.Context(), recovery.Case{History: crash(nil)}, p, 1, nil)
	if err != nil || !errors.Is(got.Failed, recovery.ErrNotRegistered) || got.Action.Strategy != recovery.FailReassign || got.Action.Reason != recovery.ReasonStrategyMissing {
		t.Errorf("a strategy that nobody registered: %+v, %v", got, err)
	}
	got, err = recovery.Recover(t.Context(), recovery.Case{History: crash(nil)}, p, 1, []recovery.RecoveryStrategy{fixed{name: "triage"}}) // which counts nowhere
	if err != nil || !errors.Is(got.Failed, recovery.ErrPanicked) || got.Action.Strategy != recovery.FailReassign || got.Action.Reason != recovery.ReasonStrategyFailed {
		t.Errorf("a strategy that panics: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asked := 0
	if _, err := recovery.Recover(ctx, recovery.Case{History: crash(nil)}, p, 1, []recovery.RecoveryStrategy{fixed{"triage", retry, nil, &asked}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// The built-in strategies say who they are, choose what they declare, and come to
// an end; checkpoint_resume resumes twice, then gives the step away, and an
// interruption uses nothing up.
func TestBuiltInStrategies(t *testing.T) {
	all := recovery.BuiltIn()
	if len(all) != len(recovery.Strategies()) {
		t.Fatalf("%d built-in strategies", len(all))
	}
	two := int64(2)
	for _, c := range []struct {
		name, code string
		change     func(*recovery.History)
		want       string
	}{
		{"fail_reassign", "lost", nil, "fail_reassign escalate"},
		{"fail_reassign", "lost", func(h *recovery.History) { h.MaxRetries = &two }, "fail_reassign fail_reassign escalate"},
		{"fail_reassign", "interrupted", nil, "fail_reassign fail_reassign fail_reassign fail_reassign fail_reassign"},
		{"checkpoint_resume", "oom", func(h *recovery.History) { h.Checkpoint = true }, "checkpoint_resume checkpoint_resume fail_reassign escalate"},
		{"checkpoint_resume", "oom", nil, "fail_reassign escalate"},
		{"checkpoint_resume", "interrupted", func(h *recovery.History) { h.Checkpoint = true }, "checkpoint_resume checkpoint_resume checkpoint_resume checkpoint_resume checkpoint_resume"},
		{"retry", "lost", nil, "retry escalate"},
		{"retry_altered", "lost", nil, "retry_altered(fresh_context) escalate"},
		{"state_reset", "lost", nil, "state_reset(context) escalate"},
		{"state_reset", "lost", func(h *recovery.History) { h.Checkpoint = true }, "state_reset(verified) escalate"},
		{"wait", "lost", nil, "wait escalate"},
		{"reconcile", "lost", nil, "reconcile escalate"},
		{"rollback", "lost", nil, "rollback escalate"},
		{"quarantine", "lost", nil, "quarantine escalate"},
		{"abort", "lost", nil, "abort escalate"},
		{"fallback_model", "lost", nil, "fallback_model escalate"},
		{"escalate", "lost", nil, "escalate"},
	} {
		at := slices.IndexFunc(all, func(s recovery.RecoveryStrategy) bool { return s.About().Name == c.name })
		about := all[at].About()
		h := failedStep("crash", c.code, c.change)
		var chosen []string
		for range 5 {
			a, err := recovery.Ask(t.Context(), recovery.Case{History: h}, &about, nil)
			if err != nil || about.Version == "" {
				t.Fatalf("%s: %v", c.name, err)
			}
			text, _, _ := strings.Cut(a.String(), ":")
			text, _, _ = strings.Cut(text, " ")
			chosen = append(chosen, text)
			if a.Final() {
				break
			}
			h.Rungs = append(h.Rungs, h.RungOf(a, recovery.Rule{ID: c.name, Rung: -1}, recovery.ResultFailed))
		}
		if got := strings.Join(chosen, " "); got != c.want {
			t.Errorf("%s after crash.%s: %s, want %s", c.name, c.code, got, c.want)
		}
	}
}

// A rule that names a built-in strategy needs no registration.
func TestRecoverAsksBuiltIn(t *testing.T) {
	p := namedPolicy(t, "checkpoint_resume", "")
	got, err := recovery.Recover(t.Context(), recovery.Case{History: crash(func(h *recovery.History) { h.Checkpoint = true })}, p, 1, nil)
	if err != nil || got.Failed != nil || got.Asked != "checkpoint_resume" || got.Action.Strategy != recovery.CheckpointResume {
		t.Errorf("decision %+v, %v", got, err)
	}
}

// An answer that is no action is none, whoever gives it: the ladder decides, and
// what is wrong is said with its field.
func TestRecoverChecksAnswers(t *testing.T) {
	p := namedPolicy(t, "triage", "retry, retry_altered, state_reset, wait")
	long := strings.Repeat("m", entry.MaxName+1)
	for _, c := range []struct {
		field  string // empty: it is an action
		answer recovery.Action
	}{
		{"", recovery.Action{Strategy: recovery.RetryAltered, Variant: recovery.Reflect, Severity: entry.SeverityInfo, Model: long[1:], Reason: recovery.Reason(strings.Repeat("r", 64))}},
		{"", recovery.Action{Strategy: recovery.StateReset, Scope: recovery.ScopeContext, WaitMS: entry.MaxInteger}},
		{"/strategy", recovery.Action{}},
		{"/strategy", recovery.Action{Strategy: "pray"}},
		{"/variant", recovery.Action{Strategy: recovery.RetryAltered}},
		{"/variant", recovery.Action{Strategy: recovery.RetryAltered, Variant: "louder"}},
		{"/variant", recovery.Action{Strategy: recovery.Retry, Variant: recovery.Reflect}},
		{"/scope", recovery.Action{Strategy: recovery.StateReset}},
		{"/scope", recovery.Action{Strategy: recovery.StateReset, Scope: "everything"}},
		{"/scope", recovery.Action{Strategy: recovery.Wait, Scope: recovery.ScopeStart}},
		{"/severity", recovery.Action{Strategy: recovery.Retry, Severity: "dire"}},
		{"/model", recovery.Action{Strategy: recovery.Retry, Model: long}},
		{"/model", recovery.Action{Strategy: recovery.Retry, Model: "a b"}},
		{"/reason", recovery.Action{Strategy: recovery.Retry, Reason: recovery.Reason(strings.Repeat("r", 65))}},
		{"/reason", recovery.Action{Strategy: recovery.Retry, Reason: "Why not"}},
		{"/wait_ms", recovery.Action{Strategy: recovery.Wait, WaitMS: -1}},
		{"/wait_ms", recovery.Action{Strategy: recovery.Wait, WaitMS: entry.MaxInteger + 1}},
	} {
		asked := 0
		got, err := recovery.Recover(t.Context(), recovery.Case{History: crash(nil)}, p, 1, []recovery.RecoveryStrategy{fixed{"triage", c.answer, nil, &asked}})
		if err != nil {
			t.Fatal(err)
		}
		wrong, refused := errors.AsType[*recovery.AnswerError](got.Failed)
		switch {
		case c.field == "" && (got.Failed != nil || got.Asked != "triage"):
			t.Errorf("%+v: %v", c.answer, got.Failed)
		case c.field != "" && (!refused || wrong.Field != c.field || wrong.Remedy == "" || got.Action.Reason != recovery.ReasonStrategyFailed):
			t.Errorf("%+v: %+v, %v; want field %s", c.answer, got.Action, got.Failed, c.field)
		}
	}
}

// A rule that names a strategy which nobody registered is found, with its place in
// the file; what is built in or registered is not missing.
func TestMissingStrategies(t *testing.T) {
	p := namedPolicy(t, "triage", "retry")
	missing := p.Missing([]recovery.RecoveryStrategy{fixed{name: "oracle"}})
	if len(missing) != 1 || missing[0].Strategy != "triage" || missing[0].File != "p.yaml" || missing[0].Line == 0 || missing[0].Field != "recovery.rules[0].strategy" {
		t.Errorf("missing %+v", missing)
	}
	if all := p.Missing([]recovery.RecoveryStrategy{fixed{name: "triage"}}); all != nil {
		t.Errorf("registered, and missing %+v", all)
	}
	if all := namedPolicy(t, "checkpoint_resume", "").Missing(nil); all != nil {
		t.Errorf("built in, and missing %+v", all)
	}
	if all := recovery.Default().Missing(nil); all != nil {
		t.Errorf("named by nobody, and missing %+v", all)
	}
}

// TestEntryOfADecision: an attempt entry says what was decided, and whether the case goes on.
func TestEntryOfADecision(t *testing.T) {
	goesOn := []recovery.Strategy{recovery.Retry, recovery.RetryAltered, recovery.FallbackModel, recovery.StateReset, recovery.FailReassign,
		recovery.CheckpointResume, recovery.Reconcile, recovery.Wait}
	for _, s := range recovery.Strategies() {
		want := entry.StatusEscalated
		if slices.Contains(goesOn, s) {
			want = entry.StatusPassedOn
		}
		if got := s.CaseStatus(); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
	d := recovery.Decision{Rule: recovery.Rule{ID: "r", Rung: 1}, Action: recovery.Action{Strategy: recovery.RetryAltered, Variant: recovery.Reflect,
		Model: "m", WaitMS: 7, Reason: recovery.ReasonLadder}}
	want := entry.Rung{Attempt: 2, Class: "output", Code: "malformed", Rule: "r", Strategy: "retry_altered", Variant: "reflect", Model: "m",
		Result: "decided", WaitMS: new(int64(7)), Reason: "ladder"}
	if got := d.EntryRung(2, "output", "malformed", recovery.ResultDecided); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	d.Action = recovery.Action{Strategy: recovery.StateReset, Scope: recovery.ScopeVerified}
	if got := d.EntryRung(0, "", "", ""); got.Variant != "verified" || got.WaitMS != nil {
		t.Errorf("%+v", got)
	}
}
