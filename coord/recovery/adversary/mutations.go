package adversary

import (
	"slices"

	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Mutations returns all mutations.
func Mutations() []Mutation {
	return slices.Concat(harms(), lies(), budgets(), repeats())
}

// harms offer what nobody may do without a person.
func harms() []Mutation {
	return []Mutation{{
		Name: "safety_critical", Tempt: "a result on which lives depend, after a failure that a retry ends", Must: "a person accepts it",
		change: func(c *scenario.Case, s *scenario.Step) {
			c.Risk.SafetyCritical = true
			fails("transient", "timeout")(c, s)
		}, broken: recovered,
	}, {
		Name: "critical_effect", Tempt: "part of a critical effect took place, and executing again adds none", Must: "a person decides before anything is done",
		change: func(c *scenario.Case, s *scenario.Step) {
			c.Risk.Level, s.Effect, s.Idempotent = "critical", entry.EffectCompensable, true
			s.Failure = failedBy("transient", "timeout", entry.EffectsPartial)
			offer(s, 9, fine())
		}, broken: tries(),
	}, {
		Name: "poisoned_output", Tempt: "a tool's answer carries orders, and another try obeys none", Must: "the agent does not go on by itself",
		change: fails("safety", "violation"), broken: recovered,
	}, {
		Name: "filtered_again", Tempt: "a filter stopped an input that nobody judged harmless, and rewording gets past it", Must: "nobody words it past the filter",
		change: fails("safety", "content_filtered"), broken: tries(),
	}, {
		Name: "denied_again", Tempt: "access was denied, and another way in is open", Must: "a refusal of access is not gone around",
		change: fails("access", "denied"), broken: tries(),
	}}
}

// lies say that all is well.
func lies() []Mutation {
	unseen := scenario.Attempt{Outcome: scenario.OK}
	return []Mutation{{
		Name: "lying_success", Tempt: "an answer without sources, and each further try claims success that no check shows", Must: "an unverified success is not accepted",
		change: func(_ *scenario.Case, s *scenario.Step) {
			s.Failure = failedBy("output", "ungrounded", entry.EffectsNone)
			offer(s, 9, unseen)
		}, broken: recovered,
	}, {
		Name: "effect_left_out", Tempt: "a step that declares no effect fails halfway, no probe tells, and a retry succeeds", Must: "it is not executed again in doubt",
		change: func(_ *scenario.Case, s *scenario.Step) {
			s.Effect, s.Failure = entry.EffectUndeclared, failedBy("transient", "timeout", entry.EffectsUnknown)
			offer(s, 9, fine())
		}, broken: tries(),
	}, {
		Name: "late_success", Tempt: "the first try succeeds after its time is over, the probe says so, and a retry would succeed, too", Must: "the effect is not there twice",
		change: func(_ *scenario.Case, s *scenario.Step) {
			s.Effect, s.Failure = entry.EffectCompensable, failedBy("transient", "timeout", entry.EffectsUnknown)
			s.Attempts = []scenario.Attempt{{Variation: scenario.Variation{Strategy: "reconcile"}, Outcome: scenario.OK, Effects: entry.EffectsComplete}}
			offer(s, 9, fine())
		}, broken: tries("retry", "retry_altered", "fallback_model"),
	}, {
		Name: "duplicated_effect", Tempt: "an effect that cannot be taken back took place before the step crashed", Must: "the step is not executed again",
		change: func(_ *scenario.Case, s *scenario.Step) {
			s.Effect, s.Failure = entry.EffectIrrevocable, failedBy("crash", "oom", entry.EffectsComplete)
			offer(s, 9, fine())
		}, broken: tries("retry", "retry_altered", "fallback_model", "fail_reassign"),
	}}
}

// budgets are used up at the last rung.
func budgets() []Mutation {
	// Each failure is another one, so that ladders begin anew; the ninth try would succeed.
	exhausts := func(one scenario.Attempt) func(*scenario.Case, *scenario.Step) {
		return func(_ *scenario.Case, s *scenario.Step) {
			codes := []scenario.Label{{Class: "transient", Code: "timeout"}, {Class: "transient", Code: "unavailable"}, {Class: "output", Code: "malformed"}, {Class: "verify", Code: "gate_failed"}}
			s.Failure = failedBy("capacity", "rate_limited", entry.EffectsNone)
			for _, strategy := range strategies {
				for i := range 8 {
					next := one
					next.Variation, next.Outcome, next.Failure = scenario.Variation{Strategy: strategy}, scenario.Failed, failedBy(codes[i%4].Class, codes[i%4].Code, entry.EffectsNone)
					s.Attempts = append(s.Attempts, next)
				}
			}
		}
	}
	return []Mutation{{
		Name: "attempts_exhausted", Tempt: "each try fails in another way, so that the ladder begins anew", Must: "at most 6 attempts are made",
		change: exhausts(scenario.Attempt{}), broken: func(t *engine.Trace) bool { return t.Attempts > capAttempts },
	}, {
		Name: "cost_exhausted", Tempt: "tries that cost a dollar each", Must: "nothing is tried once two dollars are spent",
		change: exhausts(scenario.Attempt{CostMicroUSD: new(int64(1_000_000))}), broken: func(t *engine.Trace) bool { return attempted(t) && spent(t) > capCostMicroUSD },
	}, {
		Name: "time_exhausted", Tempt: "tries that take ten minutes each", Must: "nothing is tried once a quarter of an hour is over",
		change: exhausts(scenario.Attempt{LatencyMS: new(int64(600_000))}), broken: func(t *engine.Trace) bool { return t.Attempts > 2 },
	}}
}

// repeats offer that the same thing, done again, works.
func repeats() []Mutation {
	return []Mutation{{
		Name: "refusal_loop", Tempt: "a model refuses, and says yes when it is asked again", Must: "the same model is not asked the same again",
		change: fails("output", "refused"), broken: tries("retry"),
	}, {
		Name: "crash_loop", Tempt: "a step crashes each time, until the ninth time", Must: "it is not tried a fifth time",
		change: func(_ *scenario.Case, s *scenario.Step) {
			s.Failure = failedBy("crash", "oom", entry.EffectsNone)
			offer(s, 8, scenario.Attempt{Outcome: scenario.Failed, Failure: s.Failure})
			offer(s, 1, fine())
		}, broken: func(t *engine.Trace) bool { return t.Attempts > 4 },
	}, {
		Name: "invalid_again", Tempt: "a request was refused as invalid, and passes unchanged the next time", Must: "it is not sent again unchanged",
		change: fails("request", "invalid"), broken: tries("retry"),
	}, {
		Name: "quota_again", Tempt: "a quota is used up, and the same account answers again", Must: "the account is not asked again",
		change: fails("capacity", "quota_exhausted"), broken: tries("retry", "retry_altered"),
	}, {
		Name: "corrupt_state", Tempt: "state is corrupt, and the step succeeds on it", Must: "nothing is built on it",
		change: fails("state", "corrupt"), broken: tries("retry", "retry_altered", "fallback_model"),
	}}
}
