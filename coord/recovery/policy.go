package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// Policy is a set of compiled rules. A policy never changes and is safe for concurrent use.
type Policy struct {
	doc       document
	canonical jsontext.Value
	hash      entry.Digest
	guards    []guard
	rules     []rule
	facts     map[string]func(*decider) any
	named     bool // some rule names a strategy
}

type guard struct {
	*guardDoc
	severity entry.Severity
	when     *condition
}

type rule struct {
	*ruleDoc
	when  *condition
	asks  *About  // nil: the ladder decides
	place Problem // where the rule names that strategy; without words
	rungs []rung
}

type rung struct {
	*rungDoc
	severity entry.Severity
	when     *condition // nil: always
}

// Load compiles the rules of a policy file, which is YAML or JSON with the member recovery. The
// name stands in errors. Load refuses a file with any mistake that [Lint] finds, with an [*Error].
func Load(name string, doc []byte) (*Policy, error) {
	p, problems, err := load(name, doc)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &Error{problems}
	}
	return p, nil
}

// Lint returns all mistakes in a policy file, in the order of lines: no YAML,
// unknown, missing or repeated members, values of the wrong type or beyond
// their limits, floating-point numbers, unknown strategies, misspelt classes,
// codes and variables, conditions that are ill-typed, rules and rungs that are
// never reached, ladders without end.
func Lint(name string, doc []byte) []Problem {
	_, problems, err := load(name, doc)
	if err != nil {
		return []Problem{{File: name, What: err.Error(), Fix: "report this"}}
	}
	return problems
}

// Default returns the policy that applies where no other is given.
func Default() *Policy {
	p, src := &Policy{canonical: defaultText, hash: entry.DigestOf(defaultText)}, newSource("default.yaml")
	err := json.Unmarshal(defaultText, &p.doc)
	if err == nil {
		err = p.compile(src)
	}
	if err != nil || len(src.problems) > 0 {
		panic(fmt.Sprint(err, src.problems)) // a constant, tested
	}
	return p
}

// FromEntry returns the rules of a policy entry, or the default rules if the entry has none.
func FromEntry(p *entry.Policy) (*Policy, error) {
	if p.Recovery == nil || bytes.Equal(p.Recovery, defaultText) {
		return Default(), nil
	}
	return Load("policy", slices.Concat([]byte(`{"recovery":`), p.Recovery, []byte("}")))
}

// InForce returns the rules that decide under a policy entry: those of [FromEntry], or the default
// rules if the entry's rules do not compile. A log may have such a policy of old, and a failed task
// must not wait for ever because of a mistake elsewhere.
func InForce(p *entry.Policy) *Policy {
	if rules, err := FromEntry(p); err == nil {
		return rules
	}
	return Default()
}

func load(name string, doc []byte) (*Policy, []Problem, error) {
	src, tree := parse(name, doc)
	rules, ok := src.rules(tree)
	if !ok {
		return nil, src.sorted(), nil
	}
	if err := src.checkSchema(rules); err != nil {
		return nil, nil, err
	}
	p := &Policy{}
	text, err := json.Marshal(rules, json.Deterministic(true))
	if err != nil {
		return nil, nil, fmt.Errorf("recovery: encode policy %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &p.doc); err != nil {
		if _, mistyped := errors.AsType[*json.SemanticError](err); mistyped && len(src.problems) > 0 {
			return nil, src.sorted(), nil // the schema has said so
		}
		return nil, nil, fmt.Errorf("recovery: decode policy %s: %w", name, err)
	}
	if p.canonical, err = canonical(&p.doc); err != nil {
		return nil, nil, err
	}
	if err := p.compile(src); err != nil {
		return nil, nil, err
	}
	p.hash = entry.DigestOf(p.canonical)
	return p, src.sorted(), nil
}

// canonical returns the RFC 8785 form of a document.
func canonical(doc *document) (jsontext.Value, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("recovery: encode policy: %w", err)
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("recovery: canonicalize policy: %w", err)
	}
	return v, nil
}

// JSON returns the rules as RFC 8785 JSON: the member recovery of a policy entry.
func (p *Policy) JSON() []byte { return slices.Clone(p.canonical) }

// MarshalYAML returns the rules as YAML in the order of docs/policy.md. Comments of the file are
// lost.
func (p *Policy) MarshalYAML() (any, error) { return p.doc, nil }

// MarshalJSON returns the JSON of [Policy.JSON].
func (p *Policy) MarshalJSON() ([]byte, error) { return p.JSON(), nil }

// Hash returns the digest of [Policy.JSON].
func (p *Policy) Hash() entry.Digest { return p.hash }

// Limits returns the hard caps of one case.
func (p *Policy) Limits() Limits { return p.doc.Limits }

// Models returns the chain that fallback_model goes down.
func (p *Policy) Models() []Model { return slices.Clone(p.doc.Models) }

// Prompts returns the digest of the prompt of each variant that the policy names one of. The name
// first is that of first attempts. A prompt that changes makes another policy, with another digest.
func (p *Policy) Prompts() map[string]entry.Digest { return maps.Clone(p.doc.Variants) }

// Thresholds returns the gates that a run must pass to be promoted.
func (p *Policy) Thresholds() Thresholds {
	t := p.doc.Thresholds
	t.NeverAutoRecover, t.Slices = slices.Clone(t.NeverAutoRecover), slices.Clone(t.Slices)
	t.MissingAllowed = slices.Clone(t.MissingAllowed)
	t.ClassTolerancePPM, t.SliceRecoveryRateMinPPM = maps.Clone(t.ClassTolerancePPM), maps.Clone(t.SliceRecoveryRateMinPPM)
	return t
}

// Remediation returns the advice to people of the first rule that matches a class and
// code whatever else is known; empty if there is none.
func (p *Policy) Remediation(class, code string) string {
	for i := range p.rules {
		r := &p.rules[i]
		c := r.when
		if c.always || (c.classes == nil || slices.Contains(c.classes, class)) && (c.codes == nil || slices.Contains(c.codes, code)) {
			return r.Remediation
		}
	}
	return ""
}
