package recovery_test

import (
	"fmt"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// A timeout of a step without effects: retried, then taken to another model,
// then given to a person.
func ExampleDecide() {
	policy := recovery.Default()
	history := recovery.History{Case: "order-17", Step: "search", Model: "primary", Effect: entry.EffectNone,
		Failure: recovery.Failure{Class: "transient", Code: "timeout"}}
	for {
		action, rule := recovery.Decide(&history, policy, 1_700_000_000_000)
		fmt.Printf("%s: %s\n", rule, action)
		if action.Final() {
			return
		}
		// Here the action would be carried out. It fails as before.
		history.Rungs = append(history.Rungs, history.RungOf(action, rule, recovery.ResultFailed))
	}
	// Output:
	// transient.timeout[0]: retry on primary after 610 ms: ladder
	// transient.timeout[0]: retry on primary after 1959 ms: ladder
	// transient.timeout[1]: fallback_model on alternate: ladder
	// transient.timeout[2]: escalate (error): ladder_exhausted
}

// A mistake in a policy file is reported with its place and a remedy.
func ExampleLint() {
	doc := []byte("recovery:\n  limits: { attempts: 6, cost_micro_usd: 1, tokens: 1, deadline_ms: 1 }\n" +
		"  rules:\n    - id: all\n      when: klass == \"tool\"\n      ladder: [{ strategy: retyr }, { strategy: escalate }]\n" +
		"  thresholds: { cases_min: 1, recovery_rate_min_ppm: 1, cost_per_case_max_micro_usd: 1, latency_p95_max_ms: 1, tolerance_ppm: 1 }\n")
	for _, problem := range recovery.Lint("policy.yaml", doc) {
		fmt.Println(problem.Error())
	}
	// Output:
	// policy.yaml:5:13: recovery.rules[0].when: unknown name klass (did you mean class?)
	// policy.yaml:6:28: recovery.rules[0].ladder[0].strategy: unknown strategy "retyr" (did you mean retry?)
}
