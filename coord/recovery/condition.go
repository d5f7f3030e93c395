package recovery

import (
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"recoveryledger/ledger/entry"
)

// condition is a compiled when. Most conditions depend on class and code alone and are decided
// without CEL.
type condition struct {
	always bool // it is the constant true
	// classes and codes are the values that class and code may have for the condition to hold; nil:
	// any.
	classes, codes []string
	program        cel.Program // nil: classes and codes say it all
}

// holds evaluates the condition. A nil condition holds.
func (c *condition) holds(d *decider) (bool, error) {
	if c == nil || c.always {
		return true, nil
	}
	if c.classes != nil && !slices.Contains(c.classes, d.class) || c.codes != nil && !slices.Contains(c.codes, d.code) {
		return false, nil
	}
	if c.program == nil {
		return true, nil
	}
	value, _, err := c.program.Eval(d)
	if err != nil {
		return false, err
	}
	return value == types.True, nil
}

// fact is a variable of conditions.
type fact struct {
	name  string
	typ   *cel.Type
	words []string // that it can be; nil: any
	value func(d *decider) any
}

// facts are the variables of conditions (docs/policy.md).
func facts() []fact {
	text := func(name string, words []string, value func(d *decider) string) fact {
		return fact{name, cel.StringType, words, func(d *decider) any { return value(d) }}
	}
	number := func(name string, value func(d *decider) int64) fact {
		return fact{name, cel.IntType, nil, func(d *decider) any { return value(d) }}
	}
	truth := func(name string, value func(d *decider) bool) fact {
		return fact{name, cel.BoolType, nil, func(d *decider) any { return value(d) }}
	}
	effects := []string{"none", "partial", "complete", "unknown"}
	return []fact{
		// the failure
		text("class", entry.Classes(), func(d *decider) string { return d.class }),
		text("code", nil, func(d *decider) string { return d.code }), // checked against its class
		text("effects", effects, func(d *decider) string { return string(d.effects) }),
		text("replay_safety", []string{"safe", "unsafe", "unknown"}, func(d *decider) string { return known(d.h.Failure.ReplaySafety) }),
		truth("evidence", func(d *decider) bool { return d.h.Failure.Evidence }),
		number("retry_after_ms", (*decider).retryAfter), // 0: not asked for

		// the step
		text("step", nil, func(d *decider) string { return d.h.Step }),
		text("tool", nil, func(d *decider) string { return d.h.Tool }),
		text("model", nil, func(d *decider) string { return d.used.model }),
		text("effect", []string{"none", "reversible", "compensable", "irrevocable", "undeclared"},
			func(d *decider) string { return string(declared(d.h.Effect)) }),
		truth("idempotent", func(d *decider) bool { return d.idempotent }),
		truth("checkpoint", func(d *decider) bool { return d.h.Checkpoint }),

		// the case
		text("task_type", nil, func(d *decider) string { return d.h.TaskType }),
		text("intent", nil, func(d *decider) string { return d.h.Intent }),
		text("risk", []string{"", "low", "medium", "high", "critical"}, func(d *decider) string { return d.h.Risk }),
		truth("safety_critical", func(d *decider) bool { return d.h.SafetyCritical }),
		truth("benign", func(d *decider) bool { return d.h.Benign }),
		{"tags", cel.ListType(cel.StringType), nil, func(d *decider) any { return d.h.Tags }},

		// what was done and spent
		number("attempts", func(d *decider) int64 { return d.used.attempts }),
		number("repeats", func(d *decider) int64 { return d.used.repeats }),
		{"tried", cel.ListType(cel.StringType), words(Strategies()), func(d *decider) any { return d.tried() }},
		number("epoch", func(d *decider) int64 { return d.h.Epoch }),
		number("spent_micro_usd", func(d *decider) int64 { return d.h.SpentMicroUSD }),
		number("spent_tokens", func(d *decider) int64 { return d.h.SpentTokens }),
		number("elapsed_ms", (*decider).elapsed),
	}
}

func known(s entry.ReplaySafety) string {
	if s == "" {
		return string(entry.ReplayUnknown)
	}
	return string(s)
}

// declared returns the effect that every automatic decision assumes of a step (EXE-3).
func declared(e entry.Effect) entry.Effect {
	if e == "" {
		return entry.EffectUndeclared
	}
	return e
}

// words turns names of any type into strings.
func words[T ~string](names []T) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// tried are the strategies used for the step, oldest first.
func (d *decider) tried() []string {
	var all []string
	for i := range d.h.Rungs {
		if d.h.Rungs[i].Step == d.h.Step {
			all = append(all, string(d.h.Rungs[i].Strategy))
		}
	}
	return all
}

// ResolveName implements [interpreter.Activation]: the value of a variable.
func (d *decider) ResolveName(name string) (any, bool) {
	at, ok := d.p.facts[name]
	if !ok {
		return nil, false
	}
	return at(d), true
}

// Parent implements [interpreter.Activation].
func (*decider) Parent() interpreter.Activation { return nil }
