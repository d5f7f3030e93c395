package recovery_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// walkMax is more decisions than any walk may take.
const walkMax = 200

// world answers for what is outside of the deciding: it carries out actions.
type world struct {
	result recovery.Result // of every attempt
	probe  entry.Effects   // what a reconcile finds out
	effort int64           // milliseconds that an attempt takes
}

// failing is a world in which every attempt fails as the one before it did.
func failing() world { return world{result: recovery.ResultFailed, probe: entry.EffectsUnknown} }

// walk decides again and again, carries out each action, and returns all of
// them. It checks what must hold of every action.
func walk(tb rapid.TB, h recovery.History, p *recovery.Policy, w world) []recovery.Action {
	tb.Helper()
	var all []recovery.Action
	now := max(h.StartedAt, 1)
	reported := h.Probe
	for range walkMax {
		a, r := recovery.Decide(&h, p, now)
		checkAction(tb, &h, p, &a, r, now)
		all = append(all, a)
		if a.Final() {
			return all
		}
		result := recovery.ResultOK
		if a.Strategy.Attempts() {
			result = w.result
		}
		h.Rungs = append(h.Rungs, h.Past(a, r, result))
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
	tb.Fatalf("no end after %d decisions: %s", walkMax, ways(all))
	return nil
}

// checkAction is what every decision must keep to.
func checkAction(tb rapid.TB, h *recovery.History, p *recovery.Policy, a *recovery.Action, r recovery.Rule, now int64) {
	tb.Helper()
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

func ref[T any](v T) *T { return &v }
