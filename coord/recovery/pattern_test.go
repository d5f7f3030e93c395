package recovery_test

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
)

// A policy has its patterns in their order, and a mistake in one is named with its place.
func TestPatterns(t *testing.T) {
	with := func(patterns string) string {
		return strings.Replace(lintBase, "  guards:\n", "  patterns:\n"+patterns+"  guards:\n", 1)
	}
	good := with("    - { words: \"seat map * locked\", failure: transient.unavailable, refused: true }\n    - { words: no fare, failure: tool.error }\n")
	p, err := recovery.Load("policy.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Patterns(); len(got) != 2 || got[0].Words != "seat map * locked" || !got[0].Refused || got[1].Failure != "tool.error" {
		t.Errorf("patterns %+v", got)
	}
	if again, err := recovery.Load("policy.yaml", []byte(lintBase)); err != nil || again.Hash() == p.Hash() {
		t.Errorf("the digest of the policy does not tell patterns apart: %v", err)
	}
	for _, c := range [][2]string{
		{"    - { words: \"* \", failure: tool.error }\n", "fit every message"},
		{"    - { words: a, failure: tool }\n", "has no code"},
		{"    - { words: a, failure: tol.error }\n", `unknown class "tol"`},
		{"    - { words: a, failure: transient.timout }\n", "timout"},
		{"    - { words: a, failure: tool.error }\n    - { words: A, failure: tool.error }\n", "are those of pattern 1, which is asked first"},
		{"    - { words: a }\n", "missing"},
		{"    - { words: a, failure: tool.error, regex: x }\n", "unknown member"},
	} {
		_, err := recovery.Load("policy.yaml", []byte(with(c[0])))
		if err == nil || !strings.Contains(err.Error(), c[1]) || !strings.Contains(err.Error(), "policy.yaml:") {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
}
