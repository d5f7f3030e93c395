package recovery_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// The default policy has no mistake, fits an entry, and its hash is that of its
// RFC 8785 form, however the file is written.
func TestDefaultPolicy(t *testing.T) {
	if problems := recovery.Lint("default.yaml", recovery.DefaultDocument()); problems != nil {
		t.Error(problems)
	}
	p := recovery.Default()
	canonical, err := jcs.Transform(p.JSON())
	if err != nil || !slices.Equal(canonical, p.JSON()) {
		t.Errorf("not canonical: %v", err)
	}
	sum := sha256.Sum256(canonical)
	if want := entry.DigestFrom(sum[:]); p.Hash() != want {
		t.Errorf("hash %s, want %s", p.Hash(), want)
	}
	if len(p.JSON()) > entry.MaxEnvelope/2 {
		t.Errorf("%d bytes leave no room for rules of one's own in an entry", len(p.JSON()))
	}
	respelt := strings.ReplaceAll(string(recovery.DefaultDocument()), "{ strategy: escalate }", "\n            strategy: 'escalate' # the end")
	other, err := recovery.Load("other.yaml", []byte(respelt))
	if err != nil || other.Hash() != p.Hash() {
		t.Errorf("respelt: %v, %v", other, err)
	}
}

// A policy entry has the same rules as the file it was made of; one without
// rules means the default.
func TestFromEntry(t *testing.T) {
	file := rules(t, twoRetries)
	p, err := recovery.FromEntry(&entry.Policy{Recovery: file.JSON()})
	if err != nil || p.Hash() != file.Hash() {
		t.Errorf("%v, %v", p, err)
	}
	if p, err = recovery.FromEntry(&entry.Policy{}); err != nil || p.Hash() != recovery.Default().Hash() {
		t.Errorf("without rules: %v, %v", p, err)
	}
	_, err = recovery.FromEntry(&entry.Policy{Recovery: []byte(`{"rules":[]}`)})
	if _, ok := errors.AsType[*recovery.Error](err); !ok {
		t.Errorf("%v", err)
	}
}

// Under a policy entry whose rules do not compile, the default rules decide.
func TestInForce(t *testing.T) {
	file := rules(t, twoRetries)
	if p := recovery.InForce(&entry.Policy{Recovery: file.JSON()}); p.Hash() != file.Hash() {
		t.Errorf("%v", p)
	}
	if p := recovery.InForce(&entry.Policy{Recovery: []byte(`{"rules":[]}`)}); p.Hash() != recovery.Default().Hash() {
		t.Errorf("rules that do not compile: %v", p)
	}
}

// What a policy hands out is a copy: changing it changes no policy.
func TestPolicyNeverChanges(t *testing.T) {
	p := recovery.Default()
	before := p.Hash()
	p.JSON()[0] = 'x'
	p.Models()[0].Name = "x"
	thresholds := p.Thresholds()
	thresholds.Slices[0], thresholds.NeverAutoRecover[0] = "x", "x"
	if p.JSON()[0] != '{' || p.Models()[0].Name != "primary" || p.Thresholds().Slices[0] != "adversarial" || p.Hash() != before ||
		p.Thresholds().NeverAutoRecover[0] != "safety.violation" {
		t.Error("changed from outside")
	}
}

func TestThresholds(t *testing.T) {
	th := recovery.Default().Thresholds()
	th.ClassTolerancePPM = map[string]int64{"verify": 7}
	if th.Tolerance("verify") != 7 || th.Tolerance("tool") != th.TolerancePPM {
		t.Errorf("tolerances %d and %d", th.Tolerance("verify"), th.Tolerance("tool"))
	}
	th.NeverAutoRecover = []string{"safety", "access.denied"}
	for name, want := range map[string]bool{"safety.violation": true, "safety.new": true, "access.denied": true, "access.unauthenticated": false, "tool.error": false} {
		class, code, _ := strings.Cut(name, ".")
		if th.Never(class, code) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// Each class and code has the remediation of its row.
func TestRemediation(t *testing.T) {
	p := recovery.Default()
	for name, want := range map[string]string{
		"transient.unavailable": "check provider status; add a second provider",
		"crash.oom":             "retries are counted at claim; more memory",
		"crash.interrupted":     "",
		"unknown.unknown":       "classify it and add a rule",
		"tool.new":              "classify it and add a rule",
	} {
		class, code, _ := strings.Cut(name, ".")
		if got := p.Remediation(class, code); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			if got := p.Remediation(class, code); (got == "" || got == "classify it and add a rule") && code != "interrupted" {
				t.Errorf("%s.%s has no remediation of its own", class, code)
			}
		}
	}
	if got := rules(t, `rules: [{ id: all, when: "attempts > 0", ladder: [{ strategy: escalate }] }, { id: b, when: "true", ladder: [{ strategy: `+
		`escalate }], remediation: x }]`).Remediation("tool", "error"); got != "" {
		t.Errorf("a rule without remediation: %q", got)
	}
}

// A number of the policy can be read and changed by its path, as a sweep does.
func TestPins(t *testing.T) {
	p := recovery.Default()
	for path, want := range map[string]int64{
		"limits.attempts":                                    6,
		"thresholds.tolerance_ppm":                           50000,
		"rules[transient.timeout].ladder[0].max":             2,
		"rules[1].ladder[0].backoff.factor":                  2,
		"models[long-context].context_tokens":                1000000,
		"rules[capacity.overloaded].ladder[0].min_ms":        5000,
		"rules[transient.timeout].ladder[0].backoff.base_ms": 1000,
	} {
		if got, ok := p.Int(path); !ok || got != want {
			t.Errorf("%s: %d, %t, want %d", path, got, ok, want)
			continue
		}
		other, err := p.With(path, want+1)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, _ := other.Int(path); got != want+1 || other.Hash() == p.Hash() {
			t.Errorf("%s: set to %d, is %d", path, want+1, got)
		}
		if back, err := other.With(path, want); err != nil || back.Hash() != p.Hash() {
			t.Errorf("%s: not the same when set back: %v", path, err)
		}
	}
	for _, path := range []string{"", ".", "limits", "limits.attemptz", "limits.attempts.", "rules[0].id", "rules[none].ladder[0].max", "rules[0", "rules[-1].ladder[0].max",
		"guards[none].x", "models[none].context_tokens", "thresholds.slices[0]", "limits[0]", "limits..attempts", "rules[99].ladder[0].max"} {
		if n, ok := p.Int(path); ok {
			t.Errorf("%q is %d", path, n)
		}
		if _, err := p.With(path, 1); err == nil {
			t.Errorf("%q can be set", path)
		}
	}
	for path, value := range map[string]int64{"limits.attempts": 65, "thresholds.tolerance_ppm": -1, "rules[transient.timeout].ladder[0].max": 0} {
		if _, err := p.With(path, value); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s = %d: %v", path, value, err)
		}
	}
}

// The largest file is read, one byte more is refused.
func TestDocumentMax(t *testing.T) {
	doc := slices.Concat(recovery.DefaultDocument(), []byte("\n#"))
	doc = append(doc, strings.Repeat("x", recovery.DocumentMax-len(doc))...)
	if _, err := recovery.Load("p.yaml", doc); err != nil {
		t.Error(err)
	}
	if _, err := recovery.Load("p.yaml", append(doc, 'x')); err == nil {
		t.Error("one byte more is read")
	}
}

// Conditions have limits of their own: operands and nesting.
func TestConditionLimits(t *testing.T) {
	in := func(n int) string { return "attempts in [" + strings.Repeat("1,", n-1) + "1]" }
	nested := func(n int) string { return strings.Repeat("(", n) + "benign" + strings.Repeat(")", n) }
	for _, c := range []struct{ most, more string }{{in(253), in(254)}, {nested(15), nested(16)}} {
		doc := func(when string) []byte {
			return []byte(document("rules: [{ id: a, when: '" + when + "', ladder: [{ strategy: escalate }] }, { id: b, when: 'true', ladder: [{ strategy: escalate }] }]\n"))
		}
		if problems := recovery.Lint("p.yaml", doc(c.most)); problems != nil {
			t.Error(problems)
		}
		if problems := recovery.Lint("p.yaml", doc(c.more)); len(problems) != 1 || !strings.Contains(problems[0].What, "limit") {
			t.Errorf("%.40s…: %v", c.more, problems)
		}
	}
}
