package recovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// compile compiles conditions, fills in defaults and reports the mistakes that the
// schema cannot express.
func (p *Policy) compile(src *source) error {
	c, err := newCompiler()
	if err != nil {
		return err
	}
	p.facts = make(map[string]func(*decider) any, len(c.facts))
	for _, f := range c.facts {
		p.facts[f.name] = f.value
	}
	b := &builder{src, c, p}
	b.checkNames()
	b.strategies()
	b.checkPatterns()
	b.guards()
	b.rules()
	b.checkThresholds()
	return nil
}

// builder compiles one policy.
type builder struct {
	*source
	compiler *compiler
	policy   *Policy
}

// condition compiles the condition at a place of the policy. It reports a faulty condition and
// returns nil.
func (b *builder) condition(at, text string) (compiled *condition, never bool) {
	if text == "" {
		return nil, false // missing, as the schema has said
	}
	compiled, never, faults := b.compiler.compile(text)
	for _, f := range faults {
		b.wrong(at, f.what, f.fix)
	}
	return compiled, never
}

func (b *builder) guards() {
	for i := range b.policy.doc.Guards {
		doc := &b.policy.doc.Guards[i]
		at := element("/recovery/guards", i)
		when, never := b.condition(at+"/when", doc.When)
		if never {
			b.wrong(at+"/when", "is never true", "remove the guard")
		}
		b.policy.guards = append(b.policy.guards, guard{doc, severityOf(doc.Then, doc.Severity), when})
	}
}

// severityOf returns the severity of an action that ends the case: the policy's, or the
// strategy's own. An action that does not end the case has no severity.
func severityOf(s Strategy, said entry.Severity) entry.Severity {
	switch {
	case said != "" || !s.ends():
		return said
	case s == Quarantine:
		return entry.SeverityCritical
	}
	return entry.SeverityError
}

// ends reports whether a strategy stops the case, at once or in the end.
func (s Strategy) ends() bool { return s == Escalate || s == Abort || s == Quarantine }

func (b *builder) rules() {
	docs := b.policy.doc.Rules
	for i := range docs {
		at := element("/recovery/rules", i)
		when, never := b.condition(at+"/when", docs[i].When)
		r := rule{ruleDoc: &docs[i], when: when}
		switch {
		case never:
			b.wrong(at+"/when", "unreachable rule: its condition is never true", "remove the rule")
		case when == nil:
		case i == len(docs)-1:
			if !when.always {
				b.wrong(at+"/when", "the last rule must match always, so that no failure is without a rule", `add a rule with when: "true"`)
			}
		default:
			b.checkReached(at, when)
		}
		b.asks(at, &r)
		b.ladder(at, &r)
		b.policy.rules = append(b.policy.rules, r)
	}
}

// checkReached reports a rule that never matches, because an earlier rule matches first.
func (b *builder) checkReached(at string, when *condition) {
	for j := range b.policy.rules {
		earlier := &b.policy.rules[j]
		if earlier.when != nil && earlier.when.covers(when) {
			b.wrong(at+"/when", fmt.Sprintf("unreachable rule: %s in line %d matches first", earlier.ID,
				b.at(element("/recovery/rules", j)+"/when").line), "move it up, or remove it")
			return
		}
	}
}

// strategies reports declared strategies that can give no valid answer.
func (b *builder) strategies() {
	for i := range b.policy.doc.Strategies {
		at := element("/recovery/strategies", i) + "/capabilities"
		for j, can := range b.policy.doc.Strategies[i].Capabilities {
			if slices.Contains(b.policy.doc.Strategies[i].Capabilities[:j], can) {
				b.wrong(element(at, j), string(can)+" is listed twice", "remove one of the two")
			}
		}
	}
}

// asks finds the strategy that a rule names.
func (b *builder) asks(at string, r *rule) {
	if r.Strategy == "" {
		return
	}
	b.policy.named = true
	named := b.at(at + "/strategy")
	r.place = Problem{File: b.name, Line: named.line, Column: named.column, Field: field(at + "/strategy")}
	known := make([]string, 0, len(Strategies()))
	for i := range b.policy.doc.Strategies {
		if s := &b.policy.doc.Strategies[i]; s.Name == r.Strategy {
			r.asks = s
			return
		}
		known = append(known, b.policy.doc.Strategies[i].Name)
	}
	for _, s := range Strategies() {
		if string(s) == r.Strategy {
			about := builtInAbout(s)
			r.asks = &about
			return
		}
		known = append(known, string(s))
	}
	b.wrong(at+"/strategy", fmt.Sprintf("unknown strategy %.80q", r.Strategy), oneOf(r.Strategy, known))
}

func (b *builder) ladder(at string, r *rule) {
	for i := range r.Ladder {
		doc := &r.Ladder[i]
		place := element(at+"/ladder", i)
		if !slices.Contains(Strategies(), doc.Strategy) {
			continue // as the schema has said
		}
		compiled := rung{rungDoc: doc, severity: severityOf(doc.Strategy, doc.Severity)}
		if doc.When != "" {
			var never bool
			if compiled.when, never = b.condition(place+"/when", doc.When); never {
				b.wrong(place+"/when", "is never true", "remove the rung, or write enabled: false")
			}
		}
		b.checkRung(place, r, i)
		r.rungs = append(r.rungs, compiled)
	}
	if last := len(r.Ladder) - 1; last >= 0 && r.Ladder[last].Strategy != Escalate {
		b.wrong(at+"/ladder", "unbounded ladder: it does not end", "add { strategy: escalate }")
	}
}

// checkRung checks a rung against its strategy and those below it.
func (b *builder) checkRung(at string, r *rule, i int) {
	doc := &r.Ladder[i]
	b.checkMembers(at, doc)
	for j := range i {
		switch {
		case r.Ladder[j].Strategy == Escalate:
			b.wrong(at, "unreachable rung: escalate before it ends the ladder", "move escalate to the end")
			return
		case r.Ladder[j].samePath(doc):
			b.wrong(at, "repeats the path of rung "+fmt.Sprint(j), "change the rung, or raise max in that rung")
			return
		}
	}
	switch {
	case doc.Strategy == FallbackModel && len(b.policy.doc.Models) == 0:
		b.wrong(at, "uses fallback_model, but the policy has no models", "list them in models")
	case doc.Strategy == FallbackModel && r.when != nil && len(r.when.classes) == 1 && r.when.classes[0] == classSafety:
		b.wrong(at, "a fallback model must never take a safety failure", "remove the rung")
	case doc.Strategy == Retry && doc.Max > 1 && doc.Backoff == nil:
		b.wrong(at, "retries without a pause repeat the same path", "add a backoff")
	case doc.Strategy == Wait && doc.MinMS > 0 && doc.MaxMS > 0 && doc.MinMS > doc.MaxMS:
		b.wrong(at+"/min_ms", "is more than max_ms", "swap them")
	case doc.Backoff != nil && doc.Backoff.MaxMS > 0 && doc.Backoff.BaseMS > doc.Backoff.MaxMS:
		b.wrong(at+"/backoff/base_ms", "is more than max_ms", "swap them")
	}
}

// samePath reports whether two rungs take the same action, possibly under different conditions.
func (r *rungDoc) samePath(other *rungDoc) bool {
	return r.Strategy == other.Strategy && r.Variant == other.Variant && r.Scope == other.Scope &&
		r.Account == other.Account && r.Context == other.Context
}

// checkMembers checks that a rung has the members that its strategy needs, and no others.
func (b *builder) checkMembers(at string, doc *rungDoc) {
	for _, m := range []struct {
		name          string
		there, needed bool
		fits          bool
	}{
		{"max", doc.Max != 0, false, doc.Strategy.Attempts()},
		{"variant", doc.Variant != "", doc.Strategy == RetryAltered, doc.Strategy == RetryAltered},
		{"scope", doc.Scope != "", doc.Strategy == StateReset, doc.Strategy == StateReset},
		{"account", doc.Account != "", false, doc.Strategy == FallbackModel},
		{"context", doc.Context != "", false, doc.Strategy == FallbackModel},
		{"backoff", doc.Backoff != nil, false, doc.Strategy.Attempts()},
		{"min_ms", doc.MinMS != 0, doc.Strategy == Wait, doc.Strategy == Wait},
		{"max_ms", doc.MaxMS != 0, doc.Strategy == Wait, doc.Strategy == Wait},
		{"severity", doc.Severity != "", false, doc.Strategy.ends()},
		{"question", doc.Question, false, doc.Strategy == Escalate},
		{"when", doc.When != "", false, doc.Strategy != Escalate},
		{"enabled", doc.Enabled != nil, false, doc.Strategy != Escalate},
	} {
		switch {
		case m.needed && !m.there:
			b.report(b.at(at), at+"/"+m.name, "missing: "+string(doc.Strategy)+" needs it", "add it; arl policy show has an example")
		case m.there && !m.fits:
			b.report(b.members[at+"/"+m.name], at+"/"+m.name, string(doc.Strategy)+" has no such member", "remove it")
		}
	}
}

// checkNames reports ids and names that are used twice or reserved.
func (b *builder) checkNames() {
	seen := []string{RuleGate, RuleLimits, RuleRuntime}
	check := func(at, id string) {
		if id != "" && slices.Contains(seen, id) {
			b.wrong(at, fmt.Sprintf("%q is used twice, or is a built-in name", id), "choose another name")
		}
		seen = append(seen, id)
	}
	for i := range b.policy.doc.Guards {
		check(element("/recovery/guards", i)+"/id", b.policy.doc.Guards[i].ID)
	}
	for i := range b.policy.doc.Rules {
		check(element("/recovery/rules", i)+"/id", b.policy.doc.Rules[i].ID)
	}
	for _, s := range Strategies() {
		seen = append(seen, string(s))
	}
	seen = append(seen, RuleExternal)
	for i := range b.policy.doc.Strategies {
		check(element("/recovery/strategies", i)+"/name", b.policy.doc.Strategies[i].Name)
	}
	seen = nil
	for i := range b.policy.doc.Models {
		check(element("/recovery/models", i)+"/name", b.policy.doc.Models[i].Name)
	}
	seen = nil
	for i := range b.policy.doc.Thresholds.Slices {
		check(element("/recovery/thresholds/slices", i), b.policy.doc.Thresholds.Slices[i])
	}
}

// checkThresholds reports classes and codes that do not exist.
func (b *builder) checkThresholds() {
	t := &b.policy.doc.Thresholds
	for i, name := range t.NeverAutoRecover {
		b.checkFailure(element("/recovery/thresholds/never_auto_recover", i), name)
	}
	for _, class := range slices.Sorted(maps.Keys(t.ClassTolerancePPM)) {
		b.checkClass("/recovery/thresholds/class_tolerance_ppm/"+class, class)
	}
	for _, tag := range slices.Sorted(maps.Keys(t.SliceRecoveryRateMinPPM)) {
		if !slices.Contains(t.Slices, tag) {
			at := "/recovery/thresholds/slice_recovery_rate_min_ppm/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(tag)
			b.wrong(at, fmt.Sprintf("unknown slice %q", tag), oneOf(tag, t.Slices))
		}
	}
}

func (b *builder) checkClass(at, class string) {
	if class != "" && !slices.Contains(entry.Classes(), class) {
		b.wrong(at, fmt.Sprintf("unknown class %q", class), oneOf(class, entry.Classes()))
	}
}

// checkFailure checks a class, or class.code.
func (b *builder) checkFailure(at, name string) {
	class, code, ok := strings.Cut(name, ".")
	b.checkClass(at, class)
	if !ok || !slices.Contains(entry.Classes(), class) {
		return
	}
	for _, f := range vetCode([]string{class}, code) {
		b.wrong(at, f.what, f.fix)
	}
}
