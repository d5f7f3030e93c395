package recovery_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// walkMax is more decisions than any walk may take.
const walkMax = 200

// walkCase is a case that is decided to its end.
type walkCase struct {
	name   string
	given  recovery.History
	policy string // guards and rules in YAML; empty: the default policy
	world  world
	want   string // the ways taken, see ways
	// severity and question are of the escalation at the end; empty: error.
	severity entry.Severity
	question bool
	waits    []int64 // of all actions; nil: not looked at
}

// load returns the policy of a case.
func (c *walkCase) load(tb rapid.TB, standard *recovery.Policy) *recovery.Policy {
	if c.policy == "" {
		return standard
	}
	return rules(tb, c.policy)
}

// runWalks decides every case to its end.
func runWalks(t *testing.T, cases []walkCase) {
	t.Helper()
	standard := recovery.Default()
	for _, c := range cases {
		actions := walk(t, c.given, c.load(t, standard), c.world)
		last := actions[len(actions)-1]
		if got := ways(actions); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if severity := cmp.Or(c.severity, entry.SeverityError); last.Final() && last.Severity != severity || last.Question != c.question {
			t.Errorf("%s: ends with %v, want severity %s, question %t", c.name, last, severity, c.question)
		}
		if c.waits != nil && !slices.Equal(waits(actions), c.waits) {
			t.Errorf("%s: waits %v, want %v", c.name, waits(actions), c.waits)
		}
	}
}

func waits(actions []recovery.Action) []int64 {
	all := make([]int64, len(actions))
	for i := range actions {
		all[i] = actions[i].WaitMS
	}
	return all
}

// world answers for what is outside of the deciding: it carries out actions. At
// zero everything fails as it did before.
type world struct {
	result recovery.Result // of every attempt
	probe  entry.Effects   // what a reconcile finds out; empty: that nobody knows
	effort int64           // milliseconds that an attempt takes
}

func (w world) complete() world {
	w.result, w.probe = cmp.Or(w.result, recovery.ResultFailed), cmp.Or(w.probe, entry.EffectsUnknown)
	return w
}

// walk decides again and again, carries out each action, and returns all of
// them. It checks what must hold of every action.
func walk(tb rapid.TB, h recovery.History, p *recovery.Policy, w world) []recovery.Action {
	tb.Helper()
	decisions := walkRules(tb, h, p, w)
	all := make([]recovery.Action, len(decisions))
	for i := range decisions {
		all[i] = decisions[i].Action
	}
	return all
}

// walkRules is walk with the rule of each action.
func walkRules(tb rapid.TB, h recovery.History, p *recovery.Policy, w world) []decision {
	tb.Helper()
	var all []decision
	w = w.complete()
	now := max(h.StartedAt, 1)
	reported := h.Probe
	for range walkMax {
		a, r := recovery.Decide(&h, p, now)
		checkDecision(tb, &h, p, decision{a, r}, now)
		all = append(all, decision{a, r})
		if a.Final() {
			return all
		}
		result := recovery.ResultOK
		if a.Strategy.Attempts() {
			result = w.result
		}
		h.Rungs = append(h.Rungs, h.RungOf(a, r, result))
		switch {
		case a.Strategy == recovery.Reconcile:
			h.Probe = w.probe
		case a.Strategy.Attempts():
			h.Probe = reported // a new failure, nobody asked about yet
			now += w.effort
		}
		now += a.WaitMS
		if a.Strategy.Attempts() && result == recovery.ResultOK {
			return all
		}
	}
	tb.Fatalf("no end after %d decisions: %v", walkMax, all)
	return nil
}

// checkDecision is what every decision must keep to.
func checkDecision(tb rapid.TB, h *recovery.History, p *recovery.Policy, made decision, now int64) {
	tb.Helper()
	a, r := &made.Action, made.Rule
	again, rule := recovery.Decide(h, p, now)
	if again != *a || rule != r {
		tb.Fatalf("decided %v by %v, then %v by %v", a, r, again, rule)
	}
	steps := recovery.Explain(h, p, now)
	if last := steps[len(steps)-1]; last.Stage != "result" || last.Name != r.String() || last.Finding != a.String() {
		tb.Fatalf("decided %v by %v, explained %+v", a, r, last)
	}
	if a.Reason == "" || r.ID == "" {
		tb.Fatalf("%v by %v: no reason or no rule", a, r)
	}
	if (a.Variant != "") != (a.Strategy == recovery.RetryAltered) || (a.Scope != "") != (a.Strategy == recovery.StateReset) {
		tb.Fatalf("%v: a variant or scope too many or missing", a)
	}
	if ends := a.Final() || a.Strategy == recovery.Abort || a.Strategy == recovery.Quarantine; (a.Severity != "") != ends {
		tb.Fatalf("%v: a severity too many or missing", a)
	}
	if a.WaitMS < 0 || a.Strategy == recovery.Wait && a.WaitMS == 0 {
		tb.Fatalf("%v: waits %d ms", a, a.WaitMS)
	}
	checkFallback(tb, h, p, a)
}

// checkFallback is what may never happen when a model is replaced.
func checkFallback(tb rapid.TB, h *recovery.History, p *recovery.Policy, a *recovery.Action) {
	tb.Helper()
	if a.Strategy != recovery.FallbackModel {
		return
	}
	class, _ := h.Effective()
	budget, current := class == "budget", h.Model
	for i := range h.Rungs {
		past := &h.Rungs[i]
		if past.Step == h.Step && past.Model == a.Model || a.Model == h.Model {
			tb.Fatalf("%v: ran on that model before", a)
		}
		if past.Step == h.Step && past.Class == "safety" {
			tb.Fatalf("%v after a safety failure", a)
		}
		if past.Step == h.Step && past.Model != "" {
			current = past.Model
		}
		budget = budget || past.Class == "budget"
	}
	if class == "safety" {
		tb.Fatalf("%v for a safety failure", a)
	}
	if was, is := find(p, current), find(p, a.Model); budget && (was == nil || is.InputPrice > was.InputPrice || is.OutputPrice > was.OutputPrice) {
		tb.Fatalf("%v: dearer than %s after a budget failure", a, current)
	}
}

func find(p *recovery.Policy, name string) *recovery.Model {
	for _, m := range p.Models() {
		if m.Name == name {
			return &m
		}
	}
	return nil
}

// ways words actions without their pauses: "retry retry fallback_model:primary
// escalate:ladder_exhausted".
func ways(actions []recovery.Action) string {
	var all []string
	for _, a := range actions {
		text := string(a.Strategy)
		switch {
		case a.Variant != "":
			text += ":" + string(a.Variant)
		case a.Scope != "":
			text += ":" + string(a.Scope)
		case a.Strategy == recovery.FallbackModel:
			text += ":" + a.Model
		case a.Final():
			text += ":" + string(a.Reason)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// rules makes a policy of rules, with the limits, models and thresholds of the
// default one.
func rules(tb rapid.TB, yaml string) *recovery.Policy {
	tb.Helper()
	p, err := recovery.Load("test.yaml", []byte(document(yaml)))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// document is the file of a policy with these guards and rules.
func document(yaml string) string {
	const frame = `recovery:
  limits: { attempts: 20, cost_micro_usd: 2000000, tokens: 500000, deadline_ms: 900000 }
  models:
    - { name: cheap, account: a, context_tokens: 1000, input_micro_usd_per_mtok: 1, output_micro_usd_per_mtok: 10 }
    - { name: middle, account: a, context_tokens: 2000, input_micro_usd_per_mtok: 2, output_micro_usd_per_mtok: 20 }
    - { name: dear, account: b, context_tokens: 4000, input_micro_usd_per_mtok: 4, output_micro_usd_per_mtok: 40 }
  thresholds: { cases_min: 1, recovery_rate_min_ppm: 0, cost_per_case_max_micro_usd: 0, latency_p95_max_ms: 0, tolerance_ppm: 0 }
`
	return frame + indent(yaml)
}

func indent(yaml string) string {
	var b strings.Builder
	for line := range strings.Lines(yaml) {
		fmt.Fprintf(&b, "  %s", line)
	}
	return b.String()
}
