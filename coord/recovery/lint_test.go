package recovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
)

// lintBase is a policy without a mistake.
const lintBase = `# rules
recovery:
  limits:
    attempts: 6
    cost_micro_usd: 1000
    tokens: 1000
    deadline_ms: 1000
  models:
    - { name: one, account: a, context_tokens: 1, input_micro_usd_per_mtok: 1, output_micro_usd_per_mtok: 1 }
    - { name: two, account: a, context_tokens: 1, input_micro_usd_per_mtok: 1, output_micro_usd_per_mtok: 1 }
  guards:
    - id: guard
      when: safety_critical
      then: escalate
  rules:
    - id: first
      when: class == "transient" && code == "timeout"
      ladder:
        - { strategy: retry, max: 2, backoff: { base_ms: 10, factor: 2, max_ms: 100 } }
        - { strategy: retry_altered, variant: reflect, when: benign }
        - { strategy: state_reset, scope: verified }
        - { strategy: wait, min_ms: 10, max_ms: 100 }
        - { strategy: fallback_model, context: larger }
        - { strategy: rollback }
        - { strategy: escalate }
    - id: second
      when: class == "safety"
      ladder:
        - { strategy: quarantine }
        - { strategy: escalate, severity: critical }
    - id: last
      when: "true"
      ladder:
        - { strategy: escalate }
  thresholds:
    cases_min: 1
    recovery_rate_min_ppm: 1
    cost_per_case_max_micro_usd: 1
    latency_p95_max_ms: 1
    never_auto_recover: [safety]
    tolerance_ppm: 1
    slices: [holdout]
`

// mistake is lintBase with one thing wrong, and how it is reported. Where, the
// mark ¶ says in the new text, or in the old one if the new has none.
type mistake struct {
	desc     string
	old, new string // what is replaced
	want     string // field: what (fix)
}

func mistakes() []mistake {
	const (
		condition = `class == "transient" && code == "timeout"`
		retry     = "{ strategy: retry, max: 2, backoff: { base_ms: 10, factor: 2, max_ms: 100 } }"
		floats    = " is a floating-point number (use integers: milliseconds, micro-USD, parts per million)"
		tags      = "anchors, aliases, merge keys and tags are not allowed (write the value out; quote a text that begins with !, & or *)"
		example   = " (add it; arl policy show has an example)"
		ladder    = "recovery.rules[0].ladder"
	)
	when := func(desc, text, want string) mistake {
		if want != "" {
			want = "recovery.rules[0].when: " + want
		}
		return mistake{desc, condition, "¶" + text, want}
	}
	tokens := func(desc, text, want string) mistake {
		return mistake{desc, "tokens: 1000\n", "tokens: " + text + "\n", want}
	}
	return []mistake{
		// members
		{"nothing is wrong", "", "", ""},
		{"unknown member at the top", "recovery:\n", "¶recovry: 1\nrecovery:\n", "recovry: unknown member (did you mean recovery?)"},
		{"rules outside of recovery", "recovery:\n", "¶guards: []\nrecovery:\n", "guards: unknown member (indent it below recovery:)"},
		{"unknown member", "deadline_ms: 1000", "¶deadline_mz: 1000", "recovery.limits.deadline_mz: unknown member (did you mean deadline_ms?)"},
		{"unknown member far from any", "deadline_ms: 1000", "deadline_ms: 1000\n    ¶bananas: 1", "recovery.limits.bananas: unknown member (choose attempts, cost_micro_usd, deadline_ms, tokens)"},
		{"unknown member of a rung", "scope: verified }", "scope: verified, ¶maxx: 2 }", ladder + "[2].maxx: unknown member (did you mean max?)"},
		{"repeated member", "tokens: 1000\n", "tokens: 1000\n    ¶tokens: 1\n", "recovery.limits.tokens: is listed twice, first in line 6 (remove one of the two)"},
		{"repeated member of a rung", "scope: verified }", "scope: verified, ¶scope: context }", ladder + "[2].scope: is listed twice, first in line 21 (remove one of the two)"},
		{"missing member", "    ¶attempts: 6\n    cost_micro_usd: 1000\n    tokens: 1000\n", "    ¶attempts: 6\n    tokens: 1000\n", "recovery.limits.cost_micro_usd: missing" + example},
		{"missing rules", "  rules:\n", "  rules_of_old:\n", "recovery.rules: missing" + example},

		// types and numbers
		tokens("text for a number", "¶many", "recovery.limits.tokens: is a string, want an integer (see docs/policy.md)"),
		tokens("fraction", "¶0.5", "recovery.limits.tokens: 0.5"+floats),
		tokens("exponent", "¶5.0e5", "recovery.limits.tokens: 5.0e5"+floats),
		tokens("infinity", "¶.inf", "recovery.limits.tokens: .inf"+floats),
		tokens("not a number", "¶.nan", "recovery.limits.tokens: .nan"+floats),
		tokens("hexadecimal", "¶0x10", "recovery.limits.tokens: 0x10 is not a decimal integer within ±(2^53 − 1) (write digits only)"),
		tokens("underscores", "¶500_000", "recovery.limits.tokens: 500_000 is not a decimal integer within ±(2^53 − 1) (write digits only)"),
		tokens("largest integer", "9007199254740991", ""),
		tokens("one more", "¶9007199254740992", "recovery.limits.tokens: 9007199254740992 is not a decimal integer within ±(2^53 − 1) (write digits only)"),
		tokens("negative", "¶-1", "recovery.limits.tokens: -1 is too small (at least 0)"),
		tokens("nothing", "¶null", "recovery.limits.tokens: is nothing, want an integer (write a value or remove the member)"),
		tokens("anchor", "¶&t 1", "recovery.limits.tokens: "+tags),
		tokens("tag", "¶!!int 1", "recovery.limits.tokens: "+tags),
		{"ratio beyond one", "tolerance_ppm: 1\n", "tolerance_ppm: ¶1000001\n", "recovery.thresholds.tolerance_ppm: 1000001 is too large (at most 1000000)"},
		{"a name of other characters", "name: one", "name: ¶'one!'", `recovery.models[0].name: "one!" has characters that are not allowed, or too many (match ^[A-Za-z0-9._:/@-]{1,128}$)`},

		// strategies
		{"unknown strategy", retry, "{ strategy: ¶retyr }", ladder + `[0].strategy: unknown strategy "retyr" (did you mean retry?)`},
		{"unknown strategy far from any", retry, "{ strategy: ¶pray }",
			ladder + `[0].strategy: unknown strategy "pray" (choose retry, retry_altered, fallback_model, state_reset, fail_reassign, ` +
				`checkpoint_resume, reconcile, wait, rollback, quarantine, escalate, abort)`},
		{"unknown variant", "variant: reflect", "variant: ¶reflekt", ladder + `[1].variant: "reflekt" is unknown (did you mean reflect?)`},
		{"strategy that is a number", retry, "{ strategy: ¶7 }", ladder + "[0].strategy: is not a text (choose retry,"},
		{"a guard that retries", "then: escalate", "then: ¶retry", `recovery.guards[0].then: "retry" is unknown (choose escalate, abort, quarantine)`},
		{"variant missing", "{ strategy: retry_altered, variant: reflect,", "¶{ strategy: retry_altered,", ladder + "[1].variant: missing: retry_altered needs it" + example},
		{"scope missing", "{ strategy: state_reset, scope: verified }", "¶{ strategy: state_reset }", ladder + "[2].scope: missing: state_reset needs it" + example},
		{"member of another strategy", "{ strategy: rollback }", "{ strategy: rollback, ¶variant: reflect }", ladder + "[5].variant: rollback has no such member (remove it)"},
		{"times of an end", "{ strategy: quarantine }", "{ strategy: quarantine, ¶max: 2 }", "recovery.rules[1].ladder[0].max: quarantine has no such member (remove it)"},
		{"an end under a condition", "{ strategy: escalate, severity: critical }", "{ strategy: escalate, ¶when: benign }", "recovery.rules[1].ladder[1].when: escalate has no such member (remove it)"},
		{"wait without an end", "{ strategy: wait, min_ms: 10, max_ms: 100 }", "¶{ strategy: wait, min_ms: 10 }", ladder + "[3].max_ms: missing: wait needs it" + example},
		{"wait that ends before it begins", "min_ms: 10, max_ms: 100", "min_ms: ¶10, max_ms: 9", ladder + "[3].min_ms: is more than max_ms (swap them)"},
		{"backoff that ends before it begins", "base_ms: 10, factor: 2, max_ms: 100", "base_ms: ¶10, factor: 2, max_ms: 9", ladder + "[0].backoff.base_ms: is more than max_ms (swap them)"},

		// strategies that rules name
		{"a built-in strategy", "id: first\n", "id: first\n      strategy: checkpoint_resume\n", ""},
		{"a strategy that is declared", "  rules:\n    - id: first\n", strategies("triage", "retry") + "  rules:\n    - id: first\n      strategy: triage\n", ""},
		{"a misspelt strategy of a rule", "  rules:\n    - id: first\n",
			strategies("triage", "retry") + "  rules:\n    - id: first\n      strategy: ¶traige\n",
			`recovery.rules[0].strategy: unknown strategy "traige" (did you mean triage?)`},
		{"a misspelt built-in strategy of a rule", "id: first\n", "id: first\n      strategy: ¶checkpoint_resum\n",
			`recovery.rules[0].strategy: unknown strategy "checkpoint_resum" (did you mean checkpoint_resume?)`},
		{"a strategy that nobody declared", "id: first\n", "id: first\n      strategy: ¶oracle\n", `recovery.rules[0].strategy: unknown strategy "oracle" (choose retry, retry_altered,`},
		{"a declared strategy that is built in", "  rules:\n", strategies("¶retry", "retry") + "  rules:\n",
			`recovery.strategies[0].name: "retry" is used twice, or is a built-in name (choose another name)`},
		{"a declared strategy with the name of a rule", "  rules:\n", strategies("¶second", "retry") + "  rules:\n",
			`recovery.strategies[0].name: "second" is used twice, or is a built-in name (choose another name)`},
		{"a misspelt capability", "  rules:\n", strategies("triage", "¶retri") + "  rules:\n", `recovery.strategies[0].capabilities[0]: "retri" is unknown (did you mean retry?)`},
		{"a capability twice", "  rules:\n", strategies("triage", "retry, ¶retry") + "  rules:\n", `recovery.strategies[0].capabilities[1]: retry is listed twice (remove one of the two)`},
		{"a strategy that can do nothing", "  rules:\n", "  strategies:\n    - { name: triage, version: \"1\", capabilities: ¶[] }\n  rules:\n",
			`recovery.strategies[0].capabilities: 0 elements (at least 1)`},
		{"a strategy without version", "  rules:\n", "  strategies:\n    - ¶{ name: triage, capabilities: [retry] }\n  rules:\n", `recovery.strategies[0].version: missing` + example},
		{"the longest time for an answer", "  rules:\n", strings.Replace(strategies("triage", "retry"), " }", ", timeout_ms: 600000 }", 1) + "  rules:\n", ""},
		{"a longer time for an answer", "  rules:\n",
			strings.Replace(strategies("triage", "retry"), " }", ", timeout_ms: ¶600001 }", 1) + "  rules:\n",
			`recovery.strategies[0].timeout_ms: 600001 is too large (at most 600000)`},

		// ladders
		{"ladder without end", "        ¶- { strategy: quarantine }\n        - { strategy: escalate, severity: critical }\n",
			"        ¶- { strategy: quarantine }\n", "recovery.rules[1].ladder: unbounded ladder: it does not end (add { strategy: escalate })"},
		{"unlimited attempts", "retry, max: 2", "retry, max: ¶0", ladder + "[0].max: 0 is too small (at least 1)"},
		{"most attempts", "retry, max: 2", "retry, max: 64", ""},
		{"too many attempts", "retry, max: 2", "retry, max: ¶65", ladder + "[0].max: 65 is too large: the ladder is as good as unbounded (at most 64)"},
		{"too many attempts of a case", "attempts: 6", "attempts: ¶65", "recovery.limits.attempts: 65 is too large: the ladder is as good as unbounded (at most 64)"},
		{"no ladder", "        - { strategy: quarantine }\n        - { strategy: escalate, severity: critical }\n", "        ¶[]\n", "recovery.rules[1].ladder: 0 elements (at least 1)"},
		{"the longest ladder", "        - { strategy: rollback }\n", "        - { strategy: rollback }\n" + rungs(9), ""},
		{"a longer ladder", "        ¶- " + retry + "\n", "        ¶- " + retry + "\n" + rungs(9) + "        - { strategy: reconcile }\n", ladder + ": 17 elements (at most 16)"},
		{"rung after the end", "{ strategy: quarantine }\n        - {", "{ strategy: escalate }\n        - ¶{",
			"recovery.rules[1].ladder[1]: unreachable rung: escalate before it ends the ladder (move escalate to the end)"},
		{"the same path twice", "{ strategy: rollback }", "{ strategy: rollback }\n        - ¶{ strategy: rollback, when: benign }",
			ladder + "[6]: repeats the path of rung 5 (change the rung, or raise max in that rung)"},
		{"retries without pause", retry, "¶{ strategy: retry, max: 2 }", ladder + "[0]: retries without a pause repeat the same path (add a backoff)"},
		{"one retry without pause", retry, "{ strategy: retry }", ""},
		{"a rung that is never taken", "when: benign", `when: ¶"false"`, ladder + "[1].when: is never true (remove the rung, or write enabled: false)"},
		{"another model for a safety failure", "{ strategy: quarantine }", "¶{ strategy: fallback_model }",
			"recovery.rules[1].ladder[0]: a fallback model must never take a safety failure (remove the rung)"},

		// rules
		when("never true", `class == "transient" && class == "tool"`, "unreachable rule: its condition is never true (remove the rule)"),
		when("never true, as written", `class == "transient" && false`, "unreachable rule: its condition is never true (remove the rule)"),
		{"covered by an earlier rule", `class == "safety"`, "¶" + condition + " && idempotent", "recovery.rules[1].when: unreachable rule: first in line 17 matches first (move it up, or remove it)"},
		{"covered by a part of an earlier rule", `class == "safety"`, `¶class in ["transient"] && code in ["timeout"]`,
			"recovery.rules[1].when: unreachable rule: first in line 17 matches first (move it up, or remove it)"},
		{"not covered, since another code", `class == "safety"`, `class == "transient" && code in ["timeout", "unavailable"]`, ""},
		{"not covered, since the earlier rule asks for more", condition + "\n", condition + " && benign\n", ""},

		{"behind a rule for everything", condition, `"true"`, "recovery.rules[1].when: unreachable rule: first in line 17 matches first (move it up, or remove it)"},
		{"the last rule matches not always", `"true"`, `¶class == "unknown"`, `recovery.rules[2].when: the last rule must match always, so that no failure is without a rule (add a rule with when: "true")`},
		{"an id that stands twice", "id: second", "id: ¶first", `recovery.rules[1].id: "first" is used twice, or is a built-in name (choose another name)`},
		{"an id of a guard", "id: second", "id: ¶guard", `recovery.rules[1].id: "guard" is used twice, or is a built-in name (choose another name)`},
		{"an id that is built in", "id: second", "id: ¶gate", `recovery.rules[1].id: "gate" is used twice, or is a built-in name (choose another name)`},
		{"an id of other characters", "id: second", "id: ¶Second", `recovery.rules[1].id: "Second" has characters that are not allowed, or too many (match ^[a-z0-9_.-]{1,64}$)`},

		// conditions
		when("misspelt class", `class == "transcient" && code == "timeout"`, `class is never "transcient" (did you mean transient?)`),
		when("misspelt code", `class == "transient" && code == "timeuot"`, `code "timeuot" looks misspelt (write "timeout", or choose a code that differs more from it)`),
		when("a code of another class", `class == "transient" && code == "rate_limited"`, `code "rate_limited" is of class capacity (ask for that class)`),
		when("a code of another class than one that it is not", `class != "transient" && code == "rate_limited"`, ""),
		when("codes of several classes", `class == "transient" && code == "timeout" || class == "capacity" && code == "rate_limited"`, ""),
		when("a code of our own", `class == "transient" && code == "dns_flapping"`, ""),
		when("a code of our own in a list", `class == "transient" && code in ["timeout", "dns_flapping"]`, ""),
		when("misspelt class in a list", `class in ["tool", "outputs"]`, `class is never "outputs" (did you mean output?)`),
		when("misspelt effects", `effects != "non"`, `effects is never "non" (did you mean none?)`),
		when("misspelt risk, the other way around", `'"hihg" == risk'`, `risk is never "hihg" (did you mean high?)`),
		when("misspelt strategy", `'"retri" in tried'`, `tried is never "retri" (did you mean retry?)`),
		when("misspelt variable", `klass == "transient"`, `unknown name klass (did you mean class?)`),
		when("no condition", `'class == '`, `character 10: Syntax error`),
		when("no bool", "class", "yields string, want bool (compare the value with another value)"),
		when("types that do not compare", "attempts == class", "character 10: found no matching overload for '_==_' applied to '(int, string)' (see the conditions in docs/policy.md)"),
		when("fraction in a condition", "double(attempts) > double(3)", "double() makes a floating-point number (use integers)"),
		when("fraction alone", "attempts > int(1.5)", "1.5 is a floating-point number (use integers)"),
		when("fails always", "1 / 0 > 1", "always fails: division by zero (compare a variable with a value)"),
		when("a boolean without quotes", "true", `is a boolean, want a string (put it in quotes: "true")`),
		when("empty", `""`, "is empty (write a value)"),
		when("nested comprehensions", "tags.exists(a, tags.exists(b, a == b))", "character 27: comprehension exceeds nesting limit"),
		when("pattern that is none", `'tool.matches("(")'`, "character 14: invalid matches argument"),
		when("the longest condition", `'attempts == `+strings.Repeat(" ", 1010)+`1'`, ""),
		when("a longer condition", `'attempts == `+strings.Repeat(" ", 1013)+`1'`, "1026 characters (at most 1024)"),
		{"a guard that never holds", "when: safety_critical", `when: ¶"1 > 2"`, "recovery.guards[0].when: is never true (remove the guard)"},
		{"a guard that always holds", "when: safety_critical", `when: "true"`, ""},

		// models and thresholds
		{"a model twice", "name: two", "name: ¶one", `recovery.models[1].name: "one" is used twice, or is a built-in name (choose another name)`},
		{"no models to fall back to", "  models:\n", "  models: []\n  models_of_old:\n", ladder + "[4]: uses fallback_model, but the policy has no models (list them in models)"},
		{"threshold of an unknown class", "[safety]", "[¶savety.violation]", `recovery.thresholds.never_auto_recover[0]: unknown class "savety" (did you mean safety?)`},
		{"threshold of a misspelt code", "[safety]", "[safety, ¶access.deniet]",
			`recovery.thresholds.never_auto_recover[1]: code "deniet" looks misspelt (write "denied", or choose a code that differs more from it)`},
		{"tolerance of an unknown class", "    tolerance_ppm: 1\n", "    class_tolerance_ppm: { verify: 1, outputs: ¶2 }\n    tolerance_ppm: 1\n",
			`recovery.thresholds.class_tolerance_ppm.outputs: unknown class "outputs" (did you mean output?)`},
		{"rate of an unknown slice", "    slices: [holdout]", "    slices: [holdout]\n    slice_recovery_rate_min_ppm: { hold: ¶1 }",
			`recovery.thresholds.slice_recovery_rate_min_ppm.hold: unknown slice "hold" (choose holdout)`},
		{"a slice twice", "[holdout]", "[holdout, ¶holdout]", `recovery.thresholds.slices[1]: "holdout" is used twice, or is a built-in name (choose another name)`},
	}
}

// strategies declares a strategy.
func strategies(name, capabilities string) string {
	return fmt.Sprintf("  strategies:\n    - { name: %s, version: \"1\", capabilities: [%s] }\n", name, capabilities)
}

// rungs are so many different rungs.
func rungs(n int) string {
	var b strings.Builder
	for _, v := range recovery.Variants()[1:][:n] {
		fmt.Fprintf(&b, "        - { strategy: retry_altered, variant: %s }\n", v)
	}
	return b.String()
}

// edit makes the mistake, and says where it stands.
func (m mistake) edit(tb testing.TB) (doc, place string) {
	tb.Helper()
	before, after, ok := strings.Cut(lintBase, strings.Replace(m.old, "¶", "", 1))
	if !ok {
		tb.Fatalf("%s: the policy has no %q", m.desc, m.old)
	}
	text, _, marked := strings.Cut(before+m.new+after, "¶")
	if marked {
		line := strings.Count(text, "\n") + 1
		place = fmt.Sprintf("p.yaml:%d:%d: ", line, len(text)-strings.LastIndexByte(text, '\n'))
	}
	return before + strings.Replace(m.new, "¶", "", 1) + after, place
}

// Every mistake is found by Lint, with file, line, field, what is wrong and what
// to do, and refused by Load.
func TestLintFindsEveryMistake(t *testing.T) {
	for _, m := range mistakes() {
		doc, place := m.edit(t)
		problems := recovery.Lint("p.yaml", []byte(doc))
		_, err := recovery.Load("p.yaml", []byte(doc))
		if (err == nil) != (m.want == "") || (len(problems) == 0) != (m.want == "") {
			t.Errorf("%s: %d problems, %v", m.desc, len(problems), err)
			continue
		}
		if m.want == "" {
			continue
		}
		if refused, ok := errors.AsType[*recovery.Error](err); !ok || !slices.Equal(refused.Problems, problems) {
			t.Errorf("%s: Load says %v", m.desc, err)
		}
		found := slices.ContainsFunc(problems, func(p recovery.Problem) bool {
			return strings.HasPrefix(p.Error(), place) && strings.Contains(p.Error(), ": "+m.want)
		})
		if !found {
			t.Errorf("%s:\n got %v\nwant %s%s", m.desc, err, place, m.want)
		}
		for _, p := range problems {
			if p.File != "p.yaml" || p.Line < 1 || p.Column < 1 || p.What == "" || p.Fix == "" {
				t.Errorf("%s: incomplete: %+v", m.desc, p)
			}
		}
	}
}

// All mistakes of a file are reported at once, in the order of lines.
func TestLintReportsAll(t *testing.T) {
	doc := lintBase
	for _, r := range []string{"tokens: 1000|tokens: 1.5", "then: escalate|then: retry", "strategy: rollback|strategy: rollbak",
		`code == "timeout"|code == "timeuot"`, "cases_min: 1|cases_mim: 1"} {
		old, with, _ := strings.Cut(r, "|")
		doc = strings.Replace(doc, old, with, 1)
	}
	var got []string
	for _, p := range recovery.Lint("p.yaml", []byte(doc)) {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Field))
	}
	want := []string{"6 recovery.limits.tokens", "14 recovery.guards[0].then", "17 recovery.rules[0].when",
		"24 recovery.rules[0].ladder[5].strategy", "36 recovery.thresholds.cases_min", "36 recovery.thresholds.cases_mim"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// What is no policy at all is said so.
func TestLintOtherFiles(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{"", "p.yaml:1:1: is empty"},
		{"# nothing\n", "p.yaml:1:1: is empty"},
		{"a: 1\n---\nb: 2\n", "p.yaml:1:1: 2 documents, want one"},
		{"just text", "p.yaml:1:1: not a policy"},
		{"[1, 2]", "p.yaml:1:1: not a policy"},
		{"roles: {}", "p.yaml:1:1: recovery: missing"},
		{"a: 1\nb: \xff\n", "p.yaml:2:1: has a character that is not UTF-8"},
		{"a: \xff", "p.yaml:1:1: has a character that is not UTF-8"},
		{"recovery: 1", "p.yaml:1:11: recovery: is a number, want an object"},
		{"recovery:", "p.yaml:1:11: recovery: is nothing, want an object"},
		{"recovery: [", "p.yaml:1:11: sequence end token ']' not found"},
		{"recovery: {1: 2}", "p.yaml:1:12: recovery: 1 is no name of a member"},
		{"recovery: " + strings.Repeat("[", 17) + strings.Repeat("]", 17), "p.yaml:1:27: recovery" + strings.Repeat("[0]", 16) + ": nested deeper than 16"},
		{strings.Repeat("#", recovery.DocumentMax+1), fmt.Sprintf("p.yaml: %d bytes, a policy has at most %d", recovery.DocumentMax+1, recovery.DocumentMax)},
	} {
		_, err := recovery.Load("p.yaml", []byte(c.doc))
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+c.want) {
			t.Errorf("%.40q:\n got %v\nwant %s", c.doc, err, c.want)
		}
	}
}
